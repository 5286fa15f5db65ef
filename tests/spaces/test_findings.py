from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import ModelError
from evenhand.spaces.findings import Decisions, Findings

SPACE = eh.Space([eh.Integer("x", 0, 9999), eh.Boolean("b")], protected="b")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.data())
def test_selecting_does_not_join_blocks(sizes: list[int], data: st.DataObject) -> None:
    findings = Findings(SPACE)
    total = sum(sizes)
    every = np.arange(total) * 3
    for part in np.split(every, np.cumsum(sizes)[:-1]):
        findings.add({"individual": part, "counterpart": part + 1, "decision": part}, len(part))
    at = np.array(sorted(data.draw(st.sets(st.integers(0, total - 1)))), dtype=np.int64)
    assert findings.select("individual", at).tolist() == every[at].tolist()
    assert len(findings.blocks) == len(sizes)
    assert findings.select("individual").tolist() == every.tolist()
    assert findings.select("counterpart", at).tolist() == (every[at] + 1).tolist()
    assert len(findings.blocks) == 1


@given(st.lists(st.lists(st.sampled_from([0, 1, 7, 300, -1, "a", "b", "1"]), max_size=20), max_size=5))
def test_decisions_are_packed_and_unpacked_as_the_table_grows(blocks: list[list[object]]) -> None:
    table = Decisions()
    for block in blocks:
        labels = np.empty(len(block), dtype=object)
        labels[:] = block
        packed = table.pack(labels)
        # A reader knows the table as it was then.
        assert Decisions(list(table.values)).unpack(packed, len(block)).tolist() == block
        assert packed.nbytes == ((len(block) + 7) // 8 if len(table.values) <= 2 else len(block))


@given(st.lists(st.lists(st.sampled_from([0, 1, 7, 300, -1, "a", "b", "1"]), max_size=6), max_size=5))
def test_decisions_keep_their_values(blocks: list[list[object]]) -> None:
    table = Decisions()
    coded = []
    for block in blocks:
        labels = np.empty(len(block), dtype=object)
        labels[:] = block
        coded.append(table.encode(labels))
    for block, codes in zip(blocks, coded, strict=True):
        assert table.decode(codes).tolist() == block


@pytest.mark.parametrize("dtype", ["int64", "int8", "uint16", "bool", "U3"])
def test_typed_labels_come_back(dtype: str) -> None:
    labels = np.array([1, 0, 1, 1]).astype(dtype)
    table = Decisions()
    assert (table.decode(table.encode(labels)) == labels).all()
    assert (table.decode(table.encode(labels[::-1])) == labels[::-1]).all()


def test_too_many_labels_look_like_a_regression() -> None:
    with pytest.raises(ModelError, match="regression"):
        Decisions().encode(np.arange(40_000))


@pytest.mark.parametrize("decisions", [(False, True), (0, 1), ("no", "yes")])
def test_empty_findings_keep_their_types(decisions: tuple[object, object]) -> None:
    values = np.array(decisions)

    def model(frame: pd.DataFrame) -> object:
        return values[((frame["x"] > 5_000) & frame["b"]).to_numpy(dtype=np.int64)]

    runs = (eh.audit(model, SPACE, "themis", eh.Budget(tests=1), seed=seed) for seed in range(20))
    small = next(run for run in runs if not run.found)
    large = eh.audit(model, SPACE, "themis", eh.Budget(tests=500), seed=small.identity.seed)
    assert small.found == 0 < large.found
    assert small.findings.equals(large.findings.head(small.found))
    assert small.pairs.individuals().rows.shape == (0, 2)


def test_empty_findings_are_read_back(tmp_path: Path) -> None:
    run = eh.audit(lambda frame: frame["x"] > 5, SPACE, "themis", eh.Budget(tests=9), directory=tmp_path / "run")
    assert run.found == 0
    assert eh.Run.load(tmp_path / "run").findings.equals(run.findings)
