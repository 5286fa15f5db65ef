"""Runs with more findings and keys than are kept in memory."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import _keyset
from evenhand.spaces import findings as module
from tests.worlds import random_world


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a few hundred keys and findings in memory."""
    monkeypatch.setattr(module, "IN_MEMORY", 1000)
    for name, value in {"MOST": 8, "FIRST": 4, "PART": 64, "BITS": 16, "MOST_BITS": 20}.items():
        monkeypatch.setattr(_keyset, name, value)


@pytest.mark.parametrize("strategy", ["themis", "kosei"])
def test_files_instead_of_memory_change_nothing(strategy: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    world = random_world(5, 20_000)
    budget = eh.Budget(tests=3000)
    plain = eh.audit(eh.wrap(world.model, chunk=200), world.space, strategy, budget, seed=1)
    request.getfixturevalue("small")
    run = eh.audit(eh.wrap(world.model, chunk=200), world.space, strategy, budget, seed=1, directory=tmp_path)
    assert run.pairs.columns is not None
    assert run.findings.equals(plain.findings)
    assert (run.tests, run.stop, run.counts["repeats"]) == (plain.tests, plain.stop, plain.counts["repeats"])
    assert eh.Run.load(tmp_path).findings.equals(plain.findings)
    assert pickle.loads(pickle.dumps(run)).findings.equals(plain.findings)


def test_pages_are_parts_of_the_findings(small: Any) -> None:
    world = random_world(5, 20_000)
    run = eh.audit(eh.wrap(world.model, chunk=200), world.space, "themis", eh.Budget(tests=2000))
    pages = [run.page(start, 70) for start in range(0, run.found, 70)]
    assert [len(page) for page in pages[:-1]] == [70] * (len(pages) - 1)
    every = run.findings
    for number, page in enumerate(pages):
        assert page.equals(every.iloc[70 * number : 70 * number + 70].reset_index(drop=True))
    with pytest.raises(eh.errors.RunError, match="start"):
        run.page(-1)


def test_refuted_findings_leave_the_files(small: Any) -> None:
    world = random_world(5, 20_000)
    run = eh.audit(eh.wrap(world.model, chunk=200), world.space, "themis", eh.Budget(tests=2000))
    before, gone = run.findings, np.array([0, 5, run.found - 1])
    run.pairs.drop(gone)
    assert run.pairs.frame().equals(before.drop(index=gone).reset_index(drop=True))
