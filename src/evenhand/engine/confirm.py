"""Asks a model again: whether its answers are its own, and whether its findings hold.

A row's answer must depend on that row alone. So some rows are asked again in the same batch, which shows noise, and in
other batches: another order, other sizes, other rows beside them. Findings are asked again in the same way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.engine.probe import Asker
from evenhand.errors import FlakyModel, ModelError, ModelTimeout, RunError
from evenhand.spaces.base import Block, Families
from evenhand.spaces.findings import Findings

if TYPE_CHECKING:
    from evenhand.engine.judge import Judge

OF_BLOCK, BLOCKS, AT_MOST = 8, 1024, 512
"""Tests that are noted of a stored block, blocks, and tests of each kind that are asked again."""
PROBES = 256
"""Rows of a block that are asked again."""
ENOUGH = 192
"""Rows of a block that are enough to look at all that may make answers depend on the batch."""
FEWEST = 16
"""Rows of a first block that are too few to look at more than noise and order."""
LATER = 64
"""Rows of a later block, larger than those before, that are asked again."""
BUILT = 2**14
"""Rows of families that are built to choose those from, at most, unless one family has more."""
TRIED = 64
"""Rows on which scores and decisions are compared."""
ALONE_AT_FIRST = 6
"""Rows that are asked alone, beside which there is nothing that an answer could depend on."""
PATIENCE, BRIEF = 2.0, 0.5
"""Seconds that the rows of a full check should take at most, of a model that is slow, and those of any other check."""
LEAST = 4
"""Rows that are asked however slow a model is: fewer would show nothing."""
WAYS, IN_ORDER = 8, 4
"""How often a full check asks about each row, roughly; and one that looks at noise and order only."""
SMALL = 63
"""The most rows of a batch in which they are asked again in another order: as unlike a large one as can be."""
GROWN = 2
"""A block with so many times the rows of the last one that was checked is checked as well: calls may start small."""
STEADY = 3
"""How often answers must come again before they are said to depend on the batch, and not on chance."""
OFTEN = 8
"""How often rows are asked once more, to tell a model that answers by chance from one that has changed."""
SHUFFLES = 1_000
"""How many shuffles of noisy answers must repeat less often than these before they are said to come in turn."""
SLAB = 2**16
"""Findings whose rows are mixed with one another when they are asked again."""
TOLERANCE = 1e-6
ROUNDING = 1e-4
"""What the size of a batch may change of a score by the order of its sums, in single precision, relative to it."""
FEW = 0.05
"""The largest share of findings that may fall to rounding alone."""

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ALONE = (
    "make its answer to a row depend on that row alone (a network in evaluation mode, no statistics of the batch, one "
    "and the same replica for all rows)"
)
RANDOM = "switch off what is random in it (dropout, sampling, temperature), or average its answers"


@dataclass(frozen=True)
class Said:
    """What a model said of some rows."""

    labels: npt.NDArray[Any]
    scores: npt.NDArray[np.float64] | None
    follows: bool
    """Whether the decisions follow from the scores."""

    def __getitem__(self, at: Any) -> Said:
        return Said(self.labels[at], None if self.scores is None else self.scores[at], self.follows)

    def differs(self, other: Said, scores: bool = True) -> Mask:
        """Tell which rows got two answers, beyond what rounding changes."""
        unlike = ~same(other.labels, self.labels, ROUNDING)
        if not scores or self.scores is None or other.scores is None:
            return unlike
        far = ~_close(other.scores, self.scores).all(axis=1)
        # Where scores agree and the decisions that follow from them do not, the row is on the edge of both.
        return np.asarray(far if self.follows else far | unlike)


def affordable(asker: Asker, most: int, ways: int, seconds: float) -> int:
    """How many rows, of at most so many, may be asked in so many ways: fewer where a row takes long.

    What the calls so far have taken tells how long that is.
    """
    pace = asker.asking.calls.pace
    if not pace:
        return most
    return min(most, max(LEAST, int(seconds / (ways * asker.cost * pace))))


class Steadiness:
    """Checks that a model answers each row by itself: for the first block of a run, and for much larger ones later.

    Where no block had rows enough to look at everything, ``finish`` does that with the rows of all blocks together.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 99), Boolean("member")], protected="member")
    >>> model = wrap(lambda frame: frame["age"] > frame["age"].mean())
    >>> rows = space.individuals([[age, 0] for age in range(100)]).rows
    >>> try:
    ...     Steadiness(Asker(model, space, Flip()), seed=0, chunk=1000).check_rows(rows)
    ... except FlakyModel as error:
    ...     print(str(error).partition(":")[0])
    the prediction depends on the other rows in the batch
    """

    def __init__(self, asker: Asker, seed: int, chunk: int) -> None:
        self.asker, self.seed, self.chunk = asker, seed, chunk
        self.rows = 0
        """Rows asked to check."""
        self._largest = self._full = 0
        """Rows of the largest block that was checked, and of the largest at which everything was looked at."""
        self._kept: list[Any] = []
        self._scored = False
        self._probing: Asker | None = None

    def check(self, families: Families, outputs: Outputs) -> tuple[int, int]:
        """Check a block that the model has answered; return how many rows wavered, of how many that were asked twice.

        Raises ``FlakyModel`` where answers depend on the batch.
        """
        size = int(families.places.sum())
        self.keep(families)
        if not size or size < GROWN * self._largest:
            return 0, 0
        # The first blocks of a run are small: all is looked at again in the first that has rows enough.
        first, self._largest = not self._largest, size
        full = (first and size > FEWEST) or self._full < ENOUGH <= size
        rng = np.random.default_rng([self.seed, size])
        most = self._most(full or first, full)
        at = _chosen(families, outputs, rng, most)
        some = families[at]
        members = _members(some.places, rng, most)
        said = self._flat(outputs, families.valid, at)[members]
        if full:
            self._full = size
            members, said = _repeated(members, most), said[_repeated(np.arange(len(members)), most)]
        return self._check(take(some.asked, members), first or full, full, said)

    def check_rows(self, rows: Any) -> tuple[int, int]:
        """Check rows that have not been asked yet; otherwise as ``check``."""
        most = self._most(True, True)
        return self._check(take(rows, _repeated(np.arange(min(len(rows), most)), most)), True, True)

    @property
    def lacks_rows(self) -> bool:
        """Whether ``finish`` may need more rows."""
        return self._full < ENOUGH and sum(map(len, self._kept)) < PROBES

    def keep(self, families: Families) -> None:
        """Note some rows that were judged, for ``finish``."""
        if self.lacks_rows and len(families):
            room = PROBES - sum(map(len, self._kept))
            enough = int(np.searchsorted(np.cumsum(families.places[:room]), room)) + 1
            self._kept.append(families[np.arange(min(len(families), enough))].asked[:room])

    def finish(self) -> tuple[int, int]:
        """Look at everything with the rows of several blocks, unless one had enough; otherwise as ``check``."""
        kept = sum(map(len, self._kept))
        if self._full >= min(kept, ENOUGH):
            return 0, 0
        self._full = kept
        texts = isinstance(self._kept[0], list)
        rows = [text for part in self._kept for text in part] if texts else np.concatenate(self._kept)
        return self.check_rows(rows)

    def _most(self, noise: bool, full: bool) -> int:
        """How many rows to ask again: fewer of a slow model, which must not be asked for hours to be checked."""
        most = min(PROBES if noise else LATER, self.chunk)
        return affordable(self.asker, most, WAYS if full else IN_ORDER, PATIENCE if full else BRIEF)

    @property
    def _follows(self) -> bool:
        return self.asker.model.decides or self.asker.model.regression

    def _flat(self, outputs: Outputs, valid: Mask | None, at: Positions) -> Said:
        """Return what was said of each row of some families, row after row."""

        def rows(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            here = values[at]
            return here.reshape(-1, *here.shape[2:]) if valid is None else here[valid[at]]

        assert outputs.labels is not None
        return Said(rows(outputs.labels), None if outputs.scores is None else rows(outputs.scores), self._follows)

    def _ask(self, rows: Any) -> Said:
        assert self._probing is not None
        return Said(*_at_once(self._probing, rows), self._follows)

    def _check(self, rows: Any, noise: bool, full: bool, said: Said | None = None) -> tuple[int, int]:
        """Ask rows in several ways; ``said`` is what the model said of them in their block, if they were asked.

        ``noise``: also in the same order once more; ``full``: also in other company and in batches of other sizes.
        """
        before = self.asker.asking.calls.rows
        try:
            return self._compared(rows, noise, full, said)
        finally:
            self.rows += self.asker.asking.calls.rows - before

    def _compared(self, rows: Any, noise: bool, full: bool, said: Said | None) -> tuple[int, int]:
        if self._probing is None:
            self._probing = self._with_scores(rows)
        every, rng = np.arange(len(rows)), np.random.default_rng([self.seed, len(rows)])
        order = rng.permutation(len(rows))
        ways: list[tuple[Positions, Callable[[], Said], Said]] = []
        asked: list[tuple[Positions, Callable[[], Said]]] = []
        if noise:
            # The same rows in the same order: what differs now is the model's own noise.
            first, again = self._ask(rows), self._ask(rows)
            waver = int(first.differs(again, self.asker.criterion.needs_scores or self.asker.contrasts).sum())
            if waver:
                return waver, len(rows)
            self._scored = not first.differs(again).any()
            ways.append((every, lambda: self._ask(rows), first))
        if full:
            asked = [self._beside(rows, rng, extreme) for extreme in _extremes(rows)]
            # A larger batch than any that the run may have asked yet, but none larger than a block may be.
            doubled = take(rows, np.concatenate([every[::-1], every])[-self.chunk :])
            asked.append((every, lambda: self._ask(doubled)[-len(rows) :]))
            asked.append((every, lambda: self._scattered(rows, order)))
        else:
            # Of a first small block, or of a later larger one, another order says enough.
            asked.append((every, lambda: self._ask(take(rows, order))[np.argsort(order)]))
        ways += [(at, ask, ask()) for at, ask in asked]
        known = ways[0][2]
        lost = np.zeros(len(rows), dtype=bool) if said is None else self._lost(known, said)
        for at, _, answer in ways[1:]:
            lost[at] |= self._lost(known[at], answer)
        if not lost.any():
            return 0, len(rows)
        # A noisy answer does not come again; one that depends on its batch does, whenever that is the same.
        for _, ask, before in ways:
            for _ in range(STEADY):
                waver = int(before.differs(ask(), self._scored).sum())
                if waver:
                    return waver, len(rows)
        raise FlakyModel(self._why(rows, int(lost.sum())), float(lost.mean()))

    def _lost(self, known: Said, answer: Said) -> Mask:
        lost = known.differs(answer, self._scored)
        if lost.any() and known.scores is not None and answer.scores is None and known.follows:
            lost &= ~_reachable(self.asker, known.scores, answer.labels)
        return lost

    def _scattered(self, rows: Any, order: Positions) -> Said:
        assert self._probing is not None
        labels, scores = scattered(self._probing, rows, order, min(SMALL, self.chunk), ALONE_AT_FIRST, 2)
        return Said(labels, scores, self._follows)

    def _beside(self, rows: Any, rng: np.random.Generator, extreme: int) -> tuple[Positions, Callable[[], Said]]:
        """Ask half of the rows behind many copies of an extreme one, so that all that a batch has in common changes."""
        at = np.sort(rng.permutation(len(rows))[: (len(rows) + 1) // 2])
        # An odd number: rows in turn change places too.
        copies = max(1, len(at) - 1 + len(at) % 2)
        batch = take(rows, np.concatenate([np.full(copies, extreme), at]))
        return at, lambda: self._ask(batch)[copies:]

    def _with_scores(self, rows: Any) -> Asker:
        """Ask for scores, which tell far more than decisions, where they cost nothing."""
        scored = scores_come_along(self.asker, rows)
        if scored == self.asker.scored:
            return self.asker
        probing = copy.copy(self.asker)
        probing.scored = True
        return probing

    def _why(self, rows: Any, lost: int) -> str:
        # The same rows beside the same first one: only places change.
        order = np.append(0, 1 + np.random.default_rng(self.seed).permutation(len(rows) - 1))
        moved = self._ask(rows)[order].differs(self._ask(take(rows, order)), self._scored).any()
        how = "the position of a row in the batch" if moved else "the other rows in the batch"
        return (
            f"the prediction depends on {how}: {lost:,} of {len(rows):,} rows got another answer when they were asked "
            f"again in another order and in batches of other sizes, which is the same each time; {ALONE}"
        )


def noisy(waver: int, rows: int, name: str = "the model") -> FlakyModel:
    """Say that a model answers the same rows in the same batch differently."""
    noise = waver / rows
    return FlakyModel(f"{name} gave two answers to {noise:.1%} of {rows:,} rows that were asked twice; {RANDOM}", noise)


def scattered(
    asker: Asker, rows: Any, order: Positions, most: int, alone: int = 1, growth: int = 256
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
    """Ask rows in some order, the first ones alone, the others in growing batches; return answers in the rows' order.

    With ``alone=0``, all batches are as large as they may be.
    """
    said = [_both(asker, rows, part) for part in _cut(order, most, alone, growth)]
    back = np.argsort(order)
    scores = [s for _, s in said if s is not None]
    return np.concatenate([labels for labels, _ in said])[back], np.concatenate(scores)[back] if scores else None


def _both(asker: Asker, rows: Any, part: Positions) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
    try:
        return _at_once(asker, take(rows, part))
    except ModelTimeout:
        raise
    except ModelError:
        if len(part) > 1:
            raise
        # Some models take no single row; one that fails otherwise fails again.
        labels, scores = asker.both(take(rows, np.repeat(part, 2)))
        return labels[:1], None if scores is None else scores[:1]


def _at_once(asker: Asker, rows: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
    """Ask rows in one call, unless they are very many."""
    if len(rows) > 2 * PROBES:
        return asker.both(rows)
    with asker.asking.calls.at_once():
        return asker.both(rows)


def _cut(order: Positions, most: int, alone: int, growth: int) -> Iterator[Positions]:
    # Odd sizes, where those of a run are mostly even.
    most = max(1, most - 1 + most % 2)
    at, size = 0, 1 if alone else most
    while at < len(order):
        yield order[at : at + size]
        at += size
        if at >= alone:
            size = min(growth * size + 1, most)


def take(rows: Any, at: Positions) -> Any:
    """Return some rows, of codes or of texts.

    >>> take(["a", "b"], np.array([1, 1]))
    ['b', 'b']
    """
    return [rows[i] for i in at.tolist()] if isinstance(rows, list) else rows[at]


def _extremes(rows: Any) -> tuple[int, int]:
    """Where the rows are that differ most from the rest: lowest and highest in all attributes, shortest and longest."""
    if isinstance(rows, list):
        size = np.array([len(text) for text in rows])
    else:
        spread = rows.std(axis=0)
        size = ((rows - rows.mean(axis=0)) / np.where(spread, spread, 1)).sum(axis=1)
    return int(size.argmin()), int(size.argmax())


def _chosen(families: Families, outputs: Outputs, rng: np.random.Generator, rows: int) -> Positions:
    """Choose families to ask again: as many of each decision as there are, because a rare one is the easiest lost."""
    import pandas as pd

    assert outputs.labels is not None
    count, width = len(families), outputs.labels.shape[1]
    order = rng.permutation(count)
    codes, _ = pd.factorize(outputs.labels[order, outputs.own[order]])
    turn = pd.Series(codes).groupby(codes).cumcount().to_numpy()
    most = max(1, min(rows, BUILT // width))
    return np.sort(order[np.argsort(turn, kind="stable")[:most]])


def _repeated(places: Positions, count: int) -> Positions:
    """Repeat places until there are so many: where few rows are asked, each must be seen in many batches.

    >>> _repeated(np.array([4, 7]), 5).tolist()
    [4, 7, 4, 7, 4]
    """
    return places if len(places) >= count else np.resize(places, count)


def _members(places: Positions, rng: np.random.Generator, rows: int) -> Positions:
    """Choose rows of families, as many of each as fit: members of one family mostly get the same answer."""
    order = rng.permutation(int(places.sum()))
    family = np.repeat(np.arange(len(places)), places)[order]
    by_family = np.argsort(family, kind="stable")
    starts = np.cumsum(places) - places
    turn = np.empty(len(order), dtype=np.int64)
    turn[by_family] = np.arange(len(order)) - np.repeat(starts, places)
    return np.sort(order[np.argsort(turn, kind="stable")[:rows]])


def scores_come_along(asker: Asker, rows: Any) -> bool:
    """Whether the model's scores cost nothing beside its decisions, and lead to the same ones for some rows."""
    if asker.scored or not _may_score(asker):
        return asker.scored
    # Where nothing was asked yet, a few tell how long a row takes.
    first = LEAST if asker.asking.calls.pace is None else affordable(asker, TRIED, 2, BRIEF)
    if not len(rows) or not _scored_alike(asker, rows[:first]):
        return False
    rest = rows[first : affordable(asker, TRIED, 2, BRIEF)]
    return not len(rest) or _scored_alike(asker, rest)


