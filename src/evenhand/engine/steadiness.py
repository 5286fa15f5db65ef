"""Checks that a model answers each row by itself: its answers must not depend on the batch, nor on chance.

Some rows are asked again in other batches: another order, other sizes, other rows beside them. Only where an answer
differs are the same batches asked once more, which tells noise from an answer that depends on its batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.criteria import Outputs
from evenhand.engine.probe import ModelProbe
from evenhand.errors import FlakyModel, ModelError, ModelTimeout
from evenhand.spaces.base import Families

PROBES, LATER = 256, 48
"""Rows of a full check, and those of each block in a brief one."""
ENOUGH = 192
"""Rows of a block that are enough for a full check."""
FEWEST = 16
"""Rows of a first block that are too few for one."""
GROWN = 2
"""A block with so many times the rows of the last one that was checked is checked as well: calls may start small."""
SMALL = (1, 1, 17, 19, 99)
"""Sizes of the small batches of a full check, behind which the other rows come together: all of them odd."""
SMALL_OF_FEW = (1,) * 8
"""The same where a slow model is asked few rows: calls cost little beside those."""
BUILT = 2**14
"""Rows of families that are built to choose those from, at most, unless one family has more."""
TRIED = 64
"""Rows on which scores and decisions are compared."""
PATIENCE, BRIEF = 2.0, 0.5
"""Seconds that the rows of a full check should take at most, of a model that is slow, and those of a brief one."""
LEAST = 4
"""Rows that are asked however slow a model is: fewer would show nothing."""
WAYS = 6
"""How often a full check asks about each row, roughly."""
STEADY = 3
"""How often answers must come again before they are said to depend on the batch, and not on chance."""
TOLERANCE = 1e-6
ROUNDING = 1e-4
"""What the size of a batch may change of a score by the order of its sums, in single precision, relative to it."""
FEW = 0.05
"""The largest share of findings that may fall to rounding alone."""

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ALONE = (
    "make its answer to a row depend on that row alone (a network in evaluation mode, no statistics of the batch, one "
    "and the same replica for all rows)"
)
RANDOM = "switch off what is random in it (dropout, sampling, temperature), or average its answers"


@dataclass(frozen=True)
class Said:
    """What a model answered to some rows."""

    labels: Labels
    scores: Floats | None
    follows: bool
    """Whether the decisions follow from the scores."""

    def __getitem__(self, at: Any) -> Said:
        return Said(self.labels[at], None if self.scores is None else self.scores[at], self.follows)

    def differs(self, other: Said, scores: bool = True) -> Mask:
        """Tell which rows got two answers, beyond what rounding changes."""
        unlike = ~same(other.labels, self.labels, ROUNDING)
        if not scores or self.scores is None or other.scores is None:
            return unlike
        far = ~close(other.scores, self.scores).all(axis=1)
        # Where scores agree and the decisions that follow from them do not, the row is on the edge of both.
        return np.asarray(far if self.follows else far | unlike)


def affordable(probe: ModelProbe, most: int, ways: int, seconds: float) -> int:
    """How many rows, of at most so many, may be asked in so many ways: fewer where a row takes long.

    The time that the calls so far have taken tells how long that is.
    """
    pace = probe.client.calls.pace
    if not pace:
        return most
    return min(most, max(LEAST, int(seconds / (ways * probe.cost * pace))))


class Steadiness:
    """Checks rows of a run: of its first block, of the first with enough rows for a full check, and of larger ones.

    A full check asks about the rows together, beside many copies of an extreme row, and in small batches. A brief one
    asks once more, in another order, and is followed by a full one where an answer differs. ``finish`` makes a brief
    check of the larger blocks; and the full check, with the rows of all blocks, where none of them had enough.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 99), Boolean("member")], protected="member")
    >>> model = wrap(lambda frame: frame["age"] > frame["age"].mean())
    >>> rows = space.individuals([[age, 0] for age in range(100)]).rows
    >>> try:
    ...     Steadiness(ModelProbe(model, space, Flip()), seed=0, chunk=1000).check_rows(rows)
    ... except FlakyModel as error:
    ...     print(str(error).partition(":")[0])
    the prediction depends on the other rows in the batch
    """

    def __init__(self, probe: ModelProbe, seed: int, chunk: int) -> None:
        self.probe, self.seed, self.chunk = probe, seed, chunk
        self.rows = 0
        """Rows asked to check."""
        self._largest = self._full = 0
        """Rows of the largest block that was checked, and of the largest that was checked in full."""
        self._kept: list[Any] = []
        """Rows of the first blocks, for a full check in the end."""
        self._later: list[tuple[Any, Said]] = []
        """Rows of the first block and of larger ones, and their answers, for a brief check in the end."""
        self._probing: ModelProbe | None = None
        """Asks for scores too, where they cost nothing."""
        self._scored = True
        """Whether scores come again, so that they can be compared."""

    def check(self, families: Families, outputs: Outputs) -> tuple[int, int]:
        """Check a block that the model has answered; return how many rows got two answers by chance, of how many.

        Raises ``FlakyModel`` where answers depend on the batch.
        """
        size = int(families.places.sum())
        self.keep(families)
        if not size or size < GROWN * self._largest:
            return 0, 0
        first, self._largest = not self._largest, size
        # The first blocks of a run are small: the first that has rows enough is checked in full again.
        if (first and size > FEWEST) or self._full < ENOUGH <= size:
            self._full = size
            return self._check(self._full_check, *self._some(families, outputs, self._most(True), repeated=True))
        self._later.append(self._some(families, outputs, self._most(False)))
        return self._check(self._brief_check, self._later) if first else (0, 0)

    def check_rows(self, rows: Any) -> tuple[int, int]:
        """Check rows that have not been asked yet; otherwise as ``check``."""
        most = self._most(True)
        return self._check(self._full_check, take(rows, _repeated(np.arange(min(len(rows), most)), most)), None)

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
        """Check what the blocks left to check; otherwise as ``check``."""
        kept, differing, asked = sum(map(len, self._kept)), 0, 0
        if self._full < min(kept, ENOUGH):
            self._full = kept
            differing, asked = self.check_rows(_joined(self._kept))
        if self._later and not differing:
            differing, asked = self._check(self._brief_check, self._later)
            self._later = []
        return differing, asked

    def _most(self, full: bool) -> int:
        """How many rows to ask again: fewer of a slow model, which must not be asked for hours to be checked."""
        # A full check asks them beside as many copies, and no batch is larger than a block.
        most = min(PROBES, max(1, (self.chunk - 1) // 2)) if full else min(LATER, self.chunk)
        return affordable(self.probe, most, WAYS if full else 1, PATIENCE if full else BRIEF)

    @property
    def _follows(self) -> bool:
        return self.probe.model.decides or self.probe.model.regression

    def _some(self, families: Families, outputs: Outputs, most: int, repeated: bool = False) -> tuple[Any, Said]:
        """Choose rows of a block, and return what the model answered to them there."""

        def flat(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            here = values[at]
            return (here.reshape(-1, *here.shape[2:]) if families.valid is None else here[families.valid[at]])[members]

        rng = np.random.default_rng([self.seed, self._largest])
        at = _chosen(families, outputs, rng, most)
        some = families[at]
        members = _members(some.places, rng, most)
        members = _repeated(members, most) if repeated else members
        assert outputs.labels is not None
        scores = None if outputs.scores is None else flat(outputs.scores)
        return take(some.asked, members), Said(flat(outputs.labels), scores, self._follows)

    def _check(self, check: Callable[..., tuple[int, int]], *about: Any) -> tuple[int, int]:
        """Count the rows that a check asks."""
        before = self.probe.client.calls.rows
        try:
            return check(*about)
        finally:
            self.rows += self.probe.client.calls.rows - before

    def _brief_check(self, parts: list[tuple[Any, Said]]) -> tuple[int, int]:
        """Ask rows of several blocks once more, all together and in another order."""
        rows = _joined([rows for rows, _ in parts])
        order = np.random.default_rng([self.seed, len(rows)]).permutation(len(rows))
        answer, at = Said(*scattered(self.probe, rows, order, self.chunk, ()), self._follows), 0
        for some, said in parts:
            if self._lost(said, answer[at : at + len(some)]).any():
                return self._full_check(some, said)
            at += len(some)
        return 0, len(rows)

    def _full_check(self, rows: Any, said: Said | None) -> tuple[int, int]:
        """Ask rows in several ways; ``said`` is what the model answered in their block, if they were asked."""
        first = self._first(rows, said)
        others: list[Callable[[], Said]] = [*self._beside(rows), partial(self._scattered, rows, first.labels)]
        ways: list[Callable[[], Said]] = [partial(self._ask, rows), *others]
        answers = [first, *(ask() for ask in others)]
        if not self._unlike(answers, said).any():
            return 0, len(rows)
        # A noisy answer does not come again; one that depends on its batch does, whenever that is the same.
        for ask, before in zip(ways, answers, strict=True):
            for _ in range(STEADY):
                again = ask()
                differing = int(before.differs(again, self.probe.criterion.needs_scores or self.probe.contrasts).sum())
                if differing:
                    return differing, len(rows)
                self._scored &= not before.differs(again).any()
        lost = self._unlike(answers, said)
        if not lost.any():
            return 0, len(rows)
        raise FlakyModel(self._why(rows, int(lost.sum())), float(lost.mean()))

    def _first(self, rows: Any, said: Said | None) -> Said:
        """Ask rows as they stand; for scores too where they cost nothing, which show far more than decisions."""
        if self._probing is None:
            self._probing = self.probe
            if not self.probe.scored and may_score(self.probe):
                labels = at_once(self.probe, rows)[0] if said is None else said.labels
                probing = copy.copy(self.probe)
                probing.scored = True
                scores = _scores_for(probing, rows, labels)
                if scores is not None:
                    self._probing = probing
                    return Said(labels, scores, self._follows)
        return self._ask(rows)

    def _ask(self, rows: Any) -> Said:
        assert self._probing is not None
        return Said(*at_once(self._probing, rows), self._follows)

    def _beside(self, rows: Any) -> Iterator[Callable[[], Said]]:
        """Ask rows between copies of an extreme one, so that all that a batch has in common changes.

        Every other time in reverse. These batches are also larger than any that the run may have asked yet.
        """
        order = np.arange(len(rows))
        # An odd number in front: rows in turn change places too.
        front, back = len(rows) // 4 * 2 + 1, len(rows) // 4 * 2
        for extreme in _extremes(rows):
            batch = take(rows, np.concatenate([np.full(front, extreme), order, np.full(back, extreme)]))
            yield partial(self._between, batch, front + np.argsort(order))
            order = order[::-1]

    def _between(self, batch: Any, at: Positions) -> Said:
        return self._ask(batch)[at]

    def _scattered(self, rows: Any, labels: Labels) -> Said:
        """Ask rows in small batches; first, alone, some of each decision, because the rarest is the easiest lost."""
        assert self._probing is not None
        order = np.random.default_rng([self.seed, len(rows)]).permutation(len(rows))
        order = order[_in_turn(labels[order])]
        small = SMALL if len(rows) >= ENOUGH else SMALL_OF_FEW
        return Said(*scattered(self._probing, rows, order, self.chunk, small), self._follows)

    def _unlike(self, answers: Sequence[Said], said: Said | None) -> Mask:
        """Tell which rows got other answers in other batches."""
        others = [*answers[1:], *([] if said is None else [said])]
        return np.asarray(np.any([self._lost(answers[0], other) for other in others], axis=0))

    def _lost(self, known: Said, answer: Said) -> Mask:
        lost = known.differs(answer, self._scored)
        if lost.any() and known.scores is not None and answer.scores is None and known.follows:
            lost &= ~reachable(self.probe, known.scores, answer.labels)
        return lost

    def _why(self, rows: Any, lost: int) -> str:
        # The same rows beside the same first one: only places change.
        order = np.append(0, 1 + np.random.default_rng(self.seed).permutation(len(rows) - 1))
        moved = self._ask(rows)[order].differs(self._ask(take(rows, order)), self._scored).any()
        how = "the position of a row in the batch" if moved else "the other rows in the batch"
        return (
            f"the prediction depends on {how}: {lost:,} of {len(rows):,} rows got another answer when they were asked "
            f"again in another order and in batches of other sizes, which is the same each time; {ALONE}"
        )


def noisy(differing: int, rows: int, name: str = "the model") -> FlakyModel:
    """Say that a model answers the same rows in the same batch differently."""
    noise = differing / rows
    return FlakyModel(f"{name} gave two answers to {noise:.1%} of {rows:,} rows that were asked twice; {RANDOM}", noise)


# Asking rows in batches of chosen sizes.


def scattered(
    probe: ModelProbe, rows: Any, order: Positions, most: int, small: Sequence[int] = (1,)
) -> tuple[Labels, Floats | None]:
    """Ask rows in some order, the first ones in small batches; return answers in the rows' own order."""
    said = [_both(probe, rows, part) for part in _cut(order, most, small)]
    back = np.argsort(order)
    scores = [s for _, s in said if s is not None]
    return np.concatenate([labels for labels, _ in said])[back], np.concatenate(scores)[back] if scores else None


