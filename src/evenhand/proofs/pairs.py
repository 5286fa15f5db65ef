"""Pairs of an individual and a counterpart, as frames in the columns of findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evenhand.engine.judge import Judge
from evenhand.spaces.individuals import Individuals


def pairs_of(judge: Judge, people: Individuals) -> pd.DataFrame:
    """Ask about individuals that are treated differently, and return one pair of each family.

    >>> from evenhand.criteria import Flip; from evenhand.engine.judge import ModelProbe
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> judge = Judge(ModelProbe(wrap(lambda frame: (frame["age"] < 4) & frame["member"]), space, Flip()), 0)
    >>> pairs_of(judge, space.individuals([[3, 0]])).iloc[0].to_dict()
    {'age': 3, 'member': False, 'counterpart_member': True, 'decision': False, 'counterpart_decision': True}
    """
    families = judge.probe.space.families(people, 0)
    judged = judge.judge(families)
    labels, verdict, rows = judged.outputs.labels, judged.verdicts, np.arange(len(people))
    assert labels is not None
    first, second = np.asarray(verdict.first, dtype=np.int64), np.asarray(verdict.second, dtype=np.int64)
    return frame_of(
        judge, families.rows[rows, first], families.rows[rows, second], labels[rows, first], labels[rows, second]
    )


def frame_of(
    judge: Judge, first: npt.NDArray[Any], second: npt.NDArray[Any], *decisions: npt.NDArray[Any]
) -> pd.DataFrame:
    """Return pairs of rows of codes, and the decisions about both."""
    space = judge.probe.space
    out, others = space.frame(first), space.frame(second)
    linked = [name for ends in space.links.values() for name in ends]
    for name in dict.fromkeys([*space.protected, *linked]):
        out[f"counterpart_{name}"] = others[name]
    out["decision"], out["counterpart_decision"] = decisions
    return out
