"""Examples: findings shrunk to the least change of a real person, ranked, and one for each distinct case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from evenhand._format import json_value, native, percent, plain, same
from evenhand._rng import Stream
from evenhand._validate import is_int
from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.engine.judge import Judge
from evenhand.errors import DataError, StrategyError
from evenhand.explanations.shrink import Shrinker, best_of, nearest_people
from evenhand.runs.pairs import Pair, Positions, choose, pairs_of, records, unlike
from evenhand.runs.replay import judge_of, probe_of
from evenhand.runs.run import Run
from evenhand.spaces.frames import columns_of
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.realism import Distance, Likeness, Realism
from evenhand.spaces.tabular import Encoded, Space

if TYPE_CHECKING:
    import pandas as pd

CANDIDATES, CELLS = 5_000, 2**19
"""Findings that are looked at, a seeded choice where there are more; and the most codes that they have together."""
FEWEST = 500
"""Findings that are looked at however many attributes they have."""
SHRUNK = 3
"""Findings that are shrunk for each example that is wanted."""
NEAREST = 3
"""Real people that each finding is reached from."""
ENOUGH = 3
"""People for each example that is wanted; once they are found, larger changes are not looked for."""
FIRST = 2
"""The part of the rows that asking real people as they are may take, where there is more to ask."""
DISTINCT = 2
"""Attributes in which two examples differ at least, unless other decisions were made, or about others."""


@dataclass(frozen=True)
class Example:
    """One distinct example of discrimination, told by the pair that is nearest to a real person. Not made by hand."""

    pair: Pair
    """The individual, its counterpart, and what the model said of each."""
    person: dict[str, Any] = field(repr=False)
    """The real person as the data has it, or the central individual where there were no data."""
    row: int | None
    """Where the person stands in the data; None without data."""
    changed: dict[str, tuple[Any, Any]]
    """What differs between the person and the individual: from what, to what; a protected value only where a criterion
    of scores finds two other values treated differently, and the person's own beside neither."""
    distance: float
    """By how much: the shares of the attributes' ranges added up, a nominal one counting 1."""
    nearness: float | None
    """The share of real people who are at least as far from the data as the individual; None without data."""
    odd: list[tuple[str, str]] | None
    """Attributes whose values never occur together in the data, though they should."""
    realistic: bool | None
    finding: int | None
    """The finding that was shrunk, or that is nearest to a person who needed no change, as its place in the run; None
    where the run has none."""
    stands_for: int = 0
    """Findings of the run to which no other example is nearer."""

    @property
    def sentence(self) -> str:
        """Say the example."""
        who = "the central individual" if self.row is None else f"row {self.row:,} of the data"
        if not self.changed:
            return f"{who} as it is: {self.pair.sentence}"
        steps = ", ".join(f"{plain(n)} {plain(b)} instead of {plain(a)}" for n, (a, b) in self.changed.items())
        return f"{who} with {steps}: {self.pair.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it in plain values."""
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
class Examples:
    """Distinct examples of a run, the best first. Not made by hand."""

    examples: list[Example]
    found: int
    """Findings of the run."""
    realistic: float | None
    """The share of findings that are realistic, before they were shrunk; None without data, or without findings."""
    realistic_of: int
    """Findings that the share was computed from: all of them, up to 5,000."""
    real: bool
    """Whether there were data; without, findings are brought to the central individual, who need not exist."""
    rows: int
    """Rows that the model was asked, outside all budgets."""
    complete: bool = True
    """Whether the limit of rows allowed everything that was to be tried."""
    judged: int = 0
    """Real people who were judged as they are."""
    affected: int = 0
    """Those of them who are treated differently, without any change."""

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
        """One row per example: the individual, what differs in the counterpart, the decisions, how real it is."""
        import pandas as pd

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
        """Give everything in plain values."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        return told | {"examples": [example.to_dict() for example in self.examples]}

    def __repr__(self) -> str:
        n = len(self.examples)
        head = (
            f"Examples: {n:,} distinct {'example stands' if n == 1 else 'examples stand'} for {self.found:,} findings"
        )
        if self.realistic is not None:
            head += f", of which {percent(self.realistic)} are realistic"
        if not self.real and n:
            head += "; there are no data, so each was brought to the central individual of the space"
        if self.judged:
            head += f"; {self.affected:,} of {self.judged:,} people in the data are treated differently as they are"
        if not self.complete:
            head += "; the limit of rows ended the search, so nearer pairs may exist"
        return "\n".join([head, *(f"  {example.sentence}" for example in self.examples)])


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

    Real people come first: a person in the data who is treated differently needs no change. Of two individuals
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
    probe = probe_of(run, model, "eh.examples")
    for name, value, least in (("n", n, 1), ("rows", rows, 1), ("seed", seed, 0)):
        if not is_int(value) or value < least:
            raise StrategyError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return examples_of(run, judge_of(run, probe, int(rows)), data, int(n), int(seed))


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
        limit, kept = judge.limit, distinct(draft(judge, unchanged, real, columns), n)
        judge.limit = limit
    if len(kept) < n and run.found:
        shrunk = _shrunk(candidates, shrinker, people, n)
        kept = distinct(sorted([*kept, *draft(judge, shrunk, real, columns)], key=lambda draft: draft.rank), n)
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
    """Findings that are looked at, and how real they are."""

    run: Run
    at: Positions
    rows: Rows
    real: Realism | None
    likeness: Likeness | None

    @classmethod
    def of(cls, run: Run, people: Encoded | None, seed: int) -> Candidates:
        """Take all findings, or a seeded choice of many."""
        at, most = np.arange(run.found), max(FEWEST, min(CANDIDATES, CELLS // len(run.space.names)))
        if run.found > most:
            at = np.sort(Stream(seed).shuffled(np.arange(most), run.found, "examples"))
        rows = run.pairs.individuals("individual", at).rows if run.found else np.zeros((0, len(run.space.names)), "i4")
        real = None if people is None else Realism(run.space, people.individuals)
        return cls(run, at, rows, real, None if real is None else real.likeness(rows))

    @property
    def realistic(self) -> float | None:
        """The share of them that could be real."""
        return None if self.likeness is None or not len(self.at) else float(self.likeness.realistic.mean())

    def chosen(self, count: int) -> Positions:
        """Choose which to shrink."""
        known = () if self.likeness is None else (~self.likeness.realistic, self.likeness.apart)
        return np.searchsorted(self.at, choose(self.run.pairs, self.at, count, *known))


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
        some = unlike(rows[:, space.free_columns], own, count)
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


@dataclass(frozen=True)
class Shrunk:
    """Individuals who are treated differently, the people they were brought to, and the findings they came from."""

    finding: Positions
    """The places of the findings in the run; -1: none."""
    people: Rows
    place: Positions | None
    """Positions in the user's data."""
    rows: Rows


