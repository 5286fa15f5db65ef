"""A run's directory never loses findings, and never mixes the answers of two models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.errors import RunError

SPACE = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Integer("sex", 0, 1)], protected="sex")


def model(corner: int = 0) -> Any:
    """Refuse women of low ``a``; a changed model also refuses them, or no longer does, in a corner."""

    def rule(X: Any) -> Any:
        refused = (X[:, 0] < 20) & (X[:, 2] == 0)
        inside = (X[:, 0] + X[:, 1] < corner) if corner > 0 else (X[:, 0] + X[:, 1] > 198 + corner)
        return refused ^ (inside & (X[:, 2] == 0))

    return eh.wrap(rule, input="array", name="rule")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"}


@pytest.mark.parametrize("strategy", ["themis", "kosei", "aequitas"])
def test_a_smaller_budget_returns_the_prefix_and_leaves_the_files(strategy: str, tmp_path: Path) -> None:
    large = eh.audit(model(), SPACE, strategy, eh.Budget(tests=3000), directory=tmp_path / "r")
    before = files(tmp_path / "r")
    for budget in (eh.Budget(tests=100), eh.Budget(findings=7), eh.Budget(rows=333), eh.Budget(tests=2999)):
        small = eh.audit(model(), SPACE, strategy, budget, directory=tmp_path / "r")
        assert small.tests < large.tests
        assert small.findings.equals(large.findings.head(small.found))
        assert files(tmp_path / "r") == before
    assert eh.Run.load(tmp_path / "r").found == large.found


@pytest.mark.slow
@pytest.mark.parametrize("small", [eh.Budget(tests=1001), eh.Budget(rows=1001)], ids=["tests", "rows"])
def test_a_run_that_its_budget_ended_inside_a_block_is_extended_to_the_same_tests(
    small: eh.Budget, tmp_path: Path
) -> None:
    fresh = eh.audit(model(), SPACE, "aequitas", eh.Budget(tests=3000), directory=tmp_path / "fresh")
    eh.audit(model(), SPACE, "aequitas", small, directory=tmp_path / "r")
    extended = eh.audit(model(), SPACE, "aequitas", eh.Budget(tests=3000), directory=tmp_path / "r")
    assert (extended.tests, extended.asked) == (fresh.tests, fresh.asked)
    assert extended.findings.equals(fresh.findings)


def test_a_killed_run_keeps_its_findings_under_a_smaller_budget(tmp_path: Path) -> None:
    large = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    (tmp_path / "r" / "run.json").unlink()
    assert eh.audit(model(), SPACE, "themis", eh.Budget(tests=100), directory=tmp_path / "r").tests == 100
    assert eh.Run.load(tmp_path / "r").found == large.found


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(budgets=st.lists(st.integers(1, 3000), min_size=1, max_size=5))
def test_a_directory_never_loses_findings(budgets: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    directory, most = tmp_path_factory.mktemp("kept") / "r", 0
    for tests in budgets:
        run = eh.audit(model(), SPACE, "themis", eh.Budget(tests=tests), directory=directory)
        assert run.tests == tests
        most = max(most, tests)
        assert eh.Run.load(directory).tests == most


@pytest.mark.parametrize("corner", [60, -60])
@pytest.mark.parametrize("tests", [3000, 6000, 500])
def test_changes_outside_the_fixed_rows_are_detected(corner: int, tests: int, tmp_path: Path) -> None:
    # The corner has findings that are gone now (60), or none that are there now (-60).
    eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    blind = Blind(model(corner), model())
    with pytest.raises(RunError, match="the model has changed since the run in .*r was made.*use a new directory"):
        eh.audit(blind, SPACE, "themis", eh.Budget(tests=tests), directory=tmp_path / "r")


class Blind(eh.Model):
    """A changed model that answers the fixed rows, and those alone, as the old one did."""

    name, input = "rule", "array"

    def __init__(self, new: Any, old: Any) -> None:
        self.new, self.old = new, old
        self.fixed = {tuple(row) for row in SPACE.array(SPACE.probes(None).rows).tolist()}

    def labels(self, X: Any) -> Any:
        fixed = np.array([tuple(row) in self.fixed for row in X.tolist()])
        return np.where(fixed, self.old.labels(X), self.new.labels(X))


def test_the_same_model_is_recognised(tmp_path: Path) -> None:
    for tests in (3000, 3000, 6000, 200):
        run = eh.audit(model(), SPACE, "themis", eh.Budget(tests=tests), directory=tmp_path / "r")
        assert run.tests == tests


def test_a_model_file_that_changed_is_refused(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, (200, 3))
    fitted = LogisticRegression().fit(X, X[:, 0] > 50)
    skops.dump(fitted, tmp_path / "model.skops")
    run = eh.audit(tmp_path / "model.skops", SPACE, "themis", eh.Budget(tests=500), directory=tmp_path / "r")
    stored = json.loads((tmp_path / "r" / "identity.json").read_text())
    assert len(stored["model_sha256"]) == 64
    # The same model from memory goes on with the run; another file does not.
    assert eh.audit(fitted, SPACE, "themis", eh.Budget(tests=500), directory=tmp_path / "r").found == run.found
    fitted.coef_ = fitted.coef_ + 1e-9
    skops.dump(fitted, tmp_path / "model.skops")
    with pytest.raises(RunError, match="model file has changed"):
        eh.audit(tmp_path / "model.skops", SPACE, "themis", eh.Budget(tests=500), directory=tmp_path / "r")


def test_a_changed_model_of_a_resumed_run_is_not_called_random(tmp_path: Path) -> None:
    """Findings of the log that the model takes back show that it has changed; the directory stays as it was."""
    eh.audit(model(), SPACE, "themis", eh.Budget(tests=6000), directory=tmp_path / "r")
    before = files(tmp_path / "r")
    one = eh.Run.load(tmp_path / "r").findings.iloc[700]

    def taken_back(X: Any) -> Any:
        # A single individual: no sample is sure to meet it, but in the end every finding is asked again.
        return model().labels(X) & ~((X[:, 0] == one["a"]) & (X[:, 1] == one["b"]))

    with pytest.raises(RunError, match="the model has changed"):
        eh.audit(eh.wrap(taken_back, input="array", name="rule"), SPACE, "themis", eh.Budget(tests=7000),
                 directory=tmp_path / "r")  # fmt: skip
    assert files(tmp_path / "r")["run.json"] == before["run.json"]


@pytest.mark.parametrize("left", [0.0, 0.3, 0.9, 0.999])
def test_a_run_without_the_end_of_its_log_continues(left: float, tmp_path: Path) -> None:
    whole = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    log, before = tmp_path / "r" / "answers.log", files(tmp_path / "r")
    log.write_bytes(before["answers.log"][: int(left * len(before["answers.log"]))])
    with pytest.raises(RunError, match="delete it, .* or run the same audit again"):
        eh.Run.load(tmp_path / "r")
    again = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    assert again.findings.equals(whole.findings)
    assert log.read_bytes() == before["answers.log"]
    assert eh.Run.load(tmp_path / "r").found == whole.found


def test_a_finished_run_whose_log_is_damaged_is_still_refused(tmp_path: Path) -> None:
    eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    log = tmp_path / "r" / "answers.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(RunError, match="damaged"):
        eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")


def test_confirming_fewer_findings_keeps_the_confirmed_ones(tmp_path: Path) -> None:
    whole = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r")
    assert whole.confirmed == whole.found > 100
    again = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "r", confirm=5)
    assert (again.confirmed, eh.Run.load(tmp_path / "r").confirmed) == (whole.found, whole.found)
    few = eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "few", confirm=5)
    assert (few.confirmed, few.unconfirmed) == (5, few.found - 5)
    assert eh.audit(model(), SPACE, "themis", eh.Budget(tests=3000), directory=tmp_path / "few").unconfirmed == 0
