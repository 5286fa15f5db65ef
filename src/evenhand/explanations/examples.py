"""The pairs that tell most: shrunk to real people, ranked, and one for each distinct example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._rng import Stream
from evenhand._validate import is_int
from evenhand.engine.judge import Judge
from evenhand.errors import DataError, StrategyError
from evenhand.explanations.distance import Distance, Numbers
from evenhand.explanations.drafts import ExampleDraft, Shrunk, count_findings, distinct, write_down
from evenhand.explanations.realism import Realism, could_be
from evenhand.explanations.result import Examples
from evenhand.explanations.shrinking import Positions, Shrinker, best_of, nearest_people
from evenhand.runs.replay import asker_of, judge_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.tabular import Encoded, Space
from evenhand.words import directions, spread

CANDIDATES, CELLS = 5_000, 2**19
"""Findings that are looked at, a seeded choice where there are more; and the most codes that they have together."""
FEWEST = 500
"""Findings that are looked at however many attributes they have."""
SHRUNK = 3
"""Findings that are shrunk for each example that is wanted."""
NEAREST = 3
"""Real people from whom each finding is reached."""
ENOUGH = 3
"""People for each example that is wanted, after whom larger changes are not looked for."""
FIRST = 2
"""The part of the rows that asking real people as they are may take, where there is more to ask."""


@dataclass(frozen=True)
class Known:
    """What is known of real people as they are."""

    people: Positions
    """People of the data who are treated differently."""
    judged: int
    """Real people who were judged."""
    affected: int
    """Those of the judged who are treated differently; the data may have others like them."""


def examples(
    run: Run,
    model: Any = None,
    data: Any = None,
    n: int = 10,
    seed: int = 0,
    *,
    rows: int = 200_000,
) -> Examples:
    """Choose distinct findings and shrink each to the least change of a real person that is still discriminatory.

    Real people come first: whoever in the data is treated differently as they are needs no change. Of two individuals
    the one is nearer to a person that differs in fewer attributes, and of those the one that differs by less, ordered
    attributes counting the share of their range and nominal ones 1. The best example comes first: fewest
    attributes changed, then no odd pairs of values, then nearness to the data, then the wider gap.

    Parameters
    ----------
    run
        Any run: from memory, or kept in a directory.
    model
        Anything that ``wrap`` takes; needed for a run that was read from its directory, else by default the run's own.
    data
        Real rows. Without them findings are brought towards the central individual of the space, and nothing is said
        about how real they are.
    n
        How many examples, at most.
    seed
        Same seed, same examples.
    rows
        The most rows to ask the model, outside all budgets.

    Examples
    --------
    >>> import evenhand as eh, pandas as pd
    >>> space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["age"] < 30) & (frame["sex"] == "F")
    >>> run = eh.audit(refuse, space, strategy="themis")
    >>> example = eh.examples(run, data=pd.DataFrame({"age": [33, 60], "sex": ["F", "F"]}))[0]
    >>> example.sentence
    'row 0 of the data with age 29 instead of 33: age 29, sex F: True. The same person with sex M: False.'
    """
    asker = asker_of(run, model, "eh.examples")
    for name, value, least in (("n", n, 1), ("rows", rows, 1), ("seed", seed, 0)):
        if not is_int(value) or value < least:
            raise StrategyError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return examples_of(run, judge_of(run, asker, int(rows)), data, int(n), int(seed))


def examples_of(run: Run, judge: Judge, data: Any, n: int, seed: int, known: Known | None = None) -> Examples:
    """Do what ``examples`` does; people whose verdict is ``known`` are not asked again."""
    people = None if data is None else _people(run.space, data)
    candidates = Candidates.of(run, people, seed)
    shrinker = Shrinker(judge)
    kept, judged, affected = list[ExampleDraft](), 0, 0
    real, columns = candidates.real, None if data is None else columns_of(data)
    if people is not None:
        real_ones = known or _affected(judge, people.individuals, seed, FIRST if run.found else 1)
        judged, affected = real_ones.judged, real_ones.affected
        unchanged = _as_they_are(candidates, people, real_ones.people, SHRUNK * n)
        limit, kept = judge.limit, distinct(write_down(judge, unchanged, real, columns), n)
        judge.limit = limit
    if len(kept) < n and run.found:
        shrunk = _shrunk(candidates, shrinker, people, n)
        kept = distinct(sorted([*kept, *write_down(judge, shrunk, real, columns)], key=lambda one: one.rank), n)
    count_findings(run, kept)
    return Examples(
        [example.made() for example in kept],
        run.found,
        candidates.realistic,
        len(candidates.at),
        data is not None,
        judge.rows,
        shrinker.complete and (people is None or judged >= len(people.individuals)),
        judged,
        affected,
    )


@dataclass(frozen=True)
class Candidates:
    """Findings that are looked at, and how real they are."""

    run: Run
    at: Positions
    rows: Rows
    real: Realism | None
    nearness: Numbers | None
    odd: Numbers | None

    @classmethod
    def of(cls, run: Run, people: Encoded | None, seed: int) -> Candidates:
        """Take all findings, or a seeded choice of many."""
        at, most = np.arange(run.found), max(FEWEST, min(CANDIDATES, CELLS // len(run.space.names)))
        if run.found > most:
            at = np.sort(Stream(seed).shuffled(np.arange(most), run.found, "examples"))
        rows = run.pairs.individuals("individual", at).rows if run.found else np.zeros((0, len(run.space.names)), "i4")
        if people is None:
            return cls(run, at, rows, None, None, None)
        real = Realism(run.space, people.individuals)
        return cls(run, at, rows, real, real.nearness(rows), real.odd(rows))

    @property
    def realistic(self) -> float | None:
        """The share of them that could be real."""
        if self.nearness is None or self.odd is None or not len(self.at):
            return None
        return float(could_be(self.nearness, self.odd).mean())

    def chosen(self, count: int) -> Positions:
        """Choose which to shrink: realistic ones with wide gaps before others, and unlike each other."""
        pairs = self.run.pairs
        gaps = pairs.select("gap", self.at) if "gap" in pairs.joined() else np.ones(len(self.at))
        keys = [-gaps] if self.nearness is None or self.odd is None else [-gaps, -self.nearness, self.odd]
        order = np.lexsort(keys)[: max(10 * count, len(self.at) // 10)]
        numbers = directions(self.run, self.run.found)[self.at[order]]
        return order[spread(self.rows[order][:, self.run.space.free_columns], numbers, count)]


def _people(space: Space, data: Any) -> Encoded:
    encoded = space.encode(data)
    if not len(encoded.individuals):
        raise DataError(f"none of the {encoded.dropped:,} rows of the data is in the space; give rows of the space")
    return encoded


def _affected(judge: Judge, people: Individuals, seed: int, part: int) -> Known:
    """Ask real people as they are, all of them or as many as the rows allow: who is affected, and how many were asked.

    Families of the same people are asked once, so that this never asks more rows than it counts on.
    """
    at = np.arange(len(people))
    room = len(people) if judge.limit is None else judge.limit // (judge.cost * part)
    if room < len(people):
        at = np.sort(Stream(seed).shuffled(np.arange(room), len(people), "people"))
    unfair = at[judge.unfair(people[at])]
    return Known(unfair, len(at), len(unfair))


def _as_they_are(candidates: Candidates, people: Encoded, affected: Positions, count: int) -> Shrunk:
    """Choose real people who are affected without any change, unlike each other, with the findings nearest to them."""
    space, rows = candidates.run.space, people.individuals.rows[affected]
    if len(rows):
        own = np.unique(rows[:, space.protected_columns], axis=0, return_inverse=True)[1].reshape(-1)
        some = spread(rows[:, space.free_columns], own, count)
        affected, rows = affected[some], rows[some]
    finding = np.full(len(rows), -1)
    if len(rows) and len(candidates.at):
        finding = candidates.at[Distance(space).nearest(rows, candidates.rows)[:, 0]]
    return Shrunk(finding, rows, people.positions[affected], rows)


def _shrunk(candidates: Candidates, shrinker: Shrinker, people: Encoded | None, n: int) -> Shrunk:
    """Bring chosen findings to the people nearest to them, or to the centre of the space."""
    chosen = candidates.chosen(SHRUNK * n)
    findings, at = candidates.rows[chosen], candidates.at[chosen]
    if people is None:
        centre = np.repeat(_centre(candidates.run)[None], len(findings), axis=0)
        return Shrunk(at, centre, None, shrinker.towards(centre, findings))
    rows = people.individuals.rows
    of, near = nearest_people(shrinker.distance, findings, rows, NEAREST)
    shrunk = shrinker.shrink(rows[near], findings[of], ENOUGH * n)
    best = best_of(shrinker.distance, shrunk, rows[near], of, len(findings))
    return Shrunk(at, rows[near[best]], people.positions[near[best]], shrunk[best])


def _centre(run: Run) -> Rows:
    """The middle of every range, and of nominal attributes the commonest value of the findings; a valid neighbour."""
    space = run.space
    rows = run.pairs.individuals("individual", slice(CANDIDATES)).rows
    centre = np.array(
        [(space.present[j] - 1) // 2 if space.ordered[j] else np.bincount(rows[:, j]).argmax()
         for j in range(len(space.names))],
        dtype=np.int32,
    )  # fmt: skip
    if space.valid(centre[None])[0]:
        return centre
    return np.asarray(rows[Distance(space).nearest(centre[None], rows)[0, 0]])
