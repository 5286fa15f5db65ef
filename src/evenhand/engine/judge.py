"""Judges families: an individual with its counterparts gets a verdict.

``ModelProbe`` asks the model about individuals. ``ask`` is pure: it calls the model once and applies the criterion.
``Judge`` adds policies: excluded individuals, a row limit, and repeats for a non-deterministic model.

A model that never receives an attribute has no findings by it, however it treats people. So has one that receives it
and ignores it. Neither is evidence that groups are treated equally, so "none found" always comes with the
``statement`` of which attributes a model does not use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import Figure, Sentence
from evenhand.criteria import Criterion, Judgement, Outputs, Pairwise, UnknownCriterion
from evenhand.engine.determinism import BRIEF, affordable, scattered
from evenhand.engine.gradients import Slopes, Source, WordSlopes
from evenhand.errors import FLIP, GAP, REGRESSION, TEXT_RANDOM, DataError, ModelError, Words
from evenhand.models.base import Model, some
from evenhand.models.client import ModelClient
from evenhand.models.sklearn import SensitiveModel
from evenhand.models.wrap import for_space
from evenhand.spaces.base import AnySpace, BoundSpace, Families, table
from evenhand.spaces.findings import Decisions
from evenhand.spaces.tabular import Space

CHUNK = 32_768
"""Default maximum of the rows of one block."""
Mask = npt.NDArray[np.bool_]
Exclude = Callable[[Any], Mask]
"""Returns a mask of individuals that must not be queried."""
FEW = 32
"""With fewer scores, it is not known whether all are between 0 and 1."""
SCORED = 256
"""Number of families whose scores are compared if nothing was found."""
NO_GAP = 1e-9
"""Scores that differ by at most this are equal except for rounding."""
BEYOND = "it may still disadvantage a group through other attributes: see eh.groups"
IN_TEXTS = "it may still disadvantage a group through other words of the texts"


class RowLimitReached(Exception):
    """The next query needs more rows than are left."""


@dataclass(frozen=True)
class Judged:
    """Families, the model's outputs, and the verdicts."""

    families: Families
    outputs: Outputs
    verdicts: Judgement
    unsure: Mask | None = None
    """With repeats: families with an answer that differs between the two halves of the repeats."""

    def __len__(self) -> int:
        return len(self.families)

    @property
    def unfair(self) -> Mask:
        """Which individuals are treated differently."""
        return self.verdicts.unfair

    @property
    def valid(self) -> Mask | None:
        """Which places of the families are valid (None: all)."""
        return self.families.valid


def ask(probe: ModelProbe, families: Families) -> Judged:
    """Ask the model about families and judge them; nothing is counted, stored or remembered.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> probe = ModelProbe(wrap(lambda frame: (frame["age"] < 4) & frame["member"]), space, Flip())
    >>> ask(probe, space.families(space.individuals([[3, 0], [4, 0]]), 0)).unfair.tolist()
    [True, False]
    """
    outputs = probe.outputs(families)
    return Judged(families, outputs, probe.criterion.judge(outputs))


def outputs_of(families: Families, labels: npt.NDArray[Any], scores: npt.NDArray[np.float64] | None) -> Outputs:
    """Line answers up by family."""
    scored = None if scores is None else families.to_grid(scores)
    return Outputs(families.to_grid(labels), scored, families.own, getattr(families, "groups", None))


def _ask_mixed(probe: ModelProbe, families: Families, seed: int, chunk: int) -> Outputs:
    """Query families in another order, with their members separated, in batches of other sizes."""
    rows = families.asked
    order = np.random.default_rng([seed, len(rows)]).permutation(len(rows))
    labels, scores = scattered(probe, rows, order, chunk)
    return outputs_of(families, labels, scores)


def blocks(bound: BoundSpace, people: Any, rows: int = CHUNK) -> Iterator[Any]:
    """Divide individuals into blocks whose families have at most ``rows`` rows.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> [len(block) for block in blocks(space, space.individuals([[3, 0], [4, 0], [3, 1]]), 4)]
    [2, 1]
    """
    at = 0
    while at < len(people):
        size = bound.batch_size_for(people, np.arange(at, len(people)), rows)
        yield people[at : at + size]
        at += size