def _cut(order: Positions, most: int, small: Sequence[int]) -> Iterator[Positions]:
    # Odd sizes, where those of a run are mostly even.
    most = max(1, most - 1 + most % 2)
    at = 0
    for size in chain(small, repeat(most)):
        if at >= len(order):
            return
        yield order[at : at + min(size, most)]
        at += min(size, most)


def _both(probe: ModelProbe, rows: Any, part: Positions) -> tuple[Labels, Floats | None]:
    try:
        return at_once(probe, take(rows, part))
    except ModelTimeout:
        raise
    except ModelError:
        if len(part) > 1:
            raise
        # Some models take no single row; one that fails otherwise fails again.
        labels, scores = probe.both(take(rows, np.repeat(part, 2)))
        return labels[:1], None if scores is None else scores[:1]


def at_once(probe: ModelProbe, rows: Any) -> tuple[Labels, Floats | None]:
    """Ask rows in one call, unless they are very many."""
    if len(rows) > 3 * PROBES:
        return probe.both(rows)
    with probe.client.calls.at_once():
        return probe.both(rows)


def take(rows: Any, at: Positions) -> Any:
    """Return some rows, of codes or of texts.

    >>> take(["a", "b"], np.array([1, 1]))
    ['b', 'b']
    """
    return [rows[i] for i in at.tolist()] if isinstance(rows, list) else rows[at]