def _scored_alike(asker: Asker, rows: Any) -> bool:
    with asker.asking.calls.at_once():
        plain = asker.labels(rows)
        asker.scored = True
        try:
            labels, scores = asker.both(rows)
        except ModelError:
            return False
        finally:
            asker.scored = False
    # A single number that no threshold cuts may well be a label.
    known = asker.model.threshold is not None or asker.model.classes is not None
    return scores is not None and (known or scores.shape[1] > 1) and bool(np.asarray(labels == plain).all())


def _may_score(asker: Asker) -> bool:
    return asker.model.has_scores and asker.model.decides and not asker.model.regression


def in_turn(codes: npt.NDArray[Any]) -> bool:
    """Tell whether whole batches came back too often, as of replicas that answer in turn, for chance to have done it.

    ``codes`` are the answers to the same rows in the same order, one row of them for each time.

    >>> in_turn(np.tile([[0] * 20, [1] * 20], (4, 1)))
    True
    >>> in_turn(np.random.default_rng(0).integers(0, 2, (8, 20)))
    False
    """
    again = repeated_pairs(codes)
    codes = codes[:, (codes != codes[0]).any(axis=0)]
    if not again or codes.shape[1] < 2:
        # One row that wavers says nothing: its own noise looks the same.
        return False
    rng = np.random.default_rng(0)
    # If each row wavered by itself, any order of its answers would be as likely as the one that came.
    return all(repeated_pairs(rng.permuted(codes, axis=0)) < again for _ in range(SHUFFLES))


