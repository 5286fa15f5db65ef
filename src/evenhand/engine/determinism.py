"""Repeated queries: whether a model's answers are reproducible, and which findings hold.

During a run, some rows are queried again in other batches: in a different order, with different sizes and different
neighbours. If an answer differs, the same batches are repeated, which distinguishes noise from answers that depend on
the batch. Before a run is returned, its findings are queried again, and only those with the same answers are reported.
When a run is continued or replayed, some stored tests are queried again to detect a model that has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenhand._format import percent
from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.errors import FlakyModel, ModelError, ModelTimeout, RunError
from evenhand.models.client import part_of
from evenhand.spaces.base import Block, Families
from evenhand.spaces.findings import Findings
from evenhand.spaces.frames import pd

if TYPE_CHECKING:
    from evenhand.engine.judge import Judge, ModelProbe

PROBES, LATER = 256, 48
"""Rows of a full check, and rows of each block in a brief check."""
ENOUGH = 192
"""Minimum rows of a block for a full check."""
GROWN = 2
"""A block with this many times the rows of the last checked one is also checked, because calls may start small."""
TINY = (1,) * 32 + (3,) * 4 + (5,) + (1,) * 70
"""Sizes of the first batches of a full check, as long as they take little time; at least two are used."""
SMALL = (17, 19, 99)
"""Sizes of the next batches, all odd; the remaining rows follow in one batch."""
EXTRA, EXTRA_SCORED = 0.1, 0.002
"""Extra seconds that tiny batches may take; fewer if scores are compared, which show more than decisions."""
LONG = 1_200
"""Rows of one batch of a full check that is longer than in a short run, if it takes less than ``EXTRA`` seconds."""
BUILT = 2**14
"""Maximum rows of families that are built to choose from, unless one family has more."""
TRIED = 64
"""Rows on which scores and decisions are compared."""
PATIENCE, BRIEF = 2.0, 0.5
"""Maximum seconds for the rows of a full check, and of a brief check, of a slow model."""
LEAST = 4
"""Minimum rows to check, however slow a model is: fewer would show nothing."""
WAYS = 6
"""Approximate number of times that a full check queries each row."""
STEADY = 3
"""Number of times that answers must repeat to conclude that they depend on the batch and not on chance."""
TOLERANCE = 1e-6
ROUNDING = 1e-4
"""Relative change of a score that the batch size may cause through the order of sums, in single precision."""
FEW = 0.05
"""Maximum share of findings that may be refuted by rounding alone."""
OF_BLOCK, BLOCKS, AT_MOST = 8, 1024, 512
"""Maximum numbers of tests kept per stored block, of blocks, and of tests of each kind that are queried again."""
OFTEN = 8
"""Number of repeats that distinguish a noisy model from one that has changed."""
SLAB = 2**16
"""Findings that are shuffled together when they are queried again."""

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ALONE = (
    "make its answer to a row depend on that row alone (a network in evaluation mode, no statistics of the batch, one "
    "and the same replica for all rows)"
)
RANDOM = "switch off its randomness (dropout, sampling, temperature), or average its answers"


@dataclass(frozen=True)
class RowAnswers:
    """A model's answers to some rows."""

    labels: Labels
    scores: Floats | None
    follows: bool
    """Whether the decisions follow from the scores."""

    def __getitem__(self, at: Any) -> RowAnswers:
        return RowAnswers(self.labels[at], None if self.scores is None else self.scores[at], self.follows)

    def differs(self, other: RowAnswers, scores: bool = True) -> Mask:
        """Return which rows got two answers that differ by more than rounding."""
        unlike = ~same(other.labels, self.labels, ROUNDING)
        if not scores or self.scores is None or other.scores is None:
            return unlike
        far = ~close(other.scores, self.scores).all(axis=1)
        # If scores agree but the decisions that follow from them do not, the row is on the boundary.
        return np.asarray(far if self.follows else far | unlike)


def affordable(probe: ModelProbe, most: int, ways: int, seconds: float) -> int:
    """Return how many rows may be queried in a number of ways, at most ``most``: fewer if a row takes long.

    The time is estimated from previous calls.
    """
    pace = probe.client.calls.pace
    if not pace:
        return most
    return min(most, max(LEAST, int(seconds / (ways * probe.cost * pace))))


