"""Examples: findings shrunk to the smallest change of a real person, ranked, one for each distinct case."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, islice
from math import comb
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from evenhand._format import Viewed, percent, plain
from evenhand._rng import Stream
from evenhand._validate import check_bool, check_int
from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.engine.judge import Judge
from evenhand.errors import DataError, StrategyError
from evenhand.runs.pair_sentences import Pair, Positions, choose, pairs_of, records, unlike
from evenhand.runs.replay import judge_of, probe_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of, json_value, native, pd, same
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.realism import Distance, Likeness, Numbers, Realism
from evenhand.spaces.tabular import Encoded, Space

CANDIDATES, CELLS = 5_000, 2**19
"""Maximum number of findings to consider, chosen by the seed; and of codes that they have together."""
FEWEST = 500
"""Minimum number of findings to consider, however many attributes they have."""
SHRUNK = 3
"""Findings to shrink for each wanted example."""
NEAREST = 3
"""Real people from which each finding is approached."""
ENOUGH = 3
"""People for each wanted example; once they are found, larger changes are not tried."""
FIRST = 2
"""The share of the rows that judging real people unchanged may take, if there is more to judge."""
DISTINCT = 2
"""Minimum number of attributes in which two examples with the same decisions for the same values differ."""


@dataclass(frozen=True)
class Example:
    """One distinct example of discrimination: the pair nearest to a real person. Returned by ``eh.examples``."""

    pair: Pair
    """The individual, its counterpart, and the model's decision for each."""
    person: dict[str, Any] = field(repr=False)
    """The real person as recorded in the data, or the central individual if there was no data."""
    row: int | None
    """The person's row in the data; None without data."""
    changed: dict[str, tuple[Any, Any]]
    """The attributes that differ between the person and the individual, each with both values. A protected attribute is
    included only if a criterion on scores finds two other values treated differently, and the person's own value from
    neither."""
    distance: float
    """The size of the change: the sum of the shares of the attributes' ranges; a nominal attribute counts 1."""
    nearness: float | None
    """The share of real people who are at least as far from the data as the individual; None without data."""
    odd: list[tuple[str, str]] | None
    """Attributes whose values never occur together in the data, although this would be expected."""
    realistic: bool | None
    finding: int | None
    """The position in the run of the finding that was shrunk, or is nearest to a person who needed no change; None if
    the run has none."""
    stands_for: int = 0
    """Number of findings of the run to which no other example is nearer."""

    @property
    def sentence(self) -> str:
        """The example in words."""
        who = "the central individual" if self.row is None else f"row {self.row:,} of the data"
        if not self.changed:
            return f"{who} without any change: {self.pair.sentence}"
        steps = ", ".join(f"{plain(n)} {plain(b)} instead of {plain(a)}" for n, (a, b) in self.changed.items())
        return f"{who} with {steps}: {self.pair.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        pair = self.pair.to_dict()
        return {
            **pair,
            "row": self.row,
            "person": {name: json_value(value) for name, value in self.person.items()},
            "changed": {name: [json_value(a), json_value(b)] for name, (a, b) in self.changed.items()},
            "distance": self.distance,
            "nearness": self.nearness,
            "odd": None if self.odd is None else [list(two) for two in self.odd],
            "realistic": self.realistic,
            "finding": self.finding,
            "stands_for": self.stands_for,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Examples(Viewed):
    """Distinct examples of a run, best first. Returned by ``eh.examples``."""

    examples: list[Example]
    found: int
    """Findings of the run."""
    realistic: float | None
    """The share of findings that are realistic, before they were shrunk; None without data, or without findings."""
    realistic_of: int
    """Number of findings that the share was computed from: all of them, up to 5,000."""
    real: bool
    """Whether there was data; without it, findings are moved towards the central individual, which may not exist."""
    rows: int
    """Model rows used, outside all budgets."""
    complete: bool = True
    """Whether the row limit was sufficient to try everything."""
    judged: int = 0
    """Number of real people who were judged without any change."""
    affected: int = 0
    """Number of them who are treated differently."""

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> list[Example]: ...
    def __getitem__(self, place: int | slice) -> Example | list[Example]:
        """Return one example, or some."""
        return self.examples[place]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per example: the individual, the counterpart's values, both decisions, and how realistic it is."""
        lines = []
        for example in self.examples:
            pair = example.pair
            lines.append(
                {
                    **pair.individual,
                    **{f"counterpart_{name}": value for name, value in pair.changes.items()},
                    "decision": pair.decision,
                    "counterpart_decision": pair.counterpart_decision,
                    "gap": pair.gap,
                    "row": example.row,
                    "changed": ", ".join(example.changed),
                    "distance": example.distance,
                    "nearness": example.nearness,
                    "realistic": example.realistic,
                    "stands_for": example.stands_for,
                }
            )
        return pd.DataFrame(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        out = {one.name: getattr(self, one.name) for one in fields(self)}
        return out | {"examples": [example.to_dict() for example in self.examples]}

    def __repr__(self) -> str:
        n = len(self.examples)
        verb = "example represents" if n == 1 else "examples represent"
        head = f"Examples: {n:,} distinct {verb} {self.found:,} findings"
        if self.realistic is not None:
            head += f", of which {percent(self.realistic)} are realistic"
        if not self.real and n:
            head += "; without data, each is compared with the central individual of the space"
        if self.judged:
            head += (
                f"; {self.affected:,} of {self.judged:,} people in the data are treated differently without any change"
            )
        if not self.complete:
            head += "; the row limit was reached, so closer pairs may exist"
        return "\n".join([head, *(f"  {example.sentence}" for example in self.examples)])


@dataclass(frozen=True)
class Known:
    """What is known about real people without any change."""

    people: Positions
    """People in the data who are treated differently."""
    judged: int
    """Real people who were judged."""
    affected: int
    """Number of the judged who are treated differently; the data may have others like them."""


def examples(
    run: Run,
    model: Any = None,
    data: Any = None,
    n: int = 10,
    seed: int = 0,
    *,
    rows: int = 200_000,
    executor: Executor | int | None = None,
    real: bool = True,
) -> Examples:
    """Choose distinct findings, and shrink each to the smallest change of a real person that is still discriminatory.

    Real people come first: a person in the data who is treated differently needs no change. A change of fewer
    attributes is smaller, and among those a smaller sum of changes: ordered attributes count the share of their range,
    nominal ones 1. Examples are ranked by fewest attributes changed, then no odd pairs of values, then nearness to the
    data, then the wider gap.

    Parameters
    ----------
    run
        A run, from memory or from a directory.
    model
        The model, in any form that ``wrap`` takes; needed for a run that was loaded from its directory. By default the
        run's own.
    data
        Real rows. Without them, findings are moved towards the central individual of the space, and how realistic they
        are is unknown.
    n
        Maximum number of examples.
    seed
        Same seed, same examples.
    rows
        Maximum number of model rows, outside all budgets.
    executor
        Where the model is called: a number of processes on this machine, a ``concurrent.futures.Executor``, or a
        ``dask.distributed.Client``; by default as in the run. The result is the same.
    real
        Whether an example may be a row of the data. Without, each is the nearest discriminatory individual that differs
        from every row in something else than what is protected, as reports show them.

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
    probe = probe_of(run, model, "eh.examples").on(executor)
    for name, value, least in (("n", n, 1), ("rows", rows, 1), ("seed", seed, 0)):
        check_int(name, value, StrategyError, least)
    check_bool("real", real, StrategyError)
    return examples_of(run, judge_of(run, probe, int(rows)), data, int(n), int(seed), real=real)


def examples_of(
    run: Run, judge: Judge, data: Any, n: int, seed: int, known: Known | None = None, real: bool = True
) -> Examples:
    """Do what ``examples`` does; people whose verdict is ``known`` are not judged again."""
    people = None if data is None else _people(run.space, data)
    candidates = Candidates.of(run, people, seed)
    avoided = None if real or people is None else people.individuals
    shrinker = Shrinker(judge, avoid=avoided)
    kept, judged, affected = list[ExampleDraft](), 0, 0
    realism, columns = candidates.real, None if data is None else columns_of(data)
    if people is not None:
        real_ones = known or _affected(judge, people.individuals, seed, FIRST if run.found else 1)
        judged, affected = real_ones.judged, real_ones.affected
        unchanged = _as_they_are(candidates, people, real_ones.people, SHRUNK * n)
        if avoided is not None:
            unchanged = replace(unchanged, rows=shrinker.shrink(unchanged.people, unchanged.rows))
        limit, kept = judge.limit, distinct(draft(judge, shrinker.left(unchanged), realism, columns), n, avoided)
        judge.limit = limit
    if len(kept) < n and run.found:
        shrunk = shrinker.left(_shrunk(candidates, shrinker, people, n))
        drafts = sorted([*kept, *draft(judge, shrunk, realism, columns)], key=lambda draft: draft.rank)
        kept = distinct(drafts, n, avoided)
    return Examples(
        finished(run, kept),
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
    """The findings under consideration, and how realistic they are."""

    run: Run
    at: Positions
    rows: Rows
    real: Realism | None
    likeness: Likeness | None

    @classmethod
    def of(cls, run: Run, people: Encoded | None, seed: int) -> Candidates:
        """Take all findings, or a seeded choice if there are many."""
        at, most = np.arange(run.found), max(FEWEST, min(CANDIDATES, CELLS // len(run.space.names)))
        if run.found > most:
            at = np.sort(Stream(seed).shuffled(np.arange(most), run.found, "examples"))
        rows = run.pairs.individuals("individual", at).rows if run.found else np.zeros((0, len(run.space.names)), "i4")
        real = None if people is None else Realism(run.space, people.individuals)
        return cls(run, at, rows, real, None if real is None else real.likeness(rows))

    @property
    def realistic(self) -> float | None:
        """The share of realistic findings."""
        return None if self.likeness is None or not len(self.at) else float(self.likeness.realistic.mean())

    def chosen(self, count: int) -> Positions:
        """Choose the findings to shrink."""
        known = () if self.likeness is None else (~self.likeness.realistic, self.likeness.apart)
        return np.searchsorted(self.at, choose(self.run.pairs, self.at, count, *known))


def _people(space: Space, data: Any) -> Encoded:
    encoded = space.encode(data)
    if not len(encoded.individuals):
        raise DataError(
            f"none of the {encoded.dropped:,} rows of the data is in the space", remedy="give rows of the space"
        )
    return encoded


def _affected(judge: Judge, people: Individuals, seed: int, part: int) -> Known:
    """Judge real people unchanged, as many as the rows allow; return those affected, and the number judged.

    Equal families are judged once, so this never uses more rows than planned.
    """
    at = np.arange(len(people))
    room = len(people) if judge.limit is None else judge.limit // (judge.cost * part)
    if room < len(people):
        at = np.sort(Stream(seed).shuffled(np.arange(room), len(people), "people"))
    unfair = at[judge.unfair(people[at])]
    return Known(unfair, len(at), len(unfair))


def _as_they_are(candidates: Candidates, people: Encoded, affected: Positions, count: int) -> Shrunk:
    """Choose diverse real people who are affected without any change, with the findings nearest to them."""
    space, rows = candidates.run.space, people.individuals.rows[affected]
    if len(rows):
        own = np.unique(rows[:, space.protected_columns], axis=0, return_inverse=True)[1].reshape(-1)
        some = unlike(rows[:, space.free_columns], own, count)
        affected, rows = affected[some], rows[some]
    finding = np.full(len(rows), -1)
    if len(rows) and len(candidates.at):
        finding = candidates.at[Distance(space).nearest(rows, candidates.rows)[:, 0]]
    return Shrunk(finding, rows, people.positions[affected], rows)


def _shrunk(candidates: Candidates, shrinker: Shrinker, people: Encoded | None, n: int) -> Shrunk:
    """Move chosen findings towards the nearest people, or towards the centre of the space."""
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
    """The middle of every range, and the most common nominal values of the findings; a valid individual near them."""
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


@dataclass(frozen=True)
class Shrunk:
    """Individuals who are treated differently, the people they resemble, and the findings they come from."""

    finding: Positions
    """The positions of the findings in the run; -1: none."""
    people: Rows
    place: Positions | None
    """Positions in the user's data."""
    rows: Rows


@dataclass
class ExampleDraft:
    """An unfinished example."""

    example: Example
    row: Rows
    rank: tuple[Any, ...]
    direction: tuple[Any, ...]


def draft(judge: Judge, shrunk: Shrunk, real: Realism | None, columns: Mapping[str, Any] | None) -> list[ExampleDraft]:
    """Judge the results once more, as whole families, and make examples of them, best first."""
    if not len(shrunk.rows):
        return []
    space = judge.space
    # These are only a few families, and using a few more rows is better than hiding what was found.
    judge.limit = None
    families = space.families(Individuals(space, rows=shrunk.rows), judge.seed)
    answer = judge.judge(families)
    outputs, judged = answer.outputs, _shown(judge.probe.criterion, answer.outputs, answer.verdicts)
    here = np.arange(len(shrunk.rows))
    rows, others = (families.members(here, place).rows for place in (judged.first, judged.second))
    decisions = [
        np.full(len(here), None) if outputs.labels is None else outputs.labels[here, place]
        for place in (judged.first, judged.second)
    ]
    pairs = pairs_of(space, rows, others, decisions[0], decisions[1], None if outputs.scores is None else judged.gap)
    far, likeness = Distance(space).far(rows, shrunk.people), None if real is None else real.likeness(rows)
    out = []
    for i in np.flatnonzero(judged.unfair).tolist():
        pair, row = pairs[i], None if shrunk.place is None else int(shrunk.place[i])
        person, beyond = _recorded(space, records(space, shrunk.people[i : i + 1])[0], columns, row)
        one = pair.individual
        changed = {n: (person[n], one[n]) for n in space.names if not same(person[n], one[n])}
        odd = None if real is None else real.odd_pairs(rows[i])
        example = Example(
            pair,
            person,
            row,
            changed,
            distance=float(far[i]) + beyond,
            nearness=None if likeness is None else float(likeness.nearness[i]),
            odd=odd,
            realistic=None if likeness is None else bool(likeness.realistic[i]),
            finding=int(shrunk.finding[i]) if shrunk.finding[i] >= 0 else None,
        )
        rank = (len(changed), len(odd or []), -(example.nearness or 0.0), -pair.gap, example.distance, i)
        direction = (*(str(one[name]) for name in space.protected), str(pair.decision), str(pair.counterpart_decision))
        out.append(ExampleDraft(example, rows[i], rank, direction))
    return sorted(out, key=lambda draft: draft.rank)


def _recorded(
    space: Space, person: dict[str, Any], columns: Mapping[str, Any] | None, row: int | None
) -> tuple[dict[str, Any], float]:
    """Return a person as recorded in the data, including numbers outside the space, and how far outside they are."""
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
    """Pair each individual with the counterpart that is treated most differently.

    A criterion on scores judges any two members of a family, so the widest pair need not include the individual. That
    pair is shown if the individual does not differ enough from any other member.
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


def distinct(drafts: list[ExampleDraft], n: int, avoid: Individuals | None = None) -> list[ExampleDraft]:
    """Keep the best of each example: another direction, or other values of at least two attributes.

    Together those kept do not have all free values of any individual to ``avoid``.
    """
    kept: list[ExampleDraft] = []
    seen = None if avoid is None else Seen(avoid)
    for one in drafts:
        alike = (k for k in kept if k.direction == one.direction and (k.row != one.row).sum() < DISTINCT)
        new = next(alike, None) is None and all((k.row != one.row).any() for k in kept)
        if new and len(kept) < n and (seen is None or seen.add(one.row)):
            kept.append(one)
    return kept


class Seen:
    """The free values of some rows that examples show."""

    def __init__(self, people: Individuals) -> None:
        self.free = people.space.free_columns
        self.rows = np.unique(people.rows[:, self.free], axis=0)
        self.shown = np.zeros(self.rows.shape, dtype=bool)

    def add(self, row: Rows) -> bool:
        """Show one more; False, and nothing is shown, where that would show all values of a row."""
        shown = self.shown | (self.rows == row[self.free])
        if len(shown) and shown.all(axis=1).any():
            return False
        self.shown = shown
        return True


def finished(run: Run, drafts: list[ExampleDraft]) -> list[Example]:
    """Count for each example the findings to which it is the nearest."""
    counts = [0] * len(drafts)
    if run.found and drafts:
        rows = run.pairs.individuals().rows
        nearest = Distance(run.space).nearest(rows, np.stack([draft.row for draft in drafts]))[:, 0]
        counts = np.bincount(nearest, minlength=len(drafts)).tolist()
    return [replace(draft.example, stands_for=n) for draft, n in zip(drafts, counts, strict=True)]


SMALL = 20_000
"""Maximum number of individuals of a space for judging all of them."""
LADDER = 32
"""Maximum number of values of one attribute to try; beyond it, steps of 1, 2, 4 and so on."""
SEVERAL = 4_000
"""Approximate number of changes of two attributes, and of three, to try for each person."""
SUBSETS = 1_024
"""Number of subsets of a finding's differences to try, the smallest first."""
TOGETHER = 32
"""From this number of changed attributes on, whole groups of them are reverted at once."""
LEFT = 2
"""The share of the remaining rows that one search step may use; reverting changes comes last."""


class Shrinker:
    """Moves findings towards people; ``exact`` is whether every individual of the space may be judged.

    Individuals with the free values of one to ``avoid`` are no result.
    """

    def __init__(self, judge: Judge, exact: bool | None = None, avoid: Individuals | None = None) -> None:
        self.judge, self.space = judge, judge.space
        self.avoided = None if avoid is None else np.unique(avoid.keys)
        self.distance = Distance(self.space)
        few = self.space.coding.fits and self.space.coding.total <= SMALL
        self.exact = few if exact is None else exact
        # Without constraints and links, a verdict does not depend on the protected values: leave them unchanged.
        plain = self.space.countable
        self.columns = self.space.free_columns if plain else list(range(len(self.space.names)))
        self.complete = True
        """Whether everything was tried, and not only what the row limit allowed."""

    def shrink(self, people: Rows, findings: Rows, enough: int | None = None) -> Rows:
        """Return for each person, paired with a finding, the nearest individual found that is treated differently.

        Changes of two or three attributes are not tried once ``enough`` people need fewer.
        """
        if self.exact:
            nearest = self._nearest(people)
            if nearest is not None:
                return nearest
            self.complete = False
        best = self.beside(people, findings)
        if len(self.columns) > TOGETHER:
            # Done first, so that rows are spent on the few attributes that cannot be reverted.
            best = self.towards(people, best)
        best = self._try(people, best, [self._subsets(*pair) for pair in zip(people, best, strict=True)])
        best = self._try(people, best, [self._singles(*pair) for pair in zip(people, best, strict=True)])
        for count in (2, 3):
            if enough is not None and (self.distance.changed(best, people) < count).sum() >= enough:
                break
            best = self._try(people, best, [self._several(*pair, count) for pair in zip(people, best, strict=True)])
        return self.towards(people, best)

    def allowed(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each of some rows may be a result."""
        if self.avoided is None or not len(rows):
            return np.ones(len(rows), dtype=bool)
        return ~np.isin(self.space.individuals(rows).keys, self.avoided)

    def left(self, shrunk: Shrunk) -> Shrunk:
        """Leave out what may not be a result: nothing else was found near it."""
        kept = self.allowed(shrunk.rows)
        place = None if shrunk.place is None else shrunk.place[kept]
        return Shrunk(shrunk.finding[kept], shrunk.people[kept], place, shrunk.rows[kept])

    def beside(self, people: Rows, findings: Rows) -> Rows:
        """Give findings their person's protected values, if these do not affect the verdict."""
        out = findings.copy()
        if self.space.countable:
            out[:, self.space.protected_columns] = people[:, self.space.protected_columns]
        return out

    def towards(self, people: Rows, findings: Rows) -> Rows:
        """Move findings towards their person, until no single attribute can be moved further."""
        best = self.beside(people, findings)
        while True:
            before = best
            best = self._try(people, best, [self._back(*pair) for pair in zip(people, best, strict=True)], part=1)
            if np.array_equal(best, before):
                return best

    def _nearest(self, people: Rows) -> Rows | None:
        """Judge all individuals and take the nearest; None if there are too few rows."""
        rows = self.space.coding.rows(np.arange(self.space.coding.total))
        rows = rows[self.space.valid(rows)]
        everybody = self.space.individuals(rows)
        if len(np.unique(everybody.keys)) > self._room(1):
            return None
        unfair = rows[self.judge.unfair(everybody)]
        unfair = unfair[self.allowed(unfair)]
        if not len(unfair):
            return people
        nearest: Rows = unfair[self.distance.nearest(people, unfair)[:, 0]]
        return nearest

    def _try(self, people: Rows, best: Rows, candidates: list[Rows], part: int = LEFT) -> Rows:
        """Judge the candidates of all people together, nearest first; keep those nearer than the best so far.

        If too few rows are left, fewer candidates of each person are judged, or fewer people.
        """
        out = best.copy()
        now = np.where(self.allowed(best), self.distance.order(best, people), np.inf)
        ranked = [self._better(*it) for it in zip(people, now, candidates, strict=True)]
        start, width = 0, 64
        left = [i for i, rows in enumerate(ranked) if len(rows)]
        room = self._room(part)
        while left and room:
            if sum(min(width, len(ranked[i]) - start) for i in left) > room:
                self.complete = False
                width, left = max(1, room // len(left)), left[:room]
            blocks = [ranked[i][start : start + width] for i in left]
            asked = np.concatenate(blocks)
            room -= len(asked)
            unfair = self.judge.unfair(Individuals(self.space, rows=asked))
            parts = np.split(unfair, np.cumsum([len(block) for block in blocks])[:-1])
            done = set()
            for i, block, verdicts in zip(left, blocks, parts, strict=True):
                if verdicts.any():
                    out[i] = block[int(verdicts.argmax())]
                    done.add(i)
            start, width = start + width, 4 * width
            left = [i for i in left if i not in done and len(ranked[i]) > start]
        self.complete = self.complete and not left
        return out

    def _room(self, part: int) -> int:
        """Number of individuals that may be judged now, if the remaining rows are divided by ``part``."""
        if self.judge.limit is None:
            return sys.maxsize
        return max(0, self.judge.limit - self.judge.rows) // (self.judge.cost * part)

    def _better(self, person: Rows, now: float, rows: Rows) -> Rows:
        """Valid candidates that are nearer than the best so far, nearest first; ties go to the smallest codes."""
        order = self.distance.order(rows, person)
        rows, order = rows[order < now - 1e-9], order[order < now - 1e-9]
        valid = self.space.valid(rows) & self.allowed(rows)
        rows, order = rows[valid], order[valid]
        return rows[np.lexsort([*rows.T[::-1], np.round(order, 9)])]

    def _subsets(self, person: Rows, finding: Rows) -> Rows:
        """Give the person some of the finding's differences: none, one, two and so on."""
        differs = np.flatnonzero(person != finding).tolist()
        chosen: list[tuple[int, ...]] = []
        for size in range(len(differs)):
            chosen += islice(combinations(differs, size), SUBSETS - len(chosen))
        out = np.repeat(person[None], len(chosen), axis=0)
        for i, columns in enumerate(chosen):
            out[i, list(columns)] = finding[list(columns)]
        return out

    def _singles(self, person: Rows, finding: Rows) -> Rows:
        """Change one attribute of the person to each value to try."""
        parts = []
        for j in self.columns:
            values = self._ladder(j, int(person[j]), int(finding[j]))
            part = np.repeat(person[None], len(values), axis=0)
            part[:, j] = values
            parts.append(part)
        return np.concatenate(parts)

    def _several(self, person: Rows, finding: Rows, count: int) -> Rows:
        """Change several attributes of the person, each to its nearest values, as many as can be judged.

        If there are too many attributes, only those that the finding changes.
        """
        chosen = self.columns
        if comb(len(chosen), count) > SEVERAL:
            chosen = [j for j in chosen if person[j] != finding[j]]
            while comb(len(chosen), count) > SEVERAL:
                chosen = chosen[:-1]
        if self.distance.changed(finding, person) < count or len(chosen) < count:
            return person[None][:0]
        each = int((SEVERAL / comb(len(chosen), count)) ** (1 / count))
        ladders = {}
        for j in chosen:
            values = self._ladder(j, int(person[j]), int(finding[j]))
            near = values[np.argsort(np.abs(values - person[j]), kind="stable")]
            ladders[j] = (
                np.union1d(near[: max(each, 1)], finding[j]) if finding[j] != person[j] else near[: max(each, 1)]
            )
        parts = []
        for columns in combinations(chosen, count):
            grids = np.meshgrid(*(ladders[j] for j in columns), indexing="ij")
            part = np.repeat(person[None], grids[0].size, axis=0)
            part[:, list(columns)] = np.column_stack([grid.ravel() for grid in grids])
            parts.append(part)
        return np.concatenate(parts)

    def _back(self, person: Rows, best: Rows) -> Rows:
        """Revert one attribute to the person's value, or an ordered one part of the way; if many changed, also groups.

        Groups are halves, quarters and so on, because one attribute per round would take as many rounds as attributes.
        """
        differs = np.flatnonzero(person != best).tolist()
        parts = []
        size = len(differs)
        while size > TOGETHER // 2:
            size = (size + 1) // 2
            groups = [differs[i : i + size] for i in range(0, len(differs), size)]
            part = np.repeat(best[None], len(groups), axis=0)
            for row, columns in zip(part, groups, strict=True):
                row[columns] = person[columns]
            parts.append(part)
        for j in differs:
            here, there = int(best[j]), int(person[j])
            values = [there]
            if self.space.ordered[j] and max(here, there) < self.space.present[j]:
                way = abs(there - here)
                values += [there + (here - there) * s // way for s in _steps(way)]
            part = np.repeat(best[None], len(values), axis=0)
            part[:, j] = values
            parts.append(part)
        return np.concatenate(parts) if parts else best[None][:0]

    def _ladder(self, column: int, here: int, hint: int) -> npt.NDArray[np.int64]:
        """Values of one attribute other than the person's: all if there are few, otherwise at growing distances."""
        size = int(self.space.sizes[column])
        if size <= LADDER or not self.space.ordered[column]:
            values = np.arange(size)
        else:
            steps = np.array(_steps(size))
            values = np.unique(np.concatenate([here - steps, here + steps, [0, size - 1, hint]]))
        return np.asarray(values[(values != here) & (values >= 0) & (values < size)])


def _steps(way: int) -> list[int]:
    """Steps below a distance: all of the first eight, then powers of two, and one less than the distance."""
    powers = [2**e for e in range(4, max(way, 1).bit_length())]
    return sorted({s for s in [*range(1, 9), *powers, way - 1] if 0 < s < way})


def nearest_people(distance: Distance, findings: Rows, people: Rows, n: int) -> tuple[Positions, Positions]:
    """Pair each finding with the people nearest to it: positions of findings, and of people."""
    near = distance.nearest(findings, people, n)
    return np.repeat(np.arange(len(findings)), near.shape[1]), near.reshape(-1)


def best_of(distance: Distance, shrunk: Rows, people: Rows, of: Positions, count: int) -> Positions:
    """Choose for each finding the pair with the smallest change; ties go to the person nearer to the finding."""
    order: Numbers = np.round(distance.order(shrunk, people), 9)
    ranked = np.lexsort([np.arange(len(of)), order, of])
    return ranked[np.searchsorted(of[ranked], np.arange(count))]