class Judge:
    """Judges individuals, and counts rows and untestable individuals.

    Parameters
    ----------
    probe, seed
        The probe of the model; the seed for sampling counterparts if there are too many.
    chunk
        Maximum rows of one block.
    half
        Repeats of every row in each half of the repeats; 0 queries once.
    limit
        Maximum rows; a query beyond it raises ``RowLimitReached`` before the model is called.
    exclude
        Individuals that must not be queried.

    Examples
    --------
    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 0, 9), Boolean("member")], protected="member")
    >>> judge = Judge(ModelProbe(wrap(lambda frame: (frame["age"] < 4) & frame["member"]), space, Flip()), 0)
    >>> judge.unfair(space.individuals([[3, 0], [4, 0], [3, 1]])).tolist(), judge.rows
    ([True, False, True], 4)
    """

    def __init__(
        self,
        probe: ModelProbe,
        seed: int,
        *,
        chunk: int = CHUNK,
        half: int = 0,
        limit: int | None = None,
        exclude: Exclude | None = None,
    ) -> None:
        self.probe, self.seed, self.chunk, self.half, self.limit = probe, seed, chunk, half, limit
        self.exclude = exclude
        self.rows = self.untestable = self.left_out = 0
        self._decisions = Decisions()

    @property
    def width(self) -> int:
        """Maximum rows of a family."""
        return self.probe.bound.width

    @property
    def cost(self) -> int:
        """Maximum rows of a test."""
        return self.width * self.probe.cost

    @property
    def space(self) -> Space:
        """The space, where it is one of attributes."""
        return self.probe.space

    def families(self, people: Any) -> Families:
        """Build the families of individuals with counterparts that are not excluded; count the others."""
        if self.exclude is not None:
            out = self.exclude(people)
            self.left_out += int(out.sum())
            people = people[np.flatnonzero(~out)]
        families = self.probe.bound.families(people, self.seed)
        if families.testable is None or families.testable.all():
            return families
        assert families.valid is not None
        alone = families.valid.sum(axis=1) == 1
        self.untestable += int(alone.sum())
        return families[np.flatnonzero(families.testable)]

    def judge(self, families: Families) -> Judged:
        """Ask about families and judge them; with repeats, by the most frequent answers."""
        cost = int(families.places.sum()) * self.probe.cost * max(1, 2 * self.half)
        if self.limit is not None and self.rows + cost > self.limit:
            raise RowLimitReached
        self.rows += cost
        return self._repeated(families) if self.half else ask(self.probe, families)

    def judged(self, people: Any) -> tuple[Mask, Mask]:
        """Return masks of testable individuals and of those treated differently; repeats are queried once."""
        testable, unfair = np.zeros((2, len(people)), dtype=bool)
        if not len(people):
            return testable, unfair
        _, first, back = np.unique(people.keys, return_index=True, return_inverse=True)
        start = 0
        for block in blocks(self.probe.bound, people[first], self.chunk):
            families = self.probe.bound.families(block, self.seed)
            able = np.arange(len(families)) if families.testable is None else np.flatnonzero(families.testable)
            if len(able):
                testable[start + able] = True
                unfair[start + able] = self.judge(families[able]).unfair
            start += len(block)
        return testable[back.reshape(-1)], unfair[back.reshape(-1)]

    def unfair(self, people: Any) -> Mask:
        """Return a mask of individuals that are treated differently; untestable ones are not."""
        return self.judged(people)[1]

    def _repeated(self, families: Families) -> Judged:
        # In a different order each time, so that effects of the position in the batch are outvoted like other noise.
        turns = range(2 * self.half)
        answers = [_ask_mixed(self.probe, families, self.seed + turn, self.chunk) for turn in turns]
        codes = np.stack([self._decisions.encode(_labels(one).ravel()) for one in answers])
        halves = [self._usual(part) for part in (codes[: self.half], codes[self.half :])]
        usual, shape = self._decisions.decode(self._usual(codes)), _labels(answers[0]).shape
        scored = [one.scores for one in answers if one.scores is not None]
        scores = np.mean(scored, axis=0) if scored else None
        unsure = (halves[0] != halves[1]).reshape(shape).any(axis=1)
        outputs = replace(answers[0], labels=usual.reshape(shape), scores=scores)
        return Judged(families, outputs, self.probe.criterion.judge(outputs), np.asarray(unsure, dtype=bool))

    def _usual(self, codes: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
        """Return the most frequent answer to each row; ties go to the first."""
        votes = np.stack([(codes == code).sum(axis=0) for code in range(len(self._decisions.values))])
        return np.asarray(votes.argmax(axis=0), dtype=np.int64)


def _labels(outputs: Outputs) -> npt.NDArray[np.generic]:
    assert outputs.labels is not None
    return outputs.labels


class ModelProbe:
    """Converts individuals to inputs of the model, and its answers to inputs of a criterion."""

    def __init__(
        self,
        model: Model,
        bound: BoundSpace,
        criterion: Criterion,
        gradient: Source | None = None,
    ) -> None:
        if isinstance(criterion, UnknownCriterion):
            raise criterion.error
        model = for_space(model, texts=bound.space.input == "text")
        if isinstance(model, SensitiveModel):
            model = model if model.sensitive is not None else model.with_sensitive(table(bound).protected)
            model.check_groups(table(bound))
        self.model, self.bound, self.criterion = model, bound, criterion
        self.client = ModelClient(model)
        self.contrasts = gradient is not None
        """Whether the search uses contrasts, and therefore scores."""
        self.slopes = Slopes(self, gradient) if gradient is not None and bound.supports("attributes") else None
        """Gradients for a search of attributes; None if it does not use them."""
        self.word_slopes: WordSlopes | None = None
        """Effects of words for a search of texts; None if it does not use them."""
        self.scored = criterion.needs_scores or self.contrasts
        """Whether scores are needed in addition to decisions."""
        if criterion.needs_scores and not model.has_scores:
            raise ModelError(f"{criterion} needs scores, but {model.name} returns labels only", remedy=("use ", FLIP))
        if self.contrasts and not model.has_scores:
            raise ModelError(
                f"this search needs scores, but {model.name} returns labels only", remedy=("use ", TEXT_RANDOM)
            )
        if gradient is not None and bound.supports("texts"):
            self.word_slopes = WordSlopes(self, gradient)
        if model.columns is not None and bound.supports("attributes"):
            lacking = [name for name in model.columns if name not in self.space.names]
            if lacking:
                raise DataError(
                    f"{model.name} needs the column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking))}, which "
                    f"the space does not have (the model's: {some(list(model.columns))}; "
                    f"the space's: {some(list(self.space.names))})",
                    remedy="add to the space, or fit the model without",
                )

    def check_gap(self, scores: npt.NDArray[np.float64] | None) -> None:
        """Raise if the criterion asks for a gap that the model's scores, of which these are some, cannot reach."""
        clauses = self.criterion.clauses if isinstance(self.criterion, Pairwise) else ()
        widest = max((clause.gamma for clause in clauses if clause.gamma is not None), default=0.0)
        if scores is None or widest < 1 or self.model.regression:
            return
        several = scores.shape[-1] > 1
        if scores.size < FEW:
            return
        if scores.min() < 0 or scores.max() > 1 or (several and not np.allclose(scores.sum(axis=-1), 1, atol=1e-3)):
            return
        what = "probabilities" if several else f"between 0 and 1 (all {scores.size:,} asked so far)"
        raise ModelError(
            f"no pair can be found: the scores of {self.model.name} are {what}, so none are more than {widest:g} apart",
            remedy=("choose a smaller gap, such as ", GAP, "" if several else "; if they are amounts, use ",
                    "" if several else REGRESSION),
        )  # fmt: skip

    def on(self, executor: Executor | int | None) -> ModelProbe:
        """Return a probe that asks the model on the workers of an executor; with None as before."""
        if executor is None:
            return self
        changed = copy.copy(self)
        changed.model = self.model.on(executor)
        changed.client = ModelClient(changed.model)
        return changed

    @property
    def space(self) -> Space:
        """The space, which must be one of attributes."""
        return table(self.bound)

    @property
    def gradient(self) -> str | None:
        """The source of the gradients; None for a search without."""
        if self.slopes is not None:
            return self.slopes.source
        return None if self.word_slopes is None else self.word_slopes.source

    @property
    def cost(self) -> int:
        """Model rows per row of a test: 2 if decisions do not follow from scores."""
        follows = self.model.decides or self.model.regression
        return 2 if self.scored and not follows else 1

    def inputs(self, rows: Any) -> Any:
        """Build the frame, array or list of texts that the model takes."""
        return self.bound.space.inputs(rows, self.model.input, self.model.columns)

    def labels(self, rows: Any, instead: Words | None = None) -> npt.NDArray[Any]:
        """Query decisions; ``instead`` is the remedy for a model that returns scores."""
        return self.client.labels(self.inputs(rows), len(rows), instead)

    def scores(self, rows: Any) -> npt.NDArray[np.float64]:
        """Query scores, one row of them per row."""
        return self.client.scores(self.inputs(rows), len(rows))

    def both(self, rows: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
        """Query decisions, and scores if needed; in one model call if possible."""
        return self.answers(self.inputs(rows))

    def answers(self, inputs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
        """Query decisions, and scores if needed, for what ``inputs`` has built."""
        if not self.scored:
            return self.client.labels(inputs, len(inputs)), None
        scores, labels = self.client.both(inputs, len(inputs))
        return self.client.decided(labels) if self.criterion.needs_decisions else labels, scores

    def outputs(self, families: Families) -> Outputs:
        """Query whole families."""
        labels, scores = self.answers(self.bound.family_inputs(families, self.model.input, self.model.columns))
        return outputs_of(families, labels, scores)


def unread(probe: ModelProbe) -> tuple[str, ...]:
    """List the attributes of the space that the model is known not to receive."""
    return probe.model.unread(probe.space.names) if probe.bound.supports("attributes") else ()


def unreached(space: AnySpace, unused: Sequence[str]) -> frozenset[str]:
    """List the protected attributes that the model does not receive, nor any attribute that follows them.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> sorted(unreached(Space([Integer("age", 1, 9), Boolean("a"), Boolean("b")], protected=["a", "b"]), ["a", "age"]))
    ['a']
    """
    return frozenset(name for name in space.protected if name in unused and not _followers(space, name, unused))


def is_unaware(space: AnySpace, unused: Sequence[str]) -> bool:
    """Whether the model receives no protected attribute, nor any attribute that follows one.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> is_unaware(Space([Integer("age", 1, 9), Boolean("member")], protected="member"), ["member"])
    True
    """
    return unreached(space, unused) == set(space.protected)


def compare_scores(probe: ModelProbe, families: Families) -> tuple[tuple[int, int] | None, int]:
    """Query scores; return the numbers of families, of families with a changed score, and of rows used.

    None if the model has no scores, or returns numbers that may be labels. Fewer families for a slow model.
    """
    model = probe.model
    if families.testable is not None:
        families = families[np.flatnonzero(families.testable)]
    if not model.has_scores or not len(families):
        return None, 0
    most = affordable(probe, int(families.places.sum()), 1, BRIEF)
    families = families[np.arange(max(1, int(np.searchsorted(np.cumsum(families.places), most, side="right"))))]
    scores, before = None, probe.client.calls.rows
    with suppress(ModelError):
        scores = probe.scores(families.asked)
    rows = probe.client.calls.rows - before
    known = model.threshold is not None or model.classes is not None or model.regression or probe.criterion.needs_scores
    if scores is None or not (known or scores.shape[1] > 1):
        return None, rows
    return (len(families), int(changed(families.to_grid(scores)).sum())), rows


def compare_gaps(probe: ModelProbe, gaps: Sequence[npt.NDArray[np.float64]]) -> tuple[int, int] | None:
    """Count the same from known gaps of scores."""
    if not probe.scored or not gaps:
        return None
    apart = np.concatenate(list(gaps))
    return len(apart), int((apart > NO_GAP).sum())


def changed(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return in which families a score differs by more than rounding: (families, places, scores).

    >>> changed(np.array([[[0.2], [0.2]], [[0.2], [0.3]]])).tolist()
    [False, True]
    """
    return np.asarray(~np.isclose(scores, scores[:, :1], rtol=1e-6, atol=1e-12).all(axis=(1, 2)), dtype=bool)


def statement(
    space: AnySpace,
    unused: Sequence[str],
    found: int,
    families: int,
    scored: tuple[int, int] | None,
    complete: bool = False,
) -> Sentence | None:
    """Describe which attributes the model does not use; None if it uses all, as far as known.

    ``unused`` are the attributes that the model is known not to receive. Among the ``families`` judged, decisions
    changed in ``found``; ``scored`` are the numbers of families whose scores were compared and of those with a changed
    score; ``complete`` is whether all families of the space were judged.

    >>> from evenhand.spaces.attributes import Boolean, Integer; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Boolean("member")], protected="member")
    >>> str(statement(space, ["member"], 0, 9, None))[:88]
    "the model does not receive 'member', so it cannot treat anyone differently because of it"
    >>> str(statement(space, [], 0, 5, (9, 0)))[:74]
    'no decision changed in 5 families, and no score in 9 drawn to compare scor'
    """
    out = list[Sentence]()
    guarded = [name for name in space.protected if name in unused]
    received = [name for name in space.protected if name not in unused]
    if guarded:
        followers = list(dict.fromkeys(f for name in guarded for f in _followers(space, name, unused)))
        out.append(_not_received(guarded, followers, received if found else []))
        received += followers
    if received and not found and families and (scored is None or not scored[1]):
        out.append(_unchanged(received, families, scored, complete))
    if out:
        out.append(Sentence(IN_TEXTS if space.supports("texts") else BEYOND))
    if left := [name for name in unused if name not in space.protected]:
        repeats = "tests that differ in nothing else are repeats; leave it out of the space"
        out.append(Sentence(f"the space has {{}}, which the model does not receive: {repeats}", (_listed(left),)))
    return Sentence("; ".join(one.text for one in out), sum((one.parts for one in out), ())) if out else None


def _not_received(guarded: list[str], followers: list[str], others: list[str]) -> Sentence:
    """Describe what the model does not receive; ``others``: the attributes that findings are about, if any."""
    names, them = _listed(guarded, "or"), "it" if len(guarded) == 1 else "them"
    if followers:
        # A finding may be about either.
        text = f"the model does not receive {{}} itself, only {{}}, which follows {them}"
        return Sentence(text, (names, _listed(followers)))
    text = f"the model does not receive {{}}, so it cannot treat anyone differently because of {them}"
    out = Sentence(text, (names,))
    return out + Sentence("; the findings are about {}", (_listed(others),)) if others else out


def _unchanged(names: list[str], families: int, scored: tuple[int, int] | None, complete: bool) -> Sentence:
    """Describe that no answer changed, and in how many families."""
    out = Sentence("no decision changed in {} families", (Figure(families, "count"),))
    if complete:
        out += Sentence(", all that the space has")
    if scored:
        which = "whose scores were compared" if scored[0] <= families else "drawn to compare scores"
        out += Sentence(f", and no score in {{}} {which}", (Figure(scored[0], "count"),))
    so = "no decision depends on {}" if complete else "the model may not use {}"
    return out + Sentence(f": {so}", (_listed(names, "or"),))


def _followers(space: AnySpace, name: str, unused: Sequence[str]) -> list[str]:
    """Name the received attributes that are linked to a protected one."""
    return [free for free in table(space).links.get(name, {}) if free not in unused]


def _listed(names: Sequence[str], word: str = "and") -> str:
    return f" {word} ".join(map(repr, names))