@dataclass
class ExampleDraft:
    """An example in the making."""

    example: Example
    row: Rows
    rank: tuple[Any, ...]
    direction: tuple[Any, ...]


def draft(judge: Judge, shrunk: Shrunk, real: Realism | None, columns: Mapping[str, Any] | None) -> list[ExampleDraft]:
    """Ask about the results once more, whole families, and write examples of them; the best first."""
    if not len(shrunk.rows):
        return []
    space = judge.space
    # A few families: a few more rows are better than not to show what was found.
    judge.limit = None
    families = space.families(Individuals(space, rows=shrunk.rows), judge.seed)
    answer = judge.judge(families)
    outputs, judged = answer.outputs, _shown(judge.probe.criterion, answer.outputs, answer.verdicts)
    here = np.arange(len(shrunk.rows))
    rows, others = (families.members(here, place).rows for place in (judged.first, judged.second))
    said = [
        np.full(len(here), None) if outputs.labels is None else outputs.labels[here, place]
        for place in (judged.first, judged.second)
    ]
    pairs = pairs_of(space, rows, others, said[0], said[1], None if outputs.scores is None else judged.gap)
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
    individual does not differ enough from any other, that pair is all there is to show.
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


def distinct(drafts: list[ExampleDraft], n: int) -> list[ExampleDraft]:
    """Keep the best of each example: another direction, or other values of at least two attributes."""
    kept: list[ExampleDraft] = []
    for one in drafts:
        alike = (k for k in kept if k.direction == one.direction and (k.row != one.row).sum() < DISTINCT)
        if next(alike, None) is None and all((k.row != one.row).any() for k in kept):
            kept.append(one)
    return kept[:n]


def finished(run: Run, drafts: list[ExampleDraft]) -> list[Example]:
    """Count for each example the findings to which no other is nearer."""
    counts = [0] * len(drafts)
    if run.found and drafts:
        rows = run.pairs.individuals().rows
        nearest = Distance(run.space).nearest(rows, np.stack([draft.row for draft in drafts]))[:, 0]
        counts = np.bincount(nearest, minlength=len(drafts)).tolist()
    return [replace(draft.example, stands_for=n) for draft, n in zip(drafts, counts, strict=True)]
