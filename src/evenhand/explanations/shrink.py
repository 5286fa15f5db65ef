"""Shrinks findings: the least change of a real person that is still discriminatory.

For each finding and real person near it, the result is an individual of the space, valid and treated differently (the
model was asked), who differs from the person in as few attributes as possible, and by as little. In a small space every
individual is compared, and none is nearer. In a larger one the finding is a first answer; better ones are looked for
among the person with parts of the finding's differences, then among changes of one attribute, of two and of three, and
what has changed is brought back step by step. A step is kept only if the model still treats the result differently: an
answer may not be the nearest, but it is never a wrong one.
"""

from __future__ import annotations

import sys
from itertools import combinations, islice
from math import comb

import numpy as np
import numpy.typing as npt

from evenhand.engine.judge import Judge
from evenhand.runs.pairs import Positions
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.realism import Distance, Numbers

SMALL = 20_000
"""Individuals of a space up to which all are asked."""
LADDER = 32
"""Values of one attribute that are tried; of longer ones steps of 1, 2, 4 and so on."""
SEVERAL = 4_000
"""Changes of two attributes, and of three, that are tried for each person, about."""
SUBSETS = 1_024
"""Parts of a finding's differences that are tried, the smallest first."""
TOGETHER = 32
"""From so many changed attributes on, whole groups of them are brought back at once."""
LEFT = 2
"""The part of the rows left that one look for nearer individuals may ask: to bring back what changed comes last."""


class Shrinker:
    """Brings findings to people; ``exact`` says whether every individual of the space may be asked."""

    def __init__(self, judge: Judge, exact: bool | None = None) -> None:
        self.judge, self.space = judge, judge.space
        self.distance = Distance(self.space)
        few = self.space.coding.fits and self.space.coding.total <= SMALL
        self.exact = few if exact is None else exact
        # Without constraints and links a verdict does not depend on one's own protected values: leave them alone.
        plain = self.space.countable
        self.columns = self.space.free_columns if plain else list(range(len(self.space.names)))
        self.complete = True
        """Whether everything was asked that should have been, and not only what the limit of rows allows."""

    def shrink(self, people: Rows, findings: Rows, enough: int | None = None) -> Rows:
        """Return for each person, paired with a finding, the nearest individual found who is treated differently.

        Changes of two attributes, and of three, are not looked for once so many as are ``enough`` have fewer.
        """
        if self.exact:
            nearest = self._nearest(people)
            if nearest is not None:
                return nearest
            self.complete = False
        best = self.beside(people, findings)
        if len(self.columns) > TOGETHER:
            # First of all, so that the rows are spent on the few attributes that cannot be brought back.
            best = self.towards(people, best)
        best = self._try(people, best, [self._subsets(*pair) for pair in zip(people, best, strict=True)])
        best = self._try(people, best, [self._singles(*pair) for pair in zip(people, best, strict=True)])
        for count in (2, 3):
            if enough is not None and (self.distance.changed(best, people) < count).sum() >= enough:
                break
            best = self._try(people, best, [self._several(*pair, count) for pair in zip(people, best, strict=True)])
        return self.towards(people, best)

    def beside(self, people: Rows, findings: Rows) -> Rows:
        """Give findings their person's protected values, where those do not matter to the verdict."""
        out = findings.copy()
        if self.space.countable:
            out[:, self.space.protected_columns] = people[:, self.space.protected_columns]
        return out

    def towards(self, people: Rows, findings: Rows) -> Rows:
        """Bring findings nearer, only between themselves and their person, until no single attribute can be."""
        best = self.beside(people, findings)
        while True:
            before = best
            best = self._try(people, best, [self._back(*pair) for pair in zip(people, best, strict=True)], part=1)
            if np.array_equal(best, before):
                return best

    def _nearest(self, people: Rows) -> Rows | None:
        """Ask everybody, and take the nearest; None where the rows do not suffice for it."""
        rows = self.space.coding.rows(np.arange(self.space.coding.total))
        rows = rows[self.space.valid(rows)]
        everybody = self.space.individuals(rows)
        if len(np.unique(everybody.keys)) > self._room(1):
            return None
        unfair = rows[self.judge.unfair(everybody)]
        nearest: Rows = unfair[self.distance.nearest(people, unfair)[:, 0]]
        return nearest

    def _try(self, people: Rows, best: Rows, candidates: list[Rows], part: int = LEFT) -> Rows:
        """Ask about candidates, those of all people together, nearest first; keep what is nearer than the best.

        Where the rows that are left do not suffice, fewer of each person's candidates are asked about, or fewer people.
        """
        out = best.copy()
        now = self.distance.order(best, people)
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
        """How many individuals may be asked now, if all that is left of the rows is divided by ``part``."""
        if self.judge.limit is None:
            return sys.maxsize
        return max(0, self.judge.limit - self.judge.rows) // (self.judge.cost * part)

    def _better(self, person: Rows, now: float, rows: Rows) -> Rows:
        """Valid candidates that are nearer than what is known, nearest first; of equals the smallest codes."""
        order = self.distance.order(rows, person)
        rows, order = rows[order < now - 1e-9], order[order < now - 1e-9]
        valid = self.space.valid(rows)
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
        """Change one attribute of the person to any value that is tried."""
        parts = []
        for j in self.columns:
            values = self._ladder(j, int(person[j]), int(finding[j]))
            part = np.repeat(person[None], len(values), axis=0)
            part[:, j] = values
            parts.append(part)
        return np.concatenate(parts)

    def _several(self, person: Rows, finding: Rows, count: int) -> Rows:
        """Change some attributes of the person, each to as many of its nearest values as can be asked in all.

        Where there are too many attributes to choose some from, only those that the finding changes.
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
        """Bring one attribute back: to the person's value, or for an ordered one some of the way; of many, also groups.

        Groups are halves, quarters and so on: one attribute in each round would be as many rounds as attributes.
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
        """Values of one attribute other than the person's: all of a few, of many ever larger steps away."""
        size = int(self.space.sizes[column])
        if size <= LADDER or not self.space.ordered[column]:
            values = np.arange(size)
        else:
            steps = np.array(_steps(size))
            values = np.unique(np.concatenate([here - steps, here + steps, [0, size - 1, hint]]))
        return np.asarray(values[(values != here) & (values >= 0) & (values < size)])


def _steps(way: int) -> list[int]:
    """Steps below a distance: all of the first eight, then powers of two, and one less than the distance.

    >>> _steps(40)
    [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 39]
    """
    powers = [2**e for e in range(4, max(way, 1).bit_length())]
    return sorted({s for s in [*range(1, 9), *powers, way - 1] if 0 < s < way})


def nearest_people(distance: Distance, findings: Rows, people: Rows, n: int) -> tuple[Positions, Positions]:
    """Pair each finding with the people nearest to it: positions of findings, and of people."""
    near = distance.nearest(findings, people, n)
    return np.repeat(np.arange(len(findings)), near.shape[1]), near.reshape(-1)


def best_of(distance: Distance, shrunk: Rows, people: Rows, of: Positions, count: int) -> Positions:
    """Choose for each finding the pair whose change is least; of equals the person who is nearer to the finding."""
    order: Numbers = np.round(distance.order(shrunk, people), 9)
    ranked = np.lexsort([np.arange(len(of)), order, of])
    return ranked[np.searchsorted(of[ranked], np.arange(count))]
