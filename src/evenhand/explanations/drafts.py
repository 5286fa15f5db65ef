"""Drafts of examples: the answers to each side, how real the individual is, and which examples are distinct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.engine.judge import Judge
from evenhand.explanations.distance import Distance
from evenhand.explanations.realism import Realism, could_be
from evenhand.explanations.result import Example
from evenhand.runs.run import Run
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.tabular import Space
from evenhand.words import Pair, native, plain, records, same

DISTINCT = 2
"""Attributes in which two examples differ at least, unless other decisions were made, or about others."""


@dataclass(frozen=True)
class Shrunk:
    """Individuals who are treated differently, the people they were brought to, and the findings they came from."""

    finding: npt.NDArray[np.int64]
    """The places of the findings in the run; -1: none."""
    people: Rows
    place: npt.NDArray[np.int64] | None
    """Positions in the user's data."""
    rows: Rows


@dataclass
class ExampleDraft:
    """A example in the making."""

    example: dict[str, Any]
    row: Rows
    rank: tuple[Any, ...]
    direction: tuple[Any, ...]
    stands_for: int = 0

    def made(self) -> Example:
        """Finish it."""
        return Example(**self.example, stands_for=self.stands_for)


def write_down(
    judge: Judge, shrunk: Shrunk, real: Realism | None, columns: Mapping[str, Any] | None
) -> list[ExampleDraft]:
    """Ask about the results once more, whole families, and write down what was said; the best first."""
    if not len(shrunk.rows):
        return []
    space, distance = judge.space, Distance(judge.space)
    # A few families: not to tell what was found would be worse than some rows more.
    judge.limit = None
    families = space.families(Individuals(space, rows=shrunk.rows), judge.seed)
    answer = judge.judge(families)
    outputs, judged = answer.outputs, _shown(judge.probe.criterion, answer.outputs, answer.verdicts)
    here, labels = np.arange(len(shrunk.rows)), outputs.labels
    rows, others = (families.members(here, place).rows for place in (judged.first, judged.second))
    persons, one, other = (records(space, rows) for rows in (shrunk.people, rows, others))
    far = distance.far(rows, shrunk.people)
    near, strange = (None, None) if real is None else (real.nearness(rows), real.odd(rows))
    likely = None if near is None or strange is None else could_be(near, strange)
    names = [*space.protected, *space.free]
    out = []
    for i in np.flatnonzero(judged.unfair).tolist():
        said = [None if labels is None else native(labels[i, place[i]]) for place in (judged.first, judged.second)]
        changes = {name: other[i][name] for name in names if not same(one[i][name], other[i][name])}
        pair = Pair(one[i], changes, said[0], said[1], float(judged.gap[i]), outputs.scores is not None)
        odd = None if real is None else real.odd_pairs(rows[i])
        row = None if shrunk.place is None else int(shrunk.place[i])
        person, beyond = _recorded(space, persons[i], columns, row)
        changed = {n: (person[n], one[i][n]) for n in space.names if not same(person[n], one[i][n])}
        example = {
            "pair": pair,
            "person": person,
            "row": row,
            "changed": changed,
            "distance": float(far[i]) + beyond,
            "nearness": None if near is None else float(near[i]),
            "odd": odd,
            "realistic": None if likely is None else bool(likely[i]),
            "finding": int(shrunk.finding[i]) if shrunk.finding[i] >= 0 else None,
        }
        nearness = 0.0 if near is None else float(near[i])
        rank = (len(changed), len(odd or []), -nearness, -pair.gap, example["distance"], i)
        direction = (*(str(one[i][name]) for name in space.protected), *map(str, said))
        out.append(ExampleDraft(example, rows[i], rank, direction))
    return sorted(out, key=lambda told: told.rank)


def _recorded(
    space: Space, person: dict[str, Any], columns: Mapping[str, Any] | None, row: int | None
) -> tuple[dict[str, Any], float]:
    """Give a person as the data has it, also where the space ends before a number, and how far beyond that is."""
    if columns is None or row is None:
        return person, 0.0
    out, beyond = dict(person), 0.0
    for attribute in space.attributes:
        mine, real = person[attribute.name], native(columns[attribute.name][row])
        numbers = attribute.ordered and all(isinstance(value, int | float) for value in (mine, real))
        if numbers and plain(real) != plain(mine) and not same(real, mine):
            out[attribute.name] = real
            least, most = attribute.decode(np.array([0, attribute.present - 1])).tolist()
            beyond += abs(real - mine) / ((most - least) or 1)
    return out, beyond


def _shown(criterion: Criterion, outputs: Outputs, judged: Judgement) -> Judgement:
    """Show individuals themselves, each beside the counterpart that is treated most differently.

    A criterion of scores judges any two of a family, and the widest pair need not have the individual in it. Where the
    individual differs enough from nobody, that pair is all there is to show.
    """
    answers = next(a for a in (outputs.labels, outputs.scores) if a is not None)
    count, width = answers.shape[:2]
    of, place = np.repeat(np.arange(count), width), np.tile(np.arange(width), count)
    both = np.column_stack([outputs.own[of], place])
    labels, scores = (None if a is None else a[of[:, None], both] for a in (outputs.labels, outputs.scores))
    beside = criterion.judge(Outputs(labels, scores, np.zeros(len(of), dtype=np.int64)))
    gaps = np.where(beside.unfair, beside.gap, -np.inf).reshape(count, width)
    best, here = gaps.argmax(axis=1), np.arange(count)
    use = (judged.first != outputs.own) & (gaps[here, best] > -np.inf)
    return Judgement(
        judged.unfair,
        np.where(use, outputs.own, judged.first),
        np.where(use, best, judged.second),
        np.where(use, gaps[here, best], judged.gap),
    )


def distinct(told: list[ExampleDraft], n: int) -> list[ExampleDraft]:
    """Keep the best of each example: another direction, or other values of at least two attributes."""
    kept: list[ExampleDraft] = []
    for one in told:
        alike = (k for k in kept if k.direction == one.direction and (k.row != one.row).sum() < DISTINCT)
        if next(alike, None) is None and all((k.row != one.row).any() for k in kept):
            kept.append(one)
    return kept[:n]


def count_findings(run: Run, kept: list[ExampleDraft]) -> None:
    """Tell each example how many findings are nearest to it."""
    if not run.found or not kept:
        return
    distance = Distance(run.space)
    examples = np.stack([one.row for one in kept])
    nearest = distance.nearest(run.pairs.individuals().rows, examples)[:, 0]
    for one, count in zip(kept, np.bincount(nearest, minlength=len(kept)).tolist(), strict=True):
        one.stands_for = count
