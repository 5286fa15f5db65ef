"""Proofs equal enumeration, on random small worlds; so do certificates."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.proofs import additive
from tests.proofs.worlds import ensembles, pipeline, spaces, sums, trees, truth

SEEDS = st.integers(0, 10_000)
FAST, MANY = 8, 400


def check(model: Any, space: eh.Space, exact: bool = True, **limits: Any) -> eh.Proof:
    proof, (fair, unfair, untestable) = eh.prove(model, space, **limits), truth(model, space)
    assert proof.untestable == untestable
    if exact:
        assert (proof.counts.fair, proof.counts.unfair, proof.counts.undecided) == (fair, unfair, 0)
        assert proof.status.value == ("exact" if unfair else "fair")
    assert proof.counts.total == fair + unfair
    assert proof.counts.fair <= fair
    assert proof.counts.unfair <= unfair
    assert (proof.counterexample is None) == (not proof.counts.unfair)
    proof.check(500)
    return proof


def certified(proof: eh.Proof, model: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "proof.json.gz"
        proof.save(path)
        found = eh.check_proof(path, model)
    assert (found.fair, found.unfair, found.untestable) <= (proof.counts.fair, proof.counts.unfair, proof.untestable)
    assert found.fair + found.unfair + found.undecided == proof.counts.total


def prove_both(kind: Any, space: eh.Space, seed: int, missing: bool = False, exact: bool = True) -> None:
    try:
        model = pipeline(space, kind(seed), seed, missing)
    except ValueError:  # fewer than two classes, or constraints without individuals
        return
    proof = check(model, space, exact)
    if hasattr(model[-1], "coef_") or (proof._parts is not None and model[-1].__module__.startswith("sklearn")):
        certified(proof, model)


@settings(max_examples=FAST)
@given(spaces(), SEEDS)
def test_trees(space: eh.Space, seed: int) -> None:
    prove_both(trees, space, seed)


@settings(max_examples=FAST)
@given(spaces(), SEEDS)
def test_sums(space: eh.Space, seed: int) -> None:
    prove_both(sums, space, seed)


@settings(max_examples=FAST)
@given(spaces(), st.booleans(), SEEDS)
def test_ensembles(space: eh.Space, missing: bool, seed: int) -> None:
    prove_both(ensembles, space, seed, missing=missing)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(st.booleans().flatmap(lambda missing: st.tuples(spaces(missing), st.just(missing))), SEEDS)
def test_many_ensembles(world: tuple[eh.Space, bool], seed: int) -> None:
    space, missing = world
    prove_both(ensembles, space, seed, missing=missing and bool(seed // 10 % 2))


@settings(max_examples=FAST)
@given(spaces(missing=True), SEEDS)
def test_missing_values(space: eh.Space, seed: int) -> None:
    prove_both(trees if seed % 2 else sums, space, seed, missing=bool(seed % 3))


@settings(max_examples=FAST)
@given(spaces(), st.integers(0, 3))
def test_grids_contain_the_truth(space: eh.Space, kind: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(additive, "CELLS", 64)
        patch.setattr("evenhand.proofs.checker.CELLS", 128)
        patch.setattr(additive.count, "__defaults__", (0,))
        prove_both(sums, space, 2 * kind, exact=False)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(spaces(), st.booleans(), SEEDS)
def test_many(space: eh.Space, missing: bool, seed: int) -> None:
    del missing
    prove_both(trees if seed % 2 else sums, space, seed // 2)


@pytest.mark.slow
@settings(max_examples=MANY // 2)
@given(spaces(missing=True), SEEDS)
def test_many_with_missing_values(space: eh.Space, seed: int) -> None:
    prove_both(trees if seed % 2 else sums, space, seed // 2, missing=bool(seed % 3))
