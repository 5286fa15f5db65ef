"""``evenhand prove`` and ``evenhand check-proof``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import skops.io
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from tests.proofs.test_prove import rows, small


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    space, (data, labels) = small(), rows(small())
    space.save("space.toml")
    skops.io.dump(DecisionTreeClassifier(max_depth=4).fit(data, labels), "model.skops")
    skops.io.dump(DecisionTreeClassifier(max_depth=4).fit(data * [1, 1, 0], labels), "fair.skops")
    skops.io.dump(GaussianNB().fit(data, labels), "bayes.skops")
    return tmp_path


def test_a_proof_and_its_certificate(evenhand: Any, files: Path) -> None:
    done = evenhand("prove", "--model", "model.skops", "--space", "space.toml", "--save", "proof.json.gz")
    assert done.exit_code == 1
    assert "Exactly" in done.output
    # Whole numbers are written as such.
    pair = done.output.split("For example:")[1]
    assert re.search(r"\d", pair)
    assert not re.search(r"\d\.0\b", pair)
    checked = evenhand("check-proof", "proof.json.gz", "--model", "model.skops")
    assert checked.exit_code == 0
    assert "Confirmed" in checked.output
    refused = evenhand("check-proof", "proof.json.gz", "--model", "fair.skops")
    assert refused.exit_code == 2
    assert "refused" in refused.output
    assert evenhand("check-proof", "proof.json.gz").exit_code == 2
    del files


def test_json_and_exit_statuses(evenhand: Any, files: Path) -> None:
    done = evenhand("prove", "--model", "fair.skops", "--space", "space.toml", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["status"] == "fair"
    stopped = evenhand("prove", "--model", "fair.skops", "--space", "space.toml", "--boxes", "1", "--quiet")
    assert stopped.exit_code == 3
    unread = evenhand("prove", "--model", "bayes.skops", "--space", "space.toml")
    assert unread.exit_code == 2
    assert "evenhand estimate" in unread.output
    wrong = evenhand("prove", "--model", "model.skops", "--space", "space.toml", "--seconds", "0")
    assert wrong.exit_code == 2
    assert "--seconds" in wrong.output
    del files