def repeated_pairs(codes: npt.NDArray[Any]) -> int:
    """Count the pairs of batches whose answers are the same for every row.

    >>> repeated_pairs(np.array([[0, 1], [1, 1], [0, 1], [0, 1]]))
    3
    """
    # A number for each batch, which differs where the answers do.
    names = codes.astype(np.int64) @ np.random.default_rng(0).integers(1, 2**62, codes.shape[1])
    _, times = np.unique(names, return_counts=True)
    return int((times * (times - 1)).sum()) // 2


@dataclass(frozen=True)
class Checked:
    """What came of asking the findings of a run again."""

    confirm: int | None = None
    """How many were to be asked again, at most; None: all."""
    asked: int = 0
    """How many were asked again: all, or so many as the seed chooses."""
    refuted: list[int] = field(default_factory=list)
    """Where those that the model did not answer the same way again stood among the findings of the search."""
    unsteady: str | None = None
    """Why the model does not answer steadily, if it does not."""
    noise: float = 0.0
    """The share of rows, or of findings, by which that was noticed."""

    def to_dict(self) -> dict[str, Any]:
        """Give it in plain values."""
        return {
            "confirm": self.confirm,
            "asked_again": self.asked,
            "refuted": self.refuted,
            "unsteady": self.unsteady,
            **({} if self.unsteady is None else {"noise": self.noise}),
        }

    def accused(self, error: FlakyModel) -> Checked:
        """Note why the model does not answer steadily."""
        return replace(self, unsteady=str(error), noise=error.noise)

    @classmethod
    def of(cls, result: dict[str, Any]) -> Checked:
        """Read it from the result of a run."""
        told = result.get("checked")
        if told is None:
            # Written by a version that did not write down which findings it had asked again.
            return cls(0)
        return cls(told["confirm"], told["asked_again"], told["refuted"], told["unsteady"], told.get("noise", 0.0))

    def fits(self, found: int) -> bool:
        """Tell whether this can be of a search that found so many."""
        refuted = self.refuted
        within = not refuted or (refuted[0] >= 0 and refuted[-1] < found)
        return 0 <= self.asked <= found and within and all(np.diff(refuted) > 0)

    def settle(self, findings: Findings, seed: int) -> None:
        """Take the refuted findings out, and mark those that were asked again as confirmed.

        Of a model that does not answer steadily, none is: the same answer once more may have been chance.
        """
        asked = np.zeros(findings.count, dtype=bool)
        if self.unsteady is None:
            asked[to_confirm(findings.count, self.asked, seed)] = True
        findings.mark(asked)
        if self.refuted:
            findings.drop(np.array(self.refuted))

    def counted(self, points: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Take the refuted findings out of a discovery curve, in which each has its place."""
        gone = np.searchsorted(self.refuted, [found for *_, found in points]).tolist()
        return [(tests, rows, found - n) for (tests, rows, found), n in zip(points, gone, strict=True)]


def to_confirm(found: int, most: int | None, seed: int) -> Positions:
    """Choose the findings to ask again: all, or so many by the seed.

    >>> to_confirm(3, None, 0), len(to_confirm(100, 5, 0))
    (array([0, 1, 2]), 5)
    """
    if most is None or most >= found:
        return np.arange(found)
    return np.sort(np.random.default_rng(seed).choice(found, most, replace=False))


def confirm(
    asker: Asker, findings: Findings, seed: int, chunk: int, most: int | None = None
) -> tuple[Checked, int, FlakyModel | None]:
    """Ask findings again, all or at most so many; return what came of it, the rows it took, and an error to raise.

    There is no error if those refuted are few, and so near the edge between two decisions that rounding moves them.
    ``Checked.settle`` changes the findings.
    """
    chosen = to_confirm(findings.count, most, seed)
    held = holds(asker, findings, chosen, chunk, seed)
    lost, rows = chosen[~held], 2 * len(chosen) * asker.cost
    if not len(lost):
        return Checked(most, len(chosen)), rows, None
    if len(lost) <= max(1, FEW * len(chosen)):
        rows += 2 * len(lost) * asker.cost
        if _on_edge(asker, findings, lost).all():
            return Checked(most, len(chosen), lost.tolist()), rows, None
    why = (
        f"{len(lost):,} of {len(chosen):,} findings that were asked again, in another order and in batches of other "
        f"sizes, got another answer, and are not reported; {RANDOM}; or check that its answer to a row does not depend "
        "on the other rows in the batch"
    )
    return Checked(most, len(chosen), lost.tolist(), why), rows, FlakyModel(why, len(lost) / len(chosen))


def _on_edge(asker: Asker, findings: Findings, at: Positions) -> Mask:
    """Tell which findings have decisions that a change of scores by rounding would bring back."""
    edge = np.full(len(at), _may_score(asker))
    if not edge.any():
        return edge
    for side, said in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        try:
            scores = asker.scores(findings.rows(side, at))
        except ModelError:
            return np.zeros(len(at), dtype=bool)
        edge &= _reachable(asker, scores, findings.decisions(said, at))
    return edge


def _reachable(asker: Asker, scores: npt.NDArray[np.float64], labels: npt.NDArray[Any]) -> Mask:
    """Tell which rows of scores lead to these decisions, as they are or moved by what rounding changes."""
    step = ROUNDING * float(np.abs(scores).max(initial=0))
    near = np.zeros(len(scores), dtype=bool)
    for moved in _moved(scores, step):
        near |= np.asarray(asker.model.decide(moved) == labels, dtype=bool)
    return near


def rounding_alone(asker: Asker, outputs: Outputs, lost: Positions, asked: int) -> bool:
    """Tell whether lost findings, of so many asked again, are few and all in families that rounding decides."""
    if not len(lost) or outputs.scores is None or not _may_score(asker) or len(lost) > max(1, FEW * asked):
        return False
    scores = outputs.scores[lost].reshape(-1, outputs.scores.shape[2])
    step = ROUNDING * float(np.abs(outputs.scores).max(initial=0))
    said = asker.model.decide(scores)
    near = np.zeros(len(scores), dtype=bool)
    for moved in _moved(scores, step):
        near |= np.asarray(asker.model.decide(moved) != said, dtype=bool)
    return bool(near.reshape(len(lost), -1).any(axis=1).all())


def _moved(scores: npt.NDArray[np.float64], step: float) -> Iterator[npt.NDArray[np.float64]]:
    """Move scores by a step, one column at a time and both ways; and not at all."""
    return (scores + step * sign * one for one in np.eye(scores.shape[1]) for sign in (-1, 0, 1))


def holds(asker: Asker, findings: Findings, chosen: Positions, chunk: int, seed: int = 0) -> Mask:
    """Tell which of the chosen findings the model still answers as recorded, and still treats differently.

    They are asked in a drawn order and in batches of other sizes, both sides of a pair apart.
    """
    parts = [_holds(asker, findings, chosen[i : i + SLAB], chunk, seed, not i) for i in range(0, len(chosen), SLAB)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _holds(asker: Asker, findings: Findings, at: Positions, chunk: int, seed: int, alone: bool) -> Mask:
    one, other = (findings.rows(side, at) for side in ("individual", "counterpart"))
    rows = one + other if isinstance(one, list) else np.concatenate([one, other])
    order = np.random.default_rng([seed, len(at)]).permutation(len(rows))
    labels, scores = scattered(asker, rows, order, chunk, int(alone))
    ok = np.ones(len(at), dtype=bool)
    for part, said in zip(np.split(labels, 2), ("decision", "counterpart_decision"), strict=True):
        ok &= same(findings.coding.encode(part), findings.select(said, at), ROUNDING)
    if scores is not None and asker.criterion.needs_scores:
        both, scored = (np.stack(np.split(values, 2), axis=1) for values in (labels, scores))
        judged = asker.criterion.judge(Outputs(both, scored, np.zeros(len(at), dtype=np.int64)))
        # A pair at the very edge of gamma counts if its gap is the stored one.
        ok &= judged.unfair | _close(judged.gap, findings.select("gap", at))
    return ok


def same(labels: npt.NDArray[Any], before: npt.NDArray[Any], tolerance: float = TOLERANCE) -> Mask:
    """Tell which decisions are the same; numbers may differ by what the order of a sum changes.

    >>> same(np.array([1.0, 2.0]), np.array([1.0 + 1e-12, 2.1])).tolist()
    [True, False]
    """
    if before.dtype.kind == "f" and labels.dtype.kind == "f":
        return _close(labels, before, tolerance)
    return np.asarray(labels == before, dtype=bool)


def _close(scores: npt.NDArray[Any], before: npt.NDArray[Any], tolerance: float = ROUNDING) -> Mask:
    """Tell which scores are the same but for rounding, which goes with the size of the largest."""
    return np.asarray(np.abs(scores - before) <= tolerance * max(np.abs(before).max(initial=0.0), TOLERANCE))


class StoredTests:
    """Some tests of a log and their verdicts, by which a model that has changed since is recognised.

    Findings come first, because they are what a run claims; the others are spread over all stored tests.
    """

    def __init__(self) -> None:
        self._parts: dict[bool, list[tuple[Block, Mask]]] = {True: [], False: []}

    def add(self, block: Block, unfair: Mask) -> None:
        """Note some tests of a stored block."""
        for kind, parts in self._parts.items():
            places = np.flatnonzero(unfair == kind)
            some = places[_spread(len(places), OF_BLOCK)]
            if len(some):
                parts.append((block[some], unfair[some]))
            if len(parts) > BLOCKS:
                # Every other one, so that what is left is spread over all blocks.
                del parts[1::2]

    def check(self, judge: Judge, where: Path | None) -> None:
        """Judge them again; raise where a verdict is another one."""
        for parts in self._parts.values():
            chosen = [parts[i] for i in _spread(len(parts), AT_MOST // OF_BLOCK)]
            for block, before in chosen:
                judged = judge.judge(judge.families(block))
                unlike = (judged.unfair != before) & ~_at_the_edge(judge.asker.criterion, judged.verdicts)
                if unlike.any():
                    refuse_noise(judge.asker, judge.families(block).asked)
                    raise changed(where)
            parts.clear()


def check_kept(asker: Asker, findings: Findings, chunk: int, where: Path | None) -> int:
    """Ask some findings of a finished run again; raise where the model says something else now. Return the rows."""
    some = _spread(findings.count, AT_MOST)
    held = holds(asker, findings, some, chunk)
    if not held.all():
        raise otherwise(asker, findings, some[~held], where)
    return 2 * len(some) * asker.cost


def otherwise(asker: Asker, findings: Findings, lost: Positions, where: Path | None) -> RunError:
    """Say why stored findings got other answers: the model has changed. Raise ``FlakyModel`` where it still does."""
    for side in ("individual", "counterpart"):
        refuse_noise(asker, findings.rows(side, lost[:OF_BLOCK]))
    return changed(where)


def refuse_noise(asker: Asker, rows: Any) -> None:
    """Ask rows several times in the same batch; raise ``FlakyModel`` where the model gives some of them two answers."""
    first = Said(*_at_once(asker, rows), follows=False)
    unlike = np.zeros(len(rows), dtype=bool)
    for _ in range(OFTEN):
        unlike |= first.differs(Said(*_at_once(asker, rows), follows=False), asker.criterion.needs_scores)
    if unlike.any():
        raise noisy(int(unlike.sum()), len(rows))


def changed(where: Path | None) -> RunError:
    """Say that a model is not the one whose answers a directory holds."""
    return RunError(
        f"the model has changed since the run in {where} was made: it gives other answers to tests that are stored "
        "there; use a new directory, or the model as it was"
    )


def _spread(n: int, most: int) -> npt.NDArray[np.int64]:
    """Choose up to so many of ``n`` places, evenly.

    >>> _spread(10, 4).tolist(), _spread(3, 4).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _at_the_edge(criterion: Criterion, judgement: Judgement) -> Mask:
    """Tell which gaps are so near to the criterion's own that rounding decides."""
    gammas = [clause.gamma for clause in getattr(criterion, "clauses", ()) if clause.gamma is not None]
    edge = np.zeros(len(judgement.gap), dtype=bool)
    for gamma in gammas:
        edge |= np.isclose(judgement.gap, gamma, rtol=TOLERANCE, atol=TOLERANCE)
    return edge