def _joined(parts: list[Any]) -> Any:
    return [text for part in parts for text in part] if isinstance(parts[0], list) else np.concatenate(parts)


# Choosing rows.


def _extremes(rows: Any) -> list[int]:
    """Where rows are that differ much from the rest: lowest and highest in all attributes, or shortest and longest.

    Length says little of a text, so there are two more: the first and the last in the order of the alphabet.
    """
    if isinstance(rows, list):
        at = range(len(rows))
        keys: list[Callable[[int], Any]] = [lambda i: len(rows[i]), lambda i: rows[i]]
        return [best(at, key=key) for key in keys for best in (min, max)]
    spread = rows.std(axis=0)
    size = ((rows - rows.mean(axis=0)) / np.where(spread, spread, 1)).sum(axis=1)
    return [int(size.argmin()), int(size.argmax())]


def _chosen(families: Families, outputs: Outputs, rng: np.random.Generator, rows: int) -> Positions:
    """Choose families to ask again: as many of each decision as there are, because a rare one is the easiest lost."""
    assert outputs.labels is not None
    count, width = len(families), outputs.labels.shape[1]
    order = rng.permutation(count)
    most = max(1, min(rows, BUILT // width))
    return np.sort(order[_in_turn(outputs.labels[order, outputs.own[order]])[:most]])


def _members(places: Positions, rng: np.random.Generator, rows: int) -> Positions:
    """Choose rows of families, as many of each as fit: members of one family mostly get the same answer."""
    order = rng.permutation(int(places.sum()))
    return np.sort(order[_in_turn(np.repeat(np.arange(len(places)), places)[order])[:rows]])


def _in_turn(kinds: npt.NDArray[Any]) -> Positions:
    """Order places so that each kind comes once, then each of those left a second time, and so on.

    >>> _in_turn(np.array(["a", "a", "a", "b", "c", "c"])).tolist()
    [0, 3, 4, 1, 5, 2]
    """
    import pandas as pd

    if kinds.dtype.kind != "i":
        kinds, _ = pd.factorize(kinds)
    by_kind = np.argsort(kinds, kind="stable")
    ordered = kinds[by_kind]
    turn = np.empty(len(kinds), dtype=np.int64)
    turn[by_kind] = np.arange(len(kinds)) - np.searchsorted(ordered, ordered)
    return np.argsort(turn, kind="stable")


def _repeated(places: Positions, count: int) -> Positions:
    """Repeat places until there are so many: where few rows are asked, each must be seen in many batches.

    >>> _repeated(np.array([4, 7]), 5).tolist()
    [4, 7, 4, 7, 4]
    """
    return places if len(places) >= count else np.resize(places, count)


# Scores, and what rounding changes of them.


def scores_come_along(probe: ModelProbe, rows: Any) -> bool:
    """Whether the model's scores cost nothing beside its decisions, and lead to the same ones for some rows."""
    if probe.scored or not may_score(probe):
        return probe.scored
    # Where nothing was asked yet, a few tell how long a row takes.
    first = LEAST if probe.client.calls.pace is None else affordable(probe, TRIED, 2, BRIEF)
    if not len(rows) or not _scored_alike(probe, rows[:first]):
        return False
    rest = rows[first : affordable(probe, TRIED, 2, BRIEF)]
    return not len(rest) or _scored_alike(probe, rest)


def _scored_alike(probe: ModelProbe, rows: Any) -> bool:
    labels = at_once(probe, rows)[0]
    probe.scored = True
    try:
        return _scores_for(probe, rows, labels) is not None
    finally:
        probe.scored = False


def _scores_for(probe: ModelProbe, rows: Any, labels: Labels) -> Floats | None:
    """Ask for the scores of rows; None where they do not lead to these decisions."""
    try:
        decided, scores = at_once(probe, rows)
    except ModelError:
        return None
    # A single number that no threshold cuts may well be a label.
    known = probe.model.threshold is not None or probe.model.classes is not None
    leads = scores is not None and (known or scores.shape[1] > 1) and bool(np.asarray(decided == labels).all())
    return scores if leads else None


def may_score(probe: ModelProbe) -> bool:
    """Whether the model has scores and its decisions follow from them."""
    return probe.model.has_scores and probe.model.decides and not probe.model.regression


def reachable(probe: ModelProbe, scores: Floats, labels: Labels) -> Mask:
    """Tell which rows of scores lead to these decisions, as they are or moved by what rounding changes."""
    near = np.zeros(len(scores), dtype=bool)
    for moved in _moved(scores, float(np.abs(scores).max(initial=0))):
        near |= np.asarray(probe.model.decide(moved) == labels, dtype=bool)
    return near


def _moved(scores: Floats, largest: float) -> Iterator[Floats]:
    """Move scores by what rounding changes, one column at a time and both ways; and not at all."""
    step = ROUNDING * largest
    return (scores + step * sign * one for one in np.eye(scores.shape[1]) for sign in (-1, 0, 1))


def same(labels: Labels, before: Labels, tolerance: float = TOLERANCE) -> Mask:
    """Tell which decisions are the same; numbers may differ by what the order of a sum changes.

    >>> same(np.array([1.0, 2.0]), np.array([1.0 + 1e-12, 2.1])).tolist()
    [True, False]
    """
    if before.dtype.kind == "f" and labels.dtype.kind == "f":
        return close(labels, before, tolerance)
    return np.asarray(labels == before, dtype=bool)


def close(scores: npt.NDArray[Any], before: npt.NDArray[Any], tolerance: float = ROUNDING) -> Mask:
    """Tell which scores are the same but for rounding, which goes with the size of the largest."""
    return np.asarray(np.abs(scores - before) <= tolerance * max(np.abs(before).max(initial=0.0), TOLERANCE))


SHUFFLES = 1_000
"""How many shuffles of noisy answers must repeat less often than these before they are said to come in turn."""


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
        # One noisy row shows nothing: its own noise looks the same.
        return False
    rng = np.random.default_rng(0)
    # If each row were noisy by itself, any order of its answers would be as likely as the one that came.
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
