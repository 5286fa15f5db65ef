"""The pairs that tell most: shrunk to real people, ranked, and one for each distinct case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.budget import whole
from evenhand.criterion import Criterion, Judgement, Outputs
from evenhand.errors import DataError, StrategyError
from evenhand.rejudging import Examiner, asker_of
from evenhand.run import Run
from evenhand.shrinking.cases import Case, Cases
from evenhand.shrinking.distance import Distance
from evenhand.shrinking.realism import Realism
from evenhand.shrinking.shrinking import Shrinker, best_of, nearest_people
from evenhand.space.individuals import Individuals, Rows
from evenhand.space.tabular import Space
from evenhand.stream import Stream
from evenhand.words import Pair, directions, native, records, same, spread

CANDIDATES = 5_000
"""Findings that are looked at, a seeded choice where there are more."""
SHRUNK = 3
"""Findings that are shrunk for each case that is wanted."""
NEAREST = 3
"""Real people from whom each finding is reached."""
ENOUGH = 3
"""People for each case that is wanted, after whom larger changes are not looked for."""
DISTINCT = 2
"""Attributes in which two cases differ at least, unless other decisions were made, or about others."""


def telling(
    run: Run,
    model: Any = None,
    data: Any = None,
    n: int = 10,
    seed: int = 0,
    *,
    rows: int = 200_000,
) -> Cases:
    """Choose distinct findings and shrink each to the least change of a real person that is still discriminatory.

    Of two individuals the one is nearer to a person that differs in fewer attributes, and of those the one that differs
    by less, ordered attributes counting the share of their range and nominal ones 1. The most telling case comes first:
    fewest attributes changed, then no odd pairs of values, then nearness to the data, then the wider gap.

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
        How many cases, at most.
    seed
        Same seed, same cases.
    rows
        The most rows to ask the model, outside all budgets.

    Examples
    --------
    >>> import evenhand as eh, pandas as pd
    >>> space = eh.Space([eh.Integer("age", 1, 90), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> def refuse(frame):
    ...     return (frame["age"] < 30) & (frame["sex"] == "F")
    >>> run = eh.audit(refuse, space, strategy="themis")
    >>> case = eh.telling(run, data=pd.DataFrame({"age": [33, 60], "sex": ["F", "F"]}))[0]
    >>> case.sentence
    'row 0 of the data with age 29 instead of 33: age 29, sex F: True. The same person with sex M: False.'
    """
    asker = asker_of(run, model, "eh.telling")
    for name, value, least in (("n", n, 1), ("rows", rows, 1), ("seed", seed, 0)):
        if not whole(value) or value < least:
            raise StrategyError(f"{name} must be a whole number of at least {least}, got {value!r}")
    examiner = Examiner(run, asker, int(rows))
    people, positions = _people(run.space, data)
    if not run.found:
        return Cases([], 0, None, 0, data is not None, 0)
    at = _candidates(run, int(seed))
    real = None if people is None else Realism(run.space, people)
    likely = None if real is None else real.realistic(run.pairs.individuals("individual", at).rows)
    chosen = at[_chosen(run, at, real, SHRUNK * int(n))]
    shrunk = _shrunk(run, examiner, people, chosen, ENOUGH * int(n))
    told = _told(examiner, shrunk, real, positions)
    kept = _distinct(told, int(n))
    _count(run, kept)
    share = None if likely is None else float(likely.mean())
    cases = [case.made() for case in kept]
    return Cases(cases, run.found, share, len(at), data is not None, examiner.rows, shrunk.complete)


@dataclass(frozen=True)
class Shrunk:
    """Findings, the people they were brought to, and what they became."""

    finding: npt.NDArray[np.int64]
    people: Rows
    place: npt.NDArray[np.int64] | None
    rows: Rows
    complete: bool


@dataclass
class Told:
    """A case in the making."""

    case: dict[str, Any]
    row: Rows
    rank: tuple[Any, ...]
    direction: tuple[Any, ...]
    stands_for: int = 0

    def made(self) -> Case:
        """Finish it."""
        return Case(**self.case, stands_for=self.stands_for)


def _people(space: Space, data: Any) -> tuple[Individuals | None, npt.NDArray[np.int64] | None]:
    if data is None:
        return None, None
    encoded = space.encode(data)
    if not len(encoded.individuals):
        raise DataError(f"none of the {encoded.dropped:,} rows of the data is in the space; give rows of the space")
    return encoded.individuals, encoded.positions


def _candidates(run: Run, seed: int) -> npt.NDArray[np.int64]:
    if run.found <= CANDIDATES:
        return np.arange(run.found)
    return np.sort(Stream(seed).shuffled(np.arange(CANDIDATES), run.found, "telling"))


def _chosen(run: Run, at: npt.NDArray[np.int64], real: Realism | None, count: int) -> npt.NDArray[np.int64]:
    """Choose which findings to shrink: realistic ones with wide gaps before others, and unlike each other."""
    rows = run.pairs.individuals("individual", at).rows
    gaps = run.pairs.taken("gap", at) if "gap" in run.pairs.joined() else np.ones(len(at))
    keys = [-gaps] if real is None else [-gaps, -real.nearness(rows), real.odd(rows)]
    order = np.lexsort(keys)[: max(10 * count, len(at) // 10)]
    unlike = spread(rows[order][:, run.space.free_columns], directions(run, run.found)[at[order]], count)
    return order[unlike]


def _shrunk(
    run: Run, examiner: Examiner, people: Individuals | None, chosen: npt.NDArray[np.int64], enough: int
) -> Shrunk:
    order = np.argsort(chosen)
    back = np.argsort(order)
    findings = run.pairs.individuals("individual", chosen[order]).rows[back]
    shrinker = Shrinker(examiner)
    if people is None:
        centre = np.repeat(_centre(run)[None], len(findings), axis=0)
        return Shrunk(chosen, centre, None, shrinker.towards(centre, findings), shrinker.complete)
    of, near = nearest_people(shrinker.distance, findings, people.rows, NEAREST)
    rows = shrinker.shrink(people.rows[near], findings[of], enough)
    best = best_of(shrinker.distance, rows, people.rows[near], of, len(findings))
    return Shrunk(chosen, people.rows[near[best]], near[best], rows[best], shrinker.complete)


def _centre(run: Run) -> Rows:
    """The middle of every range, and of nominal attributes the commonest value of the findings; a legal neighbour."""
    space = run.space
    rows = run.pairs.individuals("individual", slice(CANDIDATES)).rows
    centre = np.array(
        [(space.present[j] - 1) // 2 if space.ordered[j] else np.bincount(rows[:, j]).argmax()
         for j in range(len(space.names))],
        dtype=np.int32,
    )  # fmt: skip
    if space.legal(centre[None])[0]:
        return centre
    return np.asarray(rows[Distance(space).nearest(centre[None], rows)[0, 0]])


def _told(
    examiner: Examiner, shrunk: Shrunk, real: Realism | None, positions: npt.NDArray[np.int64] | None
) -> list[Told]:
    """Ask about the results once more, whole families, and write down what was said."""
    space, distance = examiner.space, Distance(examiner.space)
    # A few families: not to tell what was found would be worse than some rows more.
    examiner.limit = None
    families = space.families(Individuals(space, rows=shrunk.rows), examiner.seed)
    outputs, judged = examiner.judge(families)
    judged = _shown(examiner.asker.criterion, outputs, judged)
    here, labels = np.arange(len(shrunk.rows)), outputs.labels
    rows, others = (families.members(here, place).rows for place in (judged.first, judged.second))
    persons, one, other = (records(space, rows) for rows in (shrunk.people, rows, others))
    far, changed = distance.far(rows, shrunk.people), distance.changed(rows, shrunk.people)
    near = None if real is None else real.nearness(rows)
    names = [*space.protected, *space.free]
    out = []
    for i in here.tolist():
        said = [None if labels is None else native(labels[i, place[i]]) for place in (judged.first, judged.second)]
        changes = {name: other[i][name] for name in names if not same(one[i][name], other[i][name])}
        pair = Pair(one[i], changes, said[0], said[1], float(judged.gap[i]), outputs.scores is not None)
        odd = None if real is None else real.odd_pairs(rows[i])
        case = {
            "pair": pair,
            "person": persons[i],
            "row": None if shrunk.place is None or positions is None else int(positions[shrunk.place[i]]),
            "changed": {
                name: (persons[i][name], one[i][name])
                for name in space.names
                if not same(persons[i][name], one[i][name])
            },
            "distance": float(far[i]),
            "nearness": None if near is None else float(near[i]),
            "odd": odd,
            "realistic": None if real is None else bool(real.realistic(rows[i : i + 1])[0]),
            "finding": int(shrunk.finding[i]),
        }
        nearness = 0.0 if near is None else float(near[i])
        rank = (int(changed[i]), len(odd or []), -nearness, -pair.gap, float(far[i]), i)
        direction = (*(str(one[i][name]) for name in space.protected), *map(str, said))
        out.append(Told(case, rows[i], rank, direction))
    return sorted(out, key=lambda told: told.rank)


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


def _distinct(told: list[Told], n: int) -> list[Told]:
    """Keep the best of each case: another direction, or other values of at least two attributes."""
    kept: list[Told] = []
    for one in told:
        alike = (k for k in kept if k.direction == one.direction and (k.row != one.row).sum() < DISTINCT)
        if next(alike, None) is None and all((k.row != one.row).any() for k in kept):
            kept.append(one)
    return kept[:n]


def _count(run: Run, kept: list[Told]) -> None:
    """Tell each case how many findings are nearest to it."""
    distance = Distance(run.space)
    cases = np.stack([one.row for one in kept])
    nearest = distance.nearest(run.pairs.individuals().rows, cases)[:, 0]
    for one, count in zip(kept, np.bincount(nearest, minlength=len(kept)).tolist(), strict=True):
        one.stands_for = count
