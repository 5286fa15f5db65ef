"""Proofs for the people near rows of data equal enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import evenhand as eh
from evenhand.criteria import Flip
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.errors import DataError
from tests.proofs.test_prove import rows, small
from tests.proofs.worlds import ensembles, everyone, pipeline, spaces, sums, trees

SEEDS = st.integers(0, 10_000)


def unfair_ones(model: Any, space: eh.Space, people: Any) -> Any:
    return Judge(ModelProbe(eh.wrap(model), space, Flip()), 0).unfair(space.individuals(people))


def agrees(model: Any, space: eh.Space, within: Any, steps: dict[str, int], missing: bool) -> None:
    """Compare with all individuals within the distance; a step of -1 allows any value."""
    people = everyone(space)
    data = people[:: max(1, len(people) // 30)]
    proof = eh.prove(model, space, data=space.frame(data), within=within)
    assert proof.people is not None
    frame, unfair = proof.people.frame, people[unfair_ones(model, space, people)]
    assert frame["row"].tolist() == list(range(len(data)))
    for row, line in zip(data, frame.to_dict("records"), strict=True):
        distance = np.zeros(len(unfair))
        for j, attribute in enumerate(space.attributes):
            apart = np.abs(unfair[:, j].astype(int) - int(row[j]))
            most = steps.get(attribute.name, 0)
            absent = (apart > 0) & ((unfair[:, j] >= attribute.present) | (row[j] >= attribute.present))
            distance[(apart > most) & (most >= 0) | (absent & (most >= 0))] = np.inf
            distance += apart / max(1, attribute.present - 1) if most > 0 else (apart > 0) * (most < 0)
        least = distance.min(initial=np.inf)
        assert line["verdict"] == ("different" if np.isfinite(least) else "fair")
        if np.isfinite(least):
            assert line["distance"] == pytest.approx(least)
            assert line["nearest"]
    del missing


@settings(max_examples=6)
@given(spaces(), SEEDS)
def test_rows_of_small_worlds(space: eh.Space, seed: int) -> None:
    try:
        model = pipeline(space, [trees, sums, ensembles][seed % 3](seed // 3), seed)
    except ValueError:  # fewer than two classes
        return
    y = space.attributes[space.column("y")].present - 1
    x = space.attributes[space.column("x")].present - 1
    free = {name for j in space.free_columns for name in [space.names[j]]}
    share = {"x": int(0.5 * x), "y": int(0.5 * y)} | ({"group": 0} if "group" in free else {})
    if "group" in free:
        share["group"] = int(0.5 * (space.attributes[space.column("group")].present - 1))
    agrees(model, space, 0.5, {name: n for name, n in share.items() if name in free}, False)
    agrees(model, space, {"x": 1, "kind": True}, {"x": 1, "kind": -1}, False)


@pytest.mark.slow
@settings(max_examples=150)
@given(spaces(), SEEDS)
def test_rows_of_many_worlds(space: eh.Space, seed: int) -> None:
    try:
        model = pipeline(space, [trees, sums, ensembles][seed % 3](seed // 3), seed)
    except ValueError:
        return
    agrees(model, space, {"x": 2, "y": 0.3, "kind": True}, {
        "x": 2, "y": int(0.3 * (space.attributes[space.column("y")].present - 1) + 1e-9), "kind": -1,
    }, False)  # fmt: skip


@pytest.mark.parametrize(
    ("within", "words"),
    [(-1, "for age"), (1.5, "for age"), (float("nan"), "for age"), ({"height": 1}, "height"), ({"age": "x"}, "for age"),
     ({"member": True}, "member")],
)  # fmt: skip
def test_wrong_distances(within: Any, words: str) -> None:
    model = LogisticRegression().fit(*rows(small()))
    frame = small().frame(everyone(small())[:3])
    with pytest.raises(DataError, match=words):
        eh.prove(model, small(), data=frame, within=within)


def test_a_distance_needs_data() -> None:
    with pytest.raises(DataError, match="data"):
        eh.prove(LogisticRegression().fit(*rows(small())), small(), within=0.1)


def test_rows_that_a_limit_leaves_open_are_undecided() -> None:
    model = LogisticRegression().fit(*rows(small()))
    proof = eh.prove(model, small(), data=small().frame(everyone(small())), within=3, seconds=1e-9)
    assert proof.people is not None
    assert proof.people.decided == 0
    assert "undecided" in repr(proof)
