"""Certificates hold for their model only, and a changed one is refused."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.errors import EvenhandError, RunError
from tests.proofs.test_prove import rows, small

SOURCE = Path(eh.__file__).parent / "proofs" / "checker.py"


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


def write(path: Path, content: Any) -> None:
    """Write a changed certificate, with a digest that fits."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, separators=(",", ":"), sort_keys=True)
    content = rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


def models() -> list[Any]:
    data = rows(small())
    return [
        DecisionTreeClassifier(max_depth=4).fit(*data),
        LogisticRegression().fit(*data),
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(*data),
        GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0).fit(*data),
    ]


@pytest.mark.parametrize("model", models(), ids=lambda model: type(model).__name__)
def test_changed_certificates_are_refused(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.json.gz"
    eh.prove(model, small()).save(path)
    eh.check_proof(path, model)
    content, rng, changed = read(path), random.Random(0), 0
    while changed < (50 if hasattr(model, "estimators_") else 100):
        forged = copy.deepcopy(content)
        where = forge(forged, rng)
        if forged == content:
            continue
        changed += 1
        write(path, forged)
        with pytest.raises(RunError):
            print(where, eh.check_proof(path, model))
    path.write_bytes(gzip.compress(json.dumps(content | {"status": "fair"}).encode()))
    with pytest.raises(RunError, match="digest"):
        eh.check_proof(path, model)


def forge(content: Any, rng: random.Random) -> str:
    """Change one claim of a certificate."""
    counts = content["counts"]
    kinds = ["moved", "added", "status"]
    kinds += (
        ["verdict", "cut", "column", "group", "lost"]
        if content["kind"] == "trees"
        else ["term", "error", "cut of a sum"]
    )
    kind = rng.choice(kinds)
    some = rng.randint(1, 5)
    if kind == "moved":
        first, second = rng.sample(["fair", "unfair"], 2)
        counts[first] += some
        counts[second] -= some
    elif kind == "added":
        counts[rng.choice(["fair", "unfair", "untestable"])] += some
    elif kind == "status":
        content["status"] = rng.choice(["fair", "bracket", "stopped", "certain"])
    elif kind in ("term", "error", "cut of a sum"):
        if kind == "term":
            one = rng.choice(content["terms"])
            one[rng.randrange(len(one))] += rng.uniform(0.01, 1)
        elif kind == "error":
            content["error"] = rng.choice([0.0, -1.0, 10.0])
        else:
            content["cut"] += rng.uniform(0.01, 1)
    else:
        boxes, splits = content["boxes"], content["splits"]
        box = rng.randrange(len(boxes["number"]))
        inner = rng.choice([at for at, column in enumerate(splits["column"]) if column >= 0])
        if kind == "verdict":
            boxes["verdicts"][box][0] = rng.choice([0, 1, 3, 4, 7])
        elif kind == "cut":
            splits["cut"][inner] += rng.choice([-1, 1])
        elif kind == "column":
            splits["column"][inner] = rng.choice([-1, 0, 1, 2])
        elif kind == "group":
            rng.choice([content["groups"], content["groups"][0]]).append(rng.choice([[0], [], 1, -1]))
        else:
            for part in (boxes["number"], boxes["verdicts"]):
                del part[box]
    return kind


def test_certificates_of_other_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.json.gz"
    tree, line, *_ = models()
    data, labels = rows(small(), seed=1)
    for model, other in ((tree, DecisionTreeClassifier(max_depth=4)), (line, LogisticRegression())):
        eh.prove(model, small()).save(path)
        for wrong in (other.fit(data, labels), line if model is tree else tree):
            with pytest.raises(EvenhandError, match="refused"):
                eh.check_proof(path, wrong)


@pytest.mark.parametrize(
    "content",
    [b"", b"text", gzip.compress(b"[1]"), gzip.compress(b"{}"), gzip.compress(b"x")[:-4]],
    ids=["empty", "text", "list", "nothing in it", "cut"],
)
def test_files_that_are_not_certificates(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "proof.json.gz"
    path.write_bytes(content)
    with pytest.raises(EvenhandError):
        eh.check_proof(path, models()[0])


def test_models_that_cannot_read_the_space_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "proof.json.gz"
    tree = models()[0]
    eh.prove(tree, small()).save(path)
    unfitted = make_pipeline(StandardScaler(), tree)
    with pytest.raises(RunError, match="cannot read individuals"):
        eh.check_proof(path, unfitted)
    with pytest.raises(RunError, match="no such file"):
        eh.check_proof(tmp_path / "nowhere.gz", tree)


def test_the_checker_shares_no_code_with_the_prover() -> None:
    assert "evenhand.proofs" not in SOURCE.read_text()
