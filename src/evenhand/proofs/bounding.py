"""Networks: boxes are split where most is undecided, and sums are counted in the boxes that are left."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from evenhand import _interrupts as interrupts
from evenhand.proofs.boxes import Limits, Live, Partition, Verdicts, begin
from evenhand.proofs.crown import Bounds, Inputs, bound
from evenhand.proofs.domain import FAIR, INVALID, UNDECIDED, UNFAIR, UNTESTABLE, Domain, Ints, Measure
from evenhand.proofs.networks import Network
from evenhand.proofs.slabs import SIGNS, Slab, Sums, combinations, countable, positions, sums_of

Floats: TypeAlias = npt.NDArray[np.float64]
Ask: TypeAlias = Callable[[npt.NDArray[Any], int], npt.NDArray[np.bool_]]
SMALL = 128
"""Maximum individuals, with common protected values, of a box that is asked about one by one."""
NUMBERS = 2**20
"""Numbers in the largest array of a step, about."""
COUNTED = 32
"""Boxes that are counted in one step."""
AFTER = 2.0
"""Seconds of counting after an interrupt."""
EXAMPLES, DRAWN = 64, 2**16
"""Boxes in which an example is looked for, and individuals drawn in each."""
FAMILY = {FAIR: -1, UNTESTABLE: -2, INVALID: -3}
"""Stands for a family that needs no bounds."""


class Store:
    """Boxes with their bounds, in arrays whose rows are used again."""

    def __init__(self, **widths: tuple[Any, tuple[int, ...]]) -> None:
        self._arrays = {name: np.zeros((64, *shape), dtype=kind) for name, (kind, shape) in widths.items()}
        self._free = np.arange(64)
        self.used = np.zeros(64, dtype=bool)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def add(self, **values: npt.NDArray[Any]) -> None:
        """Add rows."""
        count = len(next(iter(values.values())))
        while len(self._free) < count:
            size = len(self.used)
            self._arrays = {name: np.concatenate([one, np.zeros_like(one)]) for name, one in self._arrays.items()}
            self.used = np.concatenate([self.used, np.zeros(size, dtype=bool)])
            self._free = np.concatenate([np.arange(size, 2 * size), self._free])
        rows, self._free = self._free[:count], self._free[count:]
        self.used[rows] = True
        for name, one in values.items():
            self._arrays[name][rows] = one

    def remove(self, rows: Ints) -> None:
        """Remove rows."""
        self.used[rows] = False
        self._free = np.concatenate([self._free, rows])


class Boxes:
    """Decides boxes of a network, as a `Search`.

    Each box has, for each family, the sums that decide in it. While time is left, the boxes with most individuals that
    are probably undecided are split; then, the sums are counted.
    """

    def __init__(
        self, network: Network, domain: Domain, parts: Partition, ask: Ask, limits: Limits, measures: list[Measure]
    ) -> None:
        self.network, self.domain, self.parts = network, domain, parts
        self._ask, self._limits, self.measures = ask, limits, measures
        self.inputs = Inputs(network, domain)
        self.done: list[tuple[Ints, Verdicts]] = []
        self.totals = [[0, 0] for _ in measures]
        """By measure: those, in boxes that are undecided as a whole, who are certainly fair, and unfair."""
        self._asked: dict[int, dict[int, npt.NDArray[np.bool_]]] = {}
        """By number of a box and group: who is treated differently."""
        self._slabs: dict[int, dict[int, Slab]] = {}
        """By number of a box and group: its sums."""
        self._unfair: dict[int, int] = {}
        """By number of a box: how many are certainly treated differently."""
        self._find_families()
        kinds, features = len(self.inputs.shift), len(self.inputs.tables)
        widest = max(layer.weights.size for layer in network.layers[1:])
        self.batch = max(2, min(256, NUMBERS // (4 * kinds * max(widest, features))))
        places, shape = len(domain.columns), (len(self.families), 4)
        self._store = Store(
            number=(np.int64, ()), low=(np.int64, (places,)), high=(np.int64, (places,)), pattern=(np.int64, ()),
            priority=(np.float64, ()), volume=(np.float64, ()), column=(np.int64, ()),
            coefficients=(np.float64, (*shape, features)), constants=(np.float64, shape),
        )  # fmt: skip
        self._queue: list[int] | None = None
        """The rows that are still to be counted, once boxes are no longer split."""
        self._cost, self._looked = 0.0, 0
        self._add(begin(parts, domain))

    def _find_families(self) -> None:
        """Number the families of kinds, and say which family each group has in each pattern."""
        domain, numbers = self.domain, dict[tuple[int, ...], int]()
        self._family_of = np.zeros((len(domain.patterns), len(domain.groups)), dtype=np.int64)
        for pattern, one in enumerate(domain.patterns):
            for group, family in enumerate(one.families):
                kinds = tuple(sorted({self.inputs.kind_of[view] for view in family}))
                if len(family) < 2:
                    self._family_of[pattern, group] = FAMILY[UNTESTABLE if family else INVALID]
                elif len(kinds) < 2:
                    self._family_of[pattern, group] = FAMILY[FAIR]
                else:
                    self._family_of[pattern, group] = numbers.setdefault(kinds, len(numbers))
        self.families = list(numbers)

    @property
    def open(self) -> bool:
        """Whether something is left to do."""
        return bool(self._queue) if self._queue is not None else bool(self._store.used.any())

    @property
    def complete(self) -> bool:
        """Whether no box is undecided as a whole, unless its individuals were asked about."""
        return not self._store.used.any()

    def step(self) -> None:
        """Split some boxes, or count some."""
        if self._queue is None:
            room = math.inf if self._limits.boxes is None else (self._limits.boxes - self.parts.size - 1) // 2
            if room < 1 or self._late():
                self._queue = self._by_volume()
            else:
                self._split(int(min(self.batch, room)))
            return
        for _ in range(min(COUNTED, len(self._queue))):
            self._count(self._queue.pop())

    def _late(self) -> bool:
        """Whether counting the boxes that are left would take all the time that is left."""
        if self._limits.seconds is None:
            return False
        left = self._limits.seconds - self._limits.elapsed
        live = int(self._store.used.sum())
        if live > 1.5 * self._looked:
            # What counting costs depends on the boxes, and on the machine.
            self._looked = live
            rows = np.flatnonzero(self._store.used)
            began = self._limits.elapsed
            chosen = rows[np.linspace(0, len(rows) - 1, 4).astype(np.int64)]
            for row in chosen.tolist():
                self._counts(row)
            self._cost = (self._limits.elapsed - began) / len(chosen)
        return live * self._cost > 0.9 * left

    def _by_volume(self) -> list[int]:
        rows = np.flatnonzero(self._store.used)
        out: list[int] = rows[np.argsort(self._store["volume"][rows], kind="stable")].tolist()
        return out

    def rest(self) -> list[tuple[Ints, Verdicts]]:
        """Return the boxes that are undecided as a whole; after an interrupt, count some of them first."""
        if self._queue is None:
            self._queue, began = self._by_volume(), self._limits.elapsed
            try:
                while self._queue and self._limits.elapsed - began < AFTER:
                    with interrupts.held:
                        self._count(self._queue.pop())
            except KeyboardInterrupt:
                interrupts.mark_handled()
        rows = np.flatnonzero(self._store.used)
        pattern = self._store["pattern"][rows]
        return [(self._store["number"][rows], self._known(pattern)[0])]

    def _known(self, pattern: Ints) -> tuple[Verdicts, Ints]:
        """Return the verdicts about boxes of some patterns that need no bounds, and the families of the others."""
        family = self._family_of[pattern]
        out = np.full(family.shape, UNDECIDED, dtype=np.int8)
        for verdict, number in FAMILY.items():
            out[family == number] = verdict
        return out, family

    def _split(self, count: int) -> None:
        """Split the boxes with most individuals that are probably undecided."""
        store = self._store
        priority = np.where(store.used, store["priority"], -1.0)
        count = min(count, int(store.used.sum()))
        rows = np.argpartition(-priority, count - 1)[:count]
        low, high, column = store["low"][rows], store["high"][rows], store["column"][rows]
        number, pattern = store["number"][rows], store["pattern"][rows]
        at = np.arange(count)
        cuts = (low[at, column] + high[at, column] + 1) // 2
        first = self.parts.split(number, column, cuts)
        lower, upper = high.copy(), low.copy()
        lower[at, column], upper[at, column] = cuts - 1, cuts
        store.remove(rows)
        self._add(
            Live(
                np.concatenate([first, first + 1]), np.concatenate([low, upper]), np.concatenate([lower, high]),
                np.concatenate([pattern, pattern]),
            )
        )  # fmt: skip

    def _add(self, live: Live) -> None:
        """Bound boxes, decide those that can be decided, and keep the others."""
        for start in range(0, len(live), 2 * self.batch):
            self._add_some(live[slice(start, start + 2 * self.batch)])

    def _add_some(self, live: Live) -> None:
        verdicts, family = self._known(live.pattern)
        volume = np.asarray(self.domain.uniform.count(live.low, live.high), dtype=np.float64)
        # Boxes without valid individuals need no verdict.
        open_ = ((family >= 0).any(axis=1)) & (volume > 0)
        self.done.append((live.number[~open_], verdicts[~open_]))
        live, verdicts, family, volume = live[open_], verdicts[open_], family[open_], volume[open_]
        if not len(live):
            return
        bounds = bound(self.network, self.inputs, live.low, live.high)
        sums, undecided = [], np.zeros(len(live))
        weights = np.array(self.domain.uniform.groups, dtype=np.float64)
        differ = np.zeros((len(live), len(self.inputs.tables)))
        for number, members in enumerate(self.families):
            kinds = list(members)
            one = sums_of(
                bounds.ends, bounds.lower[:, kinds], bounds.lower_constant[:, kinds],
                bounds.upper[:, kinds], bounds.upper_constant[:, kinds],
            )  # fmt: skip
            sums.append(one)
            verdict, share, apart = self._judge(bounds, one)
            mine = family == number
            verdicts[mine] = np.broadcast_to(verdict[:, None], family.shape)[mine]
            undecided += share * (mine * weights).sum(axis=1)
            differ += apart * mine.any(axis=1)[:, None]
        decided = (verdicts != UNDECIDED).all(axis=1)
        small = ~decided & (volume <= SMALL)
        if small.any():
            self._ask_about(live[small], verdicts[small] == UNDECIDED)
        # Boxes that were asked about stay undecided as a whole.
        finished = decided | small
        self.done.append((live.number[finished], verdicts[finished]))
        left = ~finished
        if not left.any():
            return
        column = self._best_columns(live[left], bounds.influence[left] + differ[left], bounds.lower[left])
        self._store.add(
            number=live.number[left], low=live.low[left], high=live.high[left], pattern=live.pattern[left],
            priority=(volume * undecided)[left], volume=volume[left], column=column,
            coefficients=np.stack([one.coefficients[left] for one in sums], axis=1),
            constants=np.stack([one.constants[left] for one in sums], axis=1),
        )  # fmt: skip

    def _judge(self, bounds: Bounds, sums: Sums) -> tuple[Verdicts, Floats, Floats]:
        """Judge boxes by their sums; also return which share is undecided, about, and how the sums differ."""
        need = SIGNS * self.network.cut - sums.constants
        least = bounds.ends.least(sums.coefficients)
        sure = least > need
        verdict = np.where(sure[:, 0] | sure[:, 1], FAIR, np.where(sure[:, 2] & sure[:, 3], UNFAIR, UNDECIDED))
        never = -bounds.ends.least(-sums.coefficients) <= need
        mean, variance = bounds.ends.moments(sums.coefficients)
        chance = ndtr((mean - need) / np.sqrt(np.maximum(variance, 1e-30)))
        chance = np.where(sure, 1.0, np.where(never, 0.0, chance))
        fair = chance[:, 0] + chance[:, 1]
        unfair = np.maximum(chance[:, 2] + chance[:, 3] - 1, 0.0)
        share = np.clip(1 - fair - unfair, 1e-6, 1.0)
        apart = bounds.ends.spread(sums.coefficients[:, 2] + sums.coefficients[:, 3])
        return verdict.astype(np.int8), share, apart

    def _best_columns(self, live: Live, influence: Floats, lower: Floats) -> Ints:
        """Return the attribute that each box is split on: the one that widens its bounds most."""
        scores = np.zeros((len(live), len(self.domain.columns)))
        slopes = np.abs(lower).max(axis=1)
        for i, mine in enumerate(self.inputs.of_place):
            if mine:
                scores[:, i] = influence[:, mine].sum(axis=1) + 1e-9 * slopes[:, mine].sum(axis=1)
        # An attribute with one value left cannot be split; one without influence is split last.
        scores = np.where(live.high > live.low, scores + 1e-30 * (live.high - live.low), -1.0)
        return np.asarray(scores.argmax(axis=1))

    def _ask_about(self, live: Live, open_: npt.NDArray[np.bool_]) -> None:
        """Ask about all individuals of boxes, in the groups that are undecided."""
        lists = [combinations(self.domain, low, high) for low, high in zip(live.low, live.high, strict=True)]
        self._asked |= {number: {} for number in live.number.tolist()}
        for group in range(open_.shape[1]):
            boxes = np.flatnonzero(open_[:, group]).tolist()
            if not boxes:
                continue
            answers = self._ask(np.concatenate([lists[box] for box in boxes]), group)
            at = 0
            for box in boxes:
                mine = answers[at : at + len(lists[box])]
                at += len(lists[box])
                self._asked[int(live.number[box])][group] = mine
                for measure, total in zip(self.measures, self.totals, strict=True):
                    weights = measure.weigh(lists[box])
                    found = int(weights[mine].sum())
                    total[0] += measure.groups[group] * (int(weights.sum()) - found)
                    total[1] += measure.groups[group] * found

    def _slab(self, row: int, family: int) -> Slab:
        store = self._store
        sums = Sums(store["coefficients"][row, family], store["constants"][row, family])
        return Slab(self.inputs, store["low"][row], store["high"][row], sums, self.network.cut)

    def _counts(self, row: int) -> tuple[list[list[int]], dict[int, Slab]]:
        """Count the sums of a box, by measure; return also its slabs, by group."""
        out, slabs = [[0, 0] for _ in self.measures], dict[int, Slab]()
        family = self._family_of[self._store["pattern"][row]]
        for number in np.unique(family[family >= 0]).tolist():
            slab = self._slab(row, number)
            groups = np.flatnonzero(family == number).tolist()
            slab.count(self.measures)
            for measure, total, found in zip(self.measures, out, slab.counts, strict=True):
                weight = sum(measure.groups[group] for group in groups)
                total[0] += weight * found[0]
                total[1] += weight * found[1]
            slabs |= dict.fromkeys(groups, slab)
        return out, slabs

    def _count(self, row: int) -> None:
        store, number = self._store, int(self._store["number"][row])
        if not countable(self.domain, store["low"][row], store["high"][row]):
            return
        counts, slabs = self._counts(row)
        for total, found in zip(self.totals, counts, strict=True):
            total[0] += found[0]
            total[1] += found[1]
        self._unfair[number], self._slabs[number] = counts[0][1], slabs

    def left(self, number: int, group: int) -> int:
        """Return how many combinations of free values are undecided in a box that is undecided as a whole."""
        if number in self._asked:
            return 0
        if number in self._slabs:
            slab = self._slabs[number][group]
            return slab.total - sum(slab.counts[0])
        at = int(np.searchsorted(self.parts.leaves, number))
        low, high = self.parts.low[at : at + 1].astype(np.int64), self.parts.high[at : at + 1].astype(np.int64)
        return int(self.domain.uniform.count(low, high)[0])

    def verdicts(self, number: int, group: int, free: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """Judge individuals of a group in a box that is undecided as a whole."""
        if number in self._asked:
            listed, answers = self._listed(number), self._asked[number][group]
            unfair = answers[positions(tuple(range(listed.shape[1])), listed, free)]
            return np.where(unfair, UNFAIR, FAIR).astype(np.int8)
        if number not in self._slabs:
            return np.full(len(free), UNDECIDED, dtype=np.int8)
        return self._slabs[number][group].verdicts(free)

    def example(self) -> tuple[npt.NDArray[np.int64], int] | None:
        """Return codes of the free attributes, and the group, of one who is treated differently in boxes with sums."""
        for number, groups in self._asked.items():
            for group, answers in groups.items():
                if answers.any():
                    return self._listed(number)[int(answers.argmax())], group
        rng = np.random.default_rng(0)
        some = sorted((-count, number) for number, count in self._unfair.items() if count)[:EXAMPLES]
        for _, number in some:
            slab = next(iter(self._slabs[number].values()))
            drawn = rng.integers(slab.low, slab.high + 1, size=(DRAWN, len(slab.low)))
            if int(self.domain.uniform.count(slab.low[None], slab.high[None])[0]) <= DRAWN:
                drawn = combinations(self.domain, slab.low, slab.high)
            for one in self.domain.tied:
                drawn = drawn[one.valid[tuple(drawn[:, list(one.columns)].T)]]
            for group, slab in self._slabs[number].items():
                found = np.flatnonzero(slab.verdicts(drawn) == UNFAIR)
                if len(found):
                    return drawn[found[0]], group
        return None

    def _listed(self, number: int) -> Ints:
        """List the individuals of a box that was asked about."""
        at = int(np.searchsorted(self.parts.leaves, number))
        return combinations(self.domain, self.parts.low[at].astype(np.int64), self.parts.high[at].astype(np.int64))