class RowChecks:
    """Checks rows of a run: of the first block, of the first with enough rows for a full check, and of larger ones.

    A full check queries the rows together, between many copies of an extreme row, and in small batches. A brief check
    queries them once more in a different order, and is followed by a full check if an answer differs. ``finish`` makes
    a brief check of the larger blocks, and a full check with the rows of all blocks if no block had enough. If these
    are too few, ``spare`` returns more.

    >>> from evenhand.criteria import Flip; from evenhand.engine.judge import ModelProbe
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 99), Boolean("member")], protected="member")
    >>> model = wrap(lambda frame: frame["age"] > frame["age"].mean())
    >>> rows = space.individuals([[age, 0] for age in range(100)]).rows
    >>> try:
    ...     RowChecks(ModelProbe(model, space, Flip()), seed=0, chunk=1000).check_rows(rows)
    ... except FlakyModel as error:
    ...     print(str(error).partition(":")[0])
    the prediction depends on the other rows in the batch
    """

    def __init__(self, probe: ModelProbe, seed: int, chunk: int) -> None:
        self.probe, self.seed, self.chunk = probe, seed, chunk
        self.spare: Callable[[], Any] | None = None
        """Returns rows that the run did not query, to check together with those of a small run."""
        self.rows = 0
        """Number of rows used for checks."""
        self._largest = self._full = 0
        """Rows of the largest block that was checked, and of the largest that was fully checked."""
        self._kept: list[Any] = []
        """Rows of the first blocks, for a full check at the end."""
        self._later: list[tuple[Any, RowAnswers]] = []
        """Rows of the first block and of larger ones, with their answers, for a brief check at the end."""
        self._probing: ModelProbe | None = None
        """Also queries scores, if they cost nothing."""
        self._tinies = len(TINY)
        """Number of tiny batches that the time allows."""
        self._scored = True
        """Whether scores are reproducible, so that they can be compared."""

    def check(self, families: Families, outputs: Outputs) -> tuple[int, int]:
        """Check a block that the model has answered; return the numbers of noisy rows and of all rows.

        Raises ``FlakyModel`` if answers depend on the batch.
        """
        size = int(families.places.sum())
        self.keep(families)
        if not size or size < GROWN * self._largest:
            return 0, 0
        first, self._largest = not self._largest, size
        # The first blocks of a run are small: ``finish`` checks those in full.
        if self._full < min(ENOUGH, self.chunk // 2) <= size:
            self._full = size
            return self._check(self._full_check, *self._some(families, outputs, self._most(True), repeated=True))
        self._later.append(self._some(families, outputs, self._most(False)))
        return self._check(self._brief_check, self._later) if first else (0, 0)

    def check_rows(self, rows: Any) -> tuple[int, int]:
        """Check rows that have not been queried yet; otherwise like ``check``."""
        most = self._most(True)
        if self.spare is not None and len(rows) < most:
            # Few rows show little of a model; but each of them counts, so each is seen in many batches.
            some = take(rows, _repeated(np.arange(len(rows)), most // 4))
            rows = _joined([some, self.spare()])
        return self._check(self._full_check, take(rows, _repeated(np.arange(min(len(rows), most)), most)), None)

    @property
    def lacks_rows(self) -> bool:
        """Whether ``finish`` may need more rows."""
        return self._full < ENOUGH and sum(map(len, self._kept)) < PROBES

    def keep(self, families: Families) -> None:
        """Record some judged rows for ``finish``."""
        if self.lacks_rows and len(families):
            room = PROBES - sum(map(len, self._kept))
            enough = int(np.searchsorted(np.cumsum(families.places[:room]), room)) + 1
            self._kept.append(families[np.arange(min(len(families), enough))].asked[:room])

    def finish(self) -> tuple[int, int]:
        """Make the remaining checks; otherwise like ``check``."""
        kept, differing, asked = sum(map(len, self._kept)), 0, 0
        if self._full < min(kept, ENOUGH):
            self._full = kept
            differing, asked = self.check_rows(_joined(self._kept))
        if self._later and not differing:
            differing, asked = self._check(self._brief_check, self._later)
            self._later = []
        return differing, asked

    def _most(self, full: bool) -> int:
        """Return how many rows to check: fewer for a slow model, so that checks do not take hours."""
        # A full check queries them with as many copies, and no batch is larger than a block.
        most = min(PROBES, max(1, (self.chunk - 1) // 2)) if full else min(LATER, self.chunk)
        return affordable(self.probe, most, WAYS if full else 1, PATIENCE if full else BRIEF)

    @property
    def _follows(self) -> bool:
        return self.probe.model.decides or self.probe.model.regression

    def _some(self, families: Families, outputs: Outputs, most: int, repeated: bool = False) -> tuple[Any, RowAnswers]:
        """Choose rows of a block, and return the model's answers to them in that block."""

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
        return take(some.asked, members), RowAnswers(flat(outputs.labels), scores, self._follows)

    def _check(self, check: Callable[..., tuple[int, int]], *about: Any) -> tuple[int, int]:
        """Count the rows that a check uses."""
        before = self.probe.client.calls.rows
        try:
            return check(*about)
        finally:
            self.rows += self.probe.client.calls.rows - before

    def _brief_check(self, parts: list[tuple[Any, RowAnswers]]) -> tuple[int, int]:
        """Query rows of several blocks once more, all together and in a different order."""
        rows = _joined([rows for rows, _ in parts])
        order = np.random.default_rng([self.seed, len(rows)]).permutation(len(rows))
        answer, at = RowAnswers(*scattered(self.probe, rows, order, self.chunk, ()), self._follows), 0
        for some, said in parts:
            if self._lost(said, answer[at : at + len(some)]).any():
                return self._full_check(some, said)
            at += len(some)
        return 0, len(rows)

    def _full_check(self, rows: Any, said: RowAnswers | None) -> tuple[int, int]:
        """Query rows in several ways; ``said`` are the model's answers in their block, if they were queried."""
        first = self._first(rows, said)
        others: list[Callable[[], RowAnswers]] = [*self._beside(rows), partial(self._scattered, rows, first.labels)]
        ways: list[Callable[[], RowAnswers]] = [partial(self._ask, rows), *others]
        answers = [first, *(ask() for ask in others)]
        if not self._unlike(answers, said).any():
            return 0, len(rows)
        # A noisy answer does not repeat; an answer that depends on its batch repeats with the same batch.
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

    def _first(self, rows: Any, said: RowAnswers | None) -> RowAnswers:
        """Query rows in the given order; also scores if they cost nothing, as they show far more than decisions."""
        if self._probing is None:
            self._probing = self.probe
            if not self.probe.scored and may_score(self.probe):
                labels = at_once(self.probe, rows)[0] if said is None else said.labels
                probing = copy.copy(self.probe)
                probing.scored = True
                scores = _scores_for(probing, rows, labels)
                if scores is not None:
                    self._probing = probing
                    return RowAnswers(labels, scores, self._follows)
        return self._ask(rows)

    def _ask(self, rows: Any) -> RowAnswers:
        assert self._probing is not None
        return RowAnswers(*at_once(self._probing, rows), self._follows)

    def _beside(self, rows: Any) -> Iterator[Callable[[], RowAnswers]]:
        """Query rows between copies of an extreme one, which changes all properties of the batch.

        Every other time in reverse. These batches may also be larger than all earlier ones of the run.
        """
        order, back = np.arange(len(rows)), len(rows) // 4 * 2
        long = min(LONG, self.chunk)
        more = len(rows) >= ENOUGH and affordable(self.probe, long, 1, EXTRA) == long
        # An odd number first, so that rows also change between even and odd positions.
        fronts = chain([max(back, (long - len(rows) - back) // 2 * 2 - 2) + 1] if more else [], repeat(back + 1))
        for extreme, front in zip(_extremes(rows), fronts, strict=False):
            batch = take(rows, np.concatenate([np.full(front, extreme), order, np.full(back, extreme)]))
            yield partial(self._between, batch, front + np.argsort(order))
            order = order[::-1]

    def _between(self, batch: Any, at: Positions) -> RowAnswers:
        assert self._probing is not None
        return RowAnswers(*at_once(self._probing, batch, max(LONG, len(at) * 3)), self._follows)[at]

    def _scattered(self, rows: Any, labels: Labels) -> RowAnswers:
        """Query rows in small batches; first, alone, some of each decision, so that rare decisions are included."""
        assert self._probing is not None
        order = np.random.default_rng([self.seed, len(rows)]).permutation(len(rows))
        order = order[_in_turn(_kinds(labels)[0][order], len(order))]
        # If there are few rows, each in its own batch.
        small = chain(self._tiny(), SMALL) if len(rows) >= ENOUGH else TINY[:8]
        return RowAnswers(*scattered(self._probing, rows, order, self.chunk, small), self._follows)

    def _tiny(self) -> Iterator[int]:
        """Yield tiny sizes; once these calls have taken long, always the same number, so that batches repeat."""
        assert self._probing is not None
        calls, extra = self.probe.client.calls, EXTRA_SCORED if self._probing.scored else EXTRA
        seconds, rows = calls.seconds, calls.rows
        for i, size in enumerate(TINY[: self._tinies]):
            yield size
            # In addition to the time that the rows would take in a large call.
            if i and calls.seconds - seconds - (calls.rows - rows) * (calls.pace or 0) > extra:
                self._tinies = i + 1
                return

    def _unlike(self, answers: Sequence[RowAnswers], said: RowAnswers | None) -> Mask:
        """Return which rows got different answers in different batches."""
        others = [*answers[1:], *([] if said is None else [said])]
        return np.asarray(np.any([self._lost(answers[0], other) for other in others], axis=0))

    def _lost(self, known: RowAnswers, answer: RowAnswers) -> Mask:
        lost = known.differs(answer, self._scored)
        if lost.any() and known.scores is not None and answer.scores is None and known.follows:
            lost &= ~reachable(self.probe, known.scores, answer.labels)
        return lost

    def _why(self, rows: Any, lost: int) -> str:
        # The same rows after the same first row: only positions change.
        order = np.append(0, 1 + np.random.default_rng(self.seed).permutation(len(rows) - 1))
        moved = self._ask(rows)[order].differs(self._ask(take(rows, order)), self._scored).any()
        how = "the position of a row in the batch" if moved else "the other rows in the batch"
        return (
            f"the prediction depends on {how}: {lost:,} of {len(rows):,} rows got a different answer, the same one "
            f"each time, when they were queried in another order and in batches of other sizes; {ALONE}"
        )


def noisy(differing: int, rows: int) -> FlakyModel:
    """Return the error for a model that answers the same rows in the same batch differently."""
    noise = differing / rows
    return FlakyModel(
        f"the model gave two answers to {percent(noise)} of {rows:,} rows that were queried twice; {RANDOM}", noise
    )


# Querying rows in batches of chosen sizes.


def scattered(
    probe: ModelProbe, rows: Any, order: Positions, most: int, small: Iterable[int] = (1,)
) -> tuple[Labels, Floats | None]:
    """Query rows in some order, the first ones in small batches; return answers in the original order."""
    said = [_both(probe, rows, part, inputs) for part, inputs in _batches(probe, rows, order, most, small)]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    scores = [s for _, s in said if s is not None]
    return np.concatenate([labels for labels, _ in said])[back], np.concatenate(scores)[back] if scores else None


def _batches(
    probe: ModelProbe, rows: Any, order: Positions, most: int, small: Iterable[int]
) -> Iterator[tuple[Positions, Any]]:
    """Yield the positions of each batch, and the model's inputs; those of small ones are built together, as parts."""
    first, built, at = order[:PROBES], None, 0
    for part in _cut(order, most, small):
        if at + len(part) <= len(first) > len(part):
            # Building a frame takes as long for one row as for hundreds.
            built = probe.inputs(take(rows, first)) if built is None else built
            yield part, part_of(built, slice(at, at + len(part)))
        else:
            yield part, probe.inputs(take(rows, part))
        at += len(part)


def _cut(order: Positions, most: int, small: Iterable[int]) -> Iterator[Positions]:
    # Odd sizes, because those of a run are mostly even.
    most = max(1, most - 1 + most % 2)
    at = 0
    for size in chain(small, repeat(most)):
        if at >= len(order):
            return
        yield order[at : at + min(size, most)]
        at += min(size, most)


def _both(probe: ModelProbe, rows: Any, part: Positions, inputs: Any) -> tuple[Labels, Floats | None]:
    try:
        return _in_one_call(probe, inputs)
    except ModelTimeout:
        raise
    except ModelError:
        if len(part) > 1:
            raise
        # Some models do not accept single rows; a model that fails for another reason fails again.
        labels, scores = probe.both(take(rows, np.repeat(part, 2)))
        return labels[:1], None if scores is None else scores[:1]


def at_once(probe: ModelProbe, rows: Any, most: int = 3 * PROBES) -> tuple[Labels, Floats | None]:
    """Query rows in one call, unless there are very many."""
    return _in_one_call(probe, probe.inputs(rows), most)


def _in_one_call(probe: ModelProbe, inputs: Any, most: int = 3 * PROBES) -> tuple[Labels, Floats | None]:
    if len(inputs) > most:
        return probe.answers(inputs)
    with probe.client.calls.at_once():
        return probe.answers(inputs)


def take(rows: Any, at: Positions) -> Any:
    """Return some rows of codes or texts.

    >>> take(["a", "b"], np.array([1, 1]))
    ['b', 'b']
    """
    return [rows[i] for i in at.tolist()] if isinstance(rows, list) else rows.take(at, axis=0)


def _joined(parts: list[Any]) -> Any:
    return [text for part in parts for text in part] if isinstance(parts[0], list) else np.concatenate(parts)


# Choosing rows.


def _extremes(rows: Any) -> list[int]:
    """Return the positions of extreme rows: lowest and highest in all attributes, or shortest and longest.

    Length says little about a text, so there are two more: the first and the last in alphabetical order.
    """
    if isinstance(rows, list):
        at = range(len(rows))
        keys: list[Callable[[int], Any]] = [lambda i: len(rows[i]), lambda i: rows[i]]
        return [best(at, key=key) for key in keys for best in (min, max)]
    spread = rows.std(axis=0)
    size = ((rows - rows.mean(axis=0)) / np.where(spread, spread, 1)).sum(axis=1)
    return [int(size.argmin()), int(size.argmax())]


def _chosen(families: Families, outputs: Outputs, rng: np.random.Generator, rows: int) -> Positions:
    """Choose families to query again, equally many of each decision, so that rare decisions are included."""
    assert outputs.labels is not None
    count, width = len(families), outputs.labels.shape[1]
    most = max(1, min(rows, BUILT // width))
    kinds, different = _kinds(outputs.labels[np.arange(count), outputs.own])
    if different * most < count:
        # Not all of them are put in order, which takes long in a large block.
        each = (np.flatnonzero(kinds == kind) for kind in range(different))
        order = np.concatenate([rng.choice(at, min(len(at), most), replace=False) for at in each])
    else:
        order = rng.permutation(count)
    return np.sort(order[_in_turn(kinds[order], most)])


def _kinds(labels: Labels) -> tuple[Positions, int]:
    """Return the number of each decision among the different ones, and how many these are."""
    kinds, different = pd.factorize(labels)
    return kinds, len(different)


def _members(places: Positions, rng: np.random.Generator, rows: int) -> Positions:
    """Choose rows of families, equally many of each, because members of one family mostly get the same answer."""
    order = rng.permutation(int(places.sum()))
    return np.sort(order[_in_turn(np.repeat(np.arange(len(places)), places)[order], rows)])


def _in_turn(kinds: Positions, most: int) -> Positions:
    """Order places so that each kind comes once, then each of those left a second time, and so on; the first ones.

    >>> _in_turn(np.array([0, 0, 0, 1, 2, 2]), 5).tolist()
    [0, 3, 4, 1, 5]
    """
    by_kind = np.argsort(kinds, kind="stable")
    ordered = kinds[by_kind]
    turn = np.empty(len(kinds), dtype=np.int64)
    turn[by_kind] = np.arange(len(kinds)) - np.searchsorted(ordered, ordered)
    return np.argsort(turn, kind="stable")[:most]


def _repeated(places: Positions, count: int) -> Positions:
    """Repeat positions up to a number, because each of a few rows must be tested in many batches.

    >>> _repeated(np.array([4, 7]), 5).tolist()
    [4, 7, 4, 7, 4]
    """
    return places if len(places) >= count else np.resize(places, count)


# Scores, and the effect of rounding on them.


def scores_come_along(probe: ModelProbe, rows: Any) -> bool:
    """Whether the model's scores cost nothing extra, and lead to the same decisions for some rows."""
    if probe.scored or not may_score(probe):
        return probe.scored
    # If nothing was queried yet, a few rows show how long a row takes.
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
    """Query the scores of rows; None if they do not lead to these decisions."""
    try:
        decided, scores = at_once(probe, rows)
    except ModelError:
        return None
    # A single number without a threshold may be a label.
    known = probe.model.threshold is not None or probe.model.classes is not None
    leads = scores is not None and (known or scores.shape[1] > 1) and bool(np.asarray(decided == labels).all())
    return scores if leads else None


def may_score(probe: ModelProbe) -> bool:
    """Whether the model has scores and its decisions follow from them."""
    return probe.model.has_scores and probe.model.decides and not probe.model.regression


def reachable(probe: ModelProbe, scores: Floats, labels: Labels) -> Mask:
    """Return which rows of scores lead to these decisions, unchanged or after changes within rounding."""
    near = np.zeros(len(scores), dtype=bool)
    for moved in _moved(scores, float(np.abs(scores).max(initial=0))):
        near |= np.asarray(probe.model.decide(moved) == labels, dtype=bool)
    return near


def _moved(scores: Floats, largest: float) -> Iterator[Floats]:
    """Yield scores: unchanged, and changed within rounding, one column at a time and in both directions."""
    step = ROUNDING * largest
    return (scores + step * sign * one for one in np.eye(scores.shape[1]) for sign in (-1, 0, 1))


def same(labels: Labels, before: Labels, tolerance: float = TOLERANCE) -> Mask:
    """Return which decisions are the same; numbers may differ by the effect of the order of sums.

    >>> same(np.array([1.0, 2.0]), np.array([1.0 + 1e-12, 2.1])).tolist()
    [True, False]
    """
    if before.dtype.kind == "f" and labels.dtype.kind == "f":
        return close(labels, before, tolerance)
    return np.asarray(labels == before, dtype=bool)


def close(scores: npt.NDArray[Any], before: npt.NDArray[Any], tolerance: float = ROUNDING) -> Mask:
    """Return which scores differ by rounding only, relative to the largest."""
    return np.asarray(np.abs(scores - before) <= tolerance * max(np.abs(before).max(initial=0.0), TOLERANCE))


SHUFFLES = 1_000
"""Number of shuffles of the answers that must all repeat less often to conclude that replicas answer in turn."""


def in_turn(codes: npt.NDArray[Any]) -> bool:
    """Return whether whole batches repeat more often than by chance, as with replicas that answer in turn.

    ``codes`` are the answers to the same rows in the same order, one row per repetition.

    >>> in_turn(np.tile([[0] * 20, [1] * 20], (4, 1)))
    True
    >>> in_turn(np.random.default_rng(0).integers(0, 2, (8, 20)))
    False
    """
    again = repeated_pairs(codes)
    codes = codes[:, (codes != codes[0]).any(axis=0)]
    if not again or codes.shape[1] < 2:
        # One noisy row shows nothing, because its own noise looks the same.
        return False
    rng = np.random.default_rng(0)
    # If each row were noisy independently, any order of its answers would be equally likely.
    return all(repeated_pairs(rng.permuted(codes, axis=0)) < again for _ in range(SHUFFLES))


def repeated_pairs(codes: npt.NDArray[Any]) -> int:
    """Count the pairs of batches with the same answers for all rows.

    >>> repeated_pairs(np.array([[0, 1], [1, 1], [0, 1], [0, 1]]))
    3
    """
    # A number for each batch, which differs if the answers differ.
    names = codes.astype(np.int64) @ np.random.default_rng(0).integers(1, 2**62, codes.shape[1])
    _, times = np.unique(names, return_counts=True)
    return int((times * (times - 1)).sum()) // 2


# Repeated queries of findings and stored tests.


@dataclass(frozen=True)
class Checked:
    """The result of querying the findings of a run again."""

    confirm: int | None = None
    """Maximum number to query again; None for all."""
    asked: int = 0
    """Number of findings that were queried again, chosen by the seed."""
    refuted: list[int] = field(default_factory=list)
    """Positions of the refuted findings among those of the search."""
    unsteady: str | None = None
    """Why the model's answers are not reproducible; None if they are."""
    noise: float = 0.0
    """The share of rows, or of findings, with two answers."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "confirm": self.confirm,
            "asked_again": self.asked,
            "refuted": self.refuted,
            "unsteady": self.unsteady,
            **({} if self.unsteady is None else {"noise": self.noise}),
        }

    def marked_unsteady(self, error: FlakyModel) -> Checked:
        """Record why the model's answers are not reproducible."""
        return replace(self, unsteady=str(error), noise=error.noise)

    @classmethod
    def of(cls, result: dict[str, Any]) -> Checked:
        """Read it from the result of a run."""
        stored = result.get("checked")
        if stored is None:
            # Earlier versions did not store which findings were queried again.
            return cls(0)
        noise = stored.get("noise", 0.0)
        return cls(stored["confirm"], stored["asked_again"], stored["refuted"], stored["unsteady"], noise)

    def fits(self, found: int) -> bool:
        """Whether this is possible for a search with this many findings."""
        refuted = self.refuted
        within = not refuted or (refuted[0] >= 0 and refuted[-1] < found)
        return 0 <= self.asked <= found and within and all(np.diff(refuted) > 0)

    def apply(self, findings: Findings, seed: int) -> None:
        """Remove the refuted findings, and mark those that were queried again as confirmed.

        If the answers are not reproducible, no finding is confirmed: the same answer may be chance.
        """
        asked = np.zeros(findings.count, dtype=bool)
        if self.unsteady is None:
            asked[to_confirm(findings.count, self.asked, seed)] = True
        findings.mark(asked)
        if self.refuted:
            findings.drop(np.array(self.refuted))

    def counted(self, points: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Remove the refuted findings from a discovery curve."""
        gone = np.searchsorted(self.refuted, [found for *_, found in points]).tolist()
        return [(tests, rows, found - n) for (tests, rows, found), n in zip(points, gone, strict=True)]


def to_confirm(found: int, most: int | None, seed: int) -> Positions:
    """Choose the findings to query again: all, or ``most`` by the seed.

    >>> to_confirm(3, None, 0), len(to_confirm(100, 5, 0))
    (array([0, 1, 2]), 5)
    """
    if most is None or most >= found:
        return np.arange(found)
    return np.sort(np.random.default_rng(seed).choice(found, most, replace=False))


def confirm(
    probe: ModelProbe, findings: Findings, seed: int, chunk: int, most: int | None = None
) -> tuple[Checked, int, FlakyModel | None]:
    """Query findings again, all or at most ``most``; return the result, the rows used, and an error to raise.

    There is no error if few are refuted, and all of these are so close to the boundary that rounding explains it.
    ``Checked.apply`` changes the findings.
    """
    chosen = to_confirm(findings.count, most, seed)
    held = holds(probe, findings, chosen, chunk, seed)
    lost, rows = chosen[~held], 2 * len(chosen) * probe.cost
    if not len(lost):
        return Checked(most, len(chosen)), rows, None
    if len(lost) <= max(1, FEW * len(chosen)):
        rows += 2 * len(lost) * probe.cost
        if _on_edge(probe, findings, lost).all():
            return Checked(most, len(chosen), lost.tolist()), rows, None
    why = (
        f"{len(lost):,} of {len(chosen):,} findings got a different answer when they were queried again, in "
        f"another order and in batches of other sizes, and are not reported; {RANDOM}; or make its answer to a row "
        "independent of the other rows in the batch"
    )
    return Checked(most, len(chosen), lost.tolist(), why), rows, FlakyModel(why, len(lost) / len(chosen))


def _on_edge(probe: ModelProbe, findings: Findings, at: Positions) -> Mask:
    """Return a mask of findings whose decisions could be restored by rounding of scores."""
    edge = np.full(len(at), may_score(probe))
    if not edge.any():
        return edge
    for side, name in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        try:
            scores = probe.scores(findings.rows(side, at))
        except ModelError:
            return np.zeros(len(at), dtype=bool)
        edge &= reachable(probe, scores, findings.decisions(name, at))
    return edge


def holds(probe: ModelProbe, findings: Findings, chosen: Positions, chunk: int, seed: int = 0) -> Mask:
    """Return a mask of chosen findings with the recorded answers and still a different treatment.

    They are queried in random order and in batches of other sizes, the two sides of a pair separately.
    """
    parts = [_holds(probe, findings, chosen[i : i + SLAB], chunk, seed) for i in range(0, len(chosen), SLAB)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _holds(probe: ModelProbe, findings: Findings, at: Positions, chunk: int, seed: int) -> Mask:
    one, other = (findings.rows(side, at) for side in ("individual", "counterpart"))
    rows = one + other if isinstance(one, list) else np.concatenate([one, other])
    order = np.random.default_rng([seed, len(at)]).permutation(len(rows))
    # With few rows, a single row alone changes the batch of the others; with many, it would only be one more call.
    labels, scores = scattered(probe, rows, order, chunk, (1,) if len(rows) < PROBES else ())
    ok = np.ones(len(at), dtype=bool)
    for part, name in zip(np.split(labels, 2), ("decision", "counterpart_decision"), strict=True):
        ok &= same(findings.coding.encode(part), findings.select(name, at), ROUNDING)
    if scores is not None and probe.criterion.needs_scores:
        both, scored = (np.stack(np.split(values, 2), axis=1) for values in (labels, scores))
        judged = probe.criterion.judge(Outputs(both, scored, np.zeros(len(at), dtype=np.int64)))
        # A pair whose gap is almost gamma counts if its gap is the stored one.
        ok &= judged.unfair | close(judged.gap, findings.select("gap", at))
    return ok


class StoredTests:
    """A sample of stored tests and their verdicts, to detect a model that has changed.

    Findings come first, because they are the claims of a run; the others are spread over all stored tests.
    """

    def __init__(self) -> None:
        self._parts: dict[bool, list[tuple[Block, Mask]]] = {True: [], False: []}

    def add(self, block: Block, unfair: Mask) -> None:
        """Keep some tests of a stored block."""
        for kind, parts in self._parts.items():
            places = np.flatnonzero(unfair == kind)
            some = places[_spread(len(places), OF_BLOCK)]
            if len(some):
                parts.append((block[some], unfair[some]))
            if len(parts) > BLOCKS:
                # Every other one, so that the rest is spread over all blocks.
                del parts[1::2]

    def check(self, judge: Judge, where: Path | None) -> None:
        """Judge them again; raise if a verdict has changed."""
        for parts in self._parts.values():
            chosen = [parts[i] for i in _spread(len(parts), AT_MOST // OF_BLOCK)]
            for block, before in chosen:
                judged = judge.judge(judge.families(block))
                unlike = (judged.unfair != before) & ~_at_the_edge(judge.probe.criterion, judged.verdicts)
                if unlike.any():
                    refuse_noise(judge.probe, judge.families(block).asked)
                    raise changed(where)
            parts.clear()


def check_kept(probe: ModelProbe, findings: Findings, chunk: int, where: Path | None) -> int:
    """Query some findings of a finished run again; raise if an answer has changed. Return the number of rows."""
    some = _spread(findings.count, AT_MOST)
    held = holds(probe, findings, some, chunk)
    if not held.all():
        raise not_reproduced(probe, findings, some[~held], where)
    return 2 * len(some) * probe.cost


def not_reproduced(probe: ModelProbe, findings: Findings, lost: Positions, where: Path | None) -> RunError:
    """Return the error for stored findings with different answers; raise ``FlakyModel`` if the model is noisy."""
    for side in ("individual", "counterpart"):
        refuse_noise(probe, findings.rows(side, lost[:OF_BLOCK]))
    return changed(where)


def refuse_noise(probe: ModelProbe, rows: Any) -> None:
    """Query rows several times in the same batch; raise ``FlakyModel`` if some get two answers."""
    first = RowAnswers(*at_once(probe, rows), follows=False)
    unlike = np.zeros(len(rows), dtype=bool)
    for _ in range(OFTEN):
        unlike |= first.differs(RowAnswers(*at_once(probe, rows), follows=False), probe.criterion.needs_scores)
    if unlike.any():
        raise noisy(int(unlike.sum()), len(rows))


def changed(where: Path | None) -> RunError:
    """Return the error for a model that did not give the stored answers."""
    return RunError(
        f"the model has changed since the run in {where} was made: it gives other answers to tests that are stored "
        "there",
        remedy="use a new directory, or the original model",
    )


def _spread(n: int, most: int) -> Positions:
    """Choose at most ``most`` of ``n`` positions, evenly spaced.

    >>> _spread(10, 4).tolist(), _spread(3, 4).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _at_the_edge(criterion: Criterion, judgement: Judgement) -> Mask:
    """Return a mask of gaps so close to the criterion's threshold that rounding decides."""
    gammas = [clause.gamma for clause in getattr(criterion, "clauses", ()) if clause.gamma is not None]
    edge = np.zeros(len(judgement.gap), dtype=bool)
    for gamma in gammas:
        edge |= np.isclose(judgement.gap, gamma, rtol=TOLERANCE, atol=TOLERANCE)
    return edge
