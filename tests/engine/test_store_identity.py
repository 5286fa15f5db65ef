"""Identities of runs and their criteria are stored and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.criteria import Both, Criterion, Either, Judgement, Outputs, UnknownCriterion, from_dict
from evenhand.engine.store import RunIdentity
from evenhand.errors import EvenhandError, RunError

SPACE = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
CRITERIA = [
    eh.Flip(),
    eh.Gap(0.2),
    eh.Gap(3),
    Both(eh.Flip(), eh.Gap(0.2)),
    Either(Both(eh.Gap(1.5), eh.Flip()), eh.Flip()),
]


def rule(frame: Any) -> Any:
    return (frame["age"] > 4) & (frame["sex"] == "F")


def as_format_1(directory: Path) -> None:
    """Rewrite an identity as format 1 had it, with the criterion as text."""
    file = directory / "identity.json"
    stored = json.loads(file.read_text())
    criterion = from_dict(stored["criterion"])
    file.write_text(json.dumps(stored | {"format": 1, "criterion": repr(criterion)}))


@pytest.mark.parametrize("criterion", CRITERIA, ids=repr)
def test_criteria_are_read_back(criterion: Criterion) -> None:
    assert from_dict(json.loads(json.dumps(criterion.to_dict()))) == criterion


@pytest.mark.parametrize("stored", [{}, {"kind": "Gap"}, {"kind": "Gap", "gamma": "x"}, {"kind": "Flip", "gamma": 1}])
def test_wrong_criteria_are_refused(stored: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, EvenhandError)):
        from_dict(stored)


class Mine(Criterion):
    """A criterion of a user."""

    def judge(self, outputs: Outputs) -> Judgement:
        return eh.Flip().judge(outputs)


def test_a_run_with_a_criterion_of_a_user_is_read_but_not_replayed(tmp_path: Path) -> None:
    run = eh.audit(rule, SPACE, "themis", criterion=Mine(), directory=tmp_path)
    loaded = eh.Run.load(tmp_path)
    assert loaded.found == run.found == 5
    assert isinstance(loaded.identity.criterion, UnknownCriterion)
    assert loaded.identity.to_dict() == run.identity.to_dict() | {"criterion": loaded.identity.criterion.to_dict()}
    with pytest.raises(RunError, match="'Mine'"):
        eh.replay(tmp_path, rule)


@pytest.mark.parametrize("criterion", [eh.Flip(), eh.Flip() | eh.Gap(0.2)], ids=repr)
def test_a_directory_in_format_1_is_loaded_continued_and_replayed(tmp_path: Path, criterion: Criterion) -> None:
    def scores(frame: Any) -> Any:
        return rule(frame) * 0.8 + 0.1

    model = eh.wrap(scores, threshold=0.5)
    arguments: dict[str, Any] = {"strategy": "themis", "criterion": criterion, "directory": tmp_path}
    eh.audit(model, SPACE, budget=eh.Budget(tests=4), **arguments)
    as_format_1(tmp_path)
    assert eh.Run.load(tmp_path).identity.criterion == criterion
    more = eh.audit(model, SPACE, budget=eh.Budget(tests=9), **arguments)
    assert more.tests == 9
    assert eh.replay(tmp_path, model).holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Flip",
        "Flip(",
        "open('x')",
        "Gap(gamma=open('x'))",
        "Gap(**{'gamma': 1})",
        "Gap()",
        "Flip(3)",
        "eh.Flip()",
        "Flip() and Flip()",
        "(" * 5000,
    ],
)
def test_other_texts_are_unknown_criteria(text: str) -> None:
    identity = eh.audit(rule, SPACE, "themis").identity
    read = RunIdentity.from_dict(identity.to_dict() | {"criterion": text})
    assert isinstance(read.criterion, UnknownCriterion)


def test_an_identity_is_read_back() -> None:
    identity = eh.audit(eh.wrap(lambda f: f["age"] / 9, threshold=0.5), SPACE, "kosei", criterion=eh.Gap(0.1)).identity
    assert RunIdentity.from_dict(json.loads(json.dumps(identity.to_dict()))) == identity


def test_an_identity_without_a_part_is_refused() -> None:
    stored = eh.audit(rule, SPACE, "themis").identity.to_dict()
    del stored["seed"]
    with pytest.raises(RunError, match="'seed' is missing"):
        RunIdentity.from_dict(stored)
