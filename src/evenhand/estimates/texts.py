"""How common it is that a text is treated differently: texts as they are, each against its counterparts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand import _interrupts as interrupts
from evenhand._rng import Stream
from evenhand.criteria import Criterion
from evenhand.engine.judge import CHUNK, Judge, Judged, Mask, ask_mixed, blocks
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import (
    ALONE,
    RANDOM,
    ROUNDING,
    TRIED,
    Steadiness,
    noisy,
    rounding_alone,
    same,
    scores_come_along,
)
from evenhand.engine.unused import SCORED, compare_scores, scores_at_hand
from evenhand.errors import TEXTS, EstimateError, EvenhandError, FlakyModel, Use
from evenhand.estimates.bounds import of_counts
from evenhand.estimates.comparisons import Sureness
from evenhand.estimates.differences import Differences
from evenhand.estimates.favour import Favour
from evenhand.estimates.intervals import Ends
from evenhand.estimates.plan import Plan
from evenhand.estimates.result import Estimate
from evenhand.estimates.survey import AGAIN, Kept, widest
from evenhand.estimates.tables import KEPT
from evenhand.estimates.terms import TermCounts
from evenhand.estimates.watching import too_early
from evenhand.estimates.words import ALL_ROWS
from evenhand.models.base import Model
from evenhand.spaces.base import Block
from evenhand.spaces.text.individuals import TextIndividuals
from evenhand.spaces.text.space import TextSpace

ALLOWED = 'data, samples, confidence, interval="clopper-pearson", about, criterion, tolerance, seed, chunk, timeout'


def refuse(population: Any, **given: Any) -> None:
    """Raise where an estimate of texts is given what only rows have.

    >>> refuse("data", weights=None, steps=None)
    """
    if not isinstance(population, str) or population != "data":
        raise EstimateError(
            'must be "data" for texts, which are measured as they are',
            parameter="population",
            value=population,
            remedy=("give ", Use('population="data"', "estimate.population", "data"), " and ", TEXTS),
        )
    if isinstance(given.get("interval"), str) and given["interval"] == "clopper-pearson":
        del given["interval"]
    for name, value in given.items():
        if value is not None:
            raise EstimateError(
                "is not for texts, which are asked as they are, each once",
                parameter=name,
                value=value,
                remedy=f"leave it out: an estimate of texts takes {ALLOWED}",
            )


def judged(
    model: Model, space: TextSpace, texts: Sequence[str], criterion: Criterion, seed: int
) -> tuple[npt.NDArray[np.int64], Mask]:
    """Judge texts as they are; return where those that can be judged stand, and whether they are treated differently.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> model = wrap(lambda texts: ["Sikh came" in text for text in texts], input="text")
    >>> judged(model, TextSpace("religion"), ["Nobody.", "A Sikh came.", "A Jew went."], Flip(), 0)
    (array([1, 2]), array([ True, False]))
    """
    ground = space.begin(list(texts))
    asker = ModelProbe(model, ground, criterion)
    judge = Judge(asker, seed, chunk=CHUNK)
    unfair = [judge.judge(judge.families(block)).unfair for block in blocks(ground, ground.seeds)]
    return ground.positions, np.concatenate(unfair)


class TextSurvey:
    """Judges texts as they are, block by block; counts, and asks what it finds again."""

    def __init__(self, asker: ModelProbe, people: TextIndividuals, seed: int, chunk: int) -> None:
        self.judge, self.people = Judge(asker, seed, chunk=chunk), people
        self.asker, self.ground = asker, people.ground
        self.apart = self._again = 0
        self.steadiness = Steadiness(asker, seed, chunk)
        self.points: list[tuple[int, int]] = []
        self.favour = Favour(asker.model, None)
        level = self.favour.level if asker.criterion.needs_scores else None
        self.kept, self.terms = Kept(), TermCounts(self.ground, level)
        self._unfair: list[Mask] = []
        self._start = time.monotonic()

    @property
    def unfair(self) -> Mask:
        """Verdicts, in the order of the texts."""
        return np.concatenate([np.zeros(0, dtype=bool), *self._unfair])

    @property
    def checked(self) -> int:
        """Texts asked to check the model and what it says."""
        return self.apart + self.steadiness.rows

    @property
    def samples(self) -> int:
        """How many are judged."""
        return self.points[-1][0] if self.points else 0

    @property
    def found(self) -> int:
        """How many of them are treated differently."""
        return self.points[-1][1] if self.points else 0

    @property
    def sampled(self) -> bool:
        """Whether one of them was compared with a sample of its counterparts."""
        seeds = self.people.seeds[: self.samples]
        return bool((self.ground.counterparts[seeds] >= self.ground.space.max_family_size).any())

    @property
    def seconds(self) -> float:
        """Time since the beginning."""
        return time.monotonic() - self._start

    def run(self, cancel: interrupts.Token | None = None) -> bool:
        """Judge all of them; return whether that came to its end."""
        first = self.people[: min(TRIED, self.judge.chunk)].rows
        self.asker.scored = scores_come_along(self.asker, first)
        calls = self.asker.asking.calls
        self.apart, calls.cancel = calls.rows, cancel
        try:
            for block in blocks(self.ground, self.people, self.judge.chunk):
                self._judge(block)
            self._refuse_noise(*self.steadiness.finish())
        except KeyboardInterrupt as interrupt:
            if not self.samples:
                raise too_early(interrupt) from None
            interrupts.settled()
            return False
        finally:
            calls.cancel = None
        return True

    def _judge(self, block: Block) -> None:
        judged = self.judge.judge(self.judge.families(block))
        outputs, unfair = judged.outputs, judged.unfair
        self._refuse_noise(*self.steadiness.check(judged.families, outputs))
        self._ask_again(judged)
        self.terms.add(judged.families, outputs)
        room = slice(max(0, KEPT - self.samples))
        self.kept.unfair.append(unfair[room])
        if outputs.scores is not None:
            self.kept.gaps.append(widest(outputs)[room])
        self.points.append((self.samples + len(unfair), self.found + int(unfair.sum())))
        self._unfair.append(unfair)

    def _refuse_noise(self, waver: int, rows: int) -> None:
        if waver:
            raise noisy(waver, rows)

    def _ask_again(self, judged: Judged) -> None:
        """Ask findings again, in another order and in other batches; raise where the model answers otherwise."""
        found = np.flatnonzero(judged.unfair)[: AGAIN - self._again]
        if not len(found):
            return
        anew, rows = ask_mixed(self.asker, judged.families[found], self.judge.seed, self.judge.chunk)
        again, outputs = anew.outputs, judged.outputs
        self._again += len(found)
        self.apart += rows
        assert outputs.labels is not None
        assert again.labels is not None
        # Wider families beside them had more places, which hold no answers of these.
        held = same(again.labels, outputs.labels[found, : again.labels.shape[1]], ROUNDING).all(axis=1)
        if self.asker.criterion.needs_scores:
            gaps = anew.verdicts.gap, judged.verdicts.gap[found]
            held &= anew.unfair | np.isclose(*gaps, rtol=ROUNDING, atol=ROUNDING)
        lost = np.flatnonzero(~held)
        if len(lost) and not rounding_alone(self.asker, again, lost, len(found)):
            raise FlakyModel(
                f"{len(lost):,} of {len(found):,} findings that were asked again, in another order and in batches of "
                f"other sizes, got another answer; {RANDOM}; or {ALONE}",
                len(lost) / len(found),
            )


@interrupts.watched()
def measured_texts(
    plan: Plan,
    model: Model,
    space: TextSpace,
    data: Any,
    criterion: Criterion,
    seed: int,
    chunk: int = CHUNK,
    timeout: float | None = None,
    exclude: Callable[[TextIndividuals], Mask] | None = None,
    like: str = "those given",
    cancel: interrupts.Token | None = None,
) -> tuple[Estimate, Mask]:
    """Estimate how common it is that texts, as they are, are treated differently; also return each one's verdict.

    Verdicts are in the order of the data. Those that ``exclude`` names are not asked; ``like`` says which texts the
    interval is for.

    >>> from evenhand.criteria import Flip
    >>> from evenhand.models.wrap import wrap
    >>> model = wrap(lambda texts: ["Sikh came" in text for text in texts], input="text")
    >>> texts = ["Nobody.", "A Sikh came.", "A Jew came.", "A Jew went."]
    >>> measured_texts(Plan("data", about="rows"), model, TextSpace("religion"), texts, Flip(), 0)[0]
    Estimate: exactly 66.7% of the data's 3 texts with a protected term are treated differently; every one was judged
    """
    ground = space.begin(data)
    asker = ModelProbe(model, ground, criterion, timeout)
    people = ground.seeds
    if exclude is not None:
        people = people[~exclude(people)]
        if not len(people):
            raise EstimateError(f"no text is left to ask: all of {len(ground.seeds):,} are among those left out")
    order = _order(seed, len(people), plan.samples)
    survey = TextSurvey(asker, people[order], seed, chunk)

    def made(stop: str) -> Estimate:
        return _made(plan, survey, len(people), stop, seed, like, exclude is not None)

    try:
        ended = "exhausted" if len(order) == len(people) else "samples"
        stop = ended if survey.run(cancel) else "interrupted"
    except EvenhandError as error:
        if survey.samples and not isinstance(error, FlakyModel):
            error.add_note(f"{survey.samples:,} texts had been judged")
            error.partial = made("interrupted")
        raise
    unfair = survey.unfair
    scored = None
    if not survey.found and (asker.scored or asker.model.decides):
        # Where scores would come along with decisions and do not, there are none.
        scored = scores_at_hand(asker, survey.kept.gaps)
    elif not survey.found and survey.samples:
        scored, rows = compare_scores(asker, ground.families(people[order[:SCORED]], seed))
        survey.apart += rows
    found = made(stop)
    found.scored = scored
    return found, unfair[np.argsort(order[: len(unfair)])]


def _order(seed: int, size: int, samples: int | None) -> npt.NDArray[np.int64]:
    """Choose texts in a drawn order, so that those asked first are as good a sample as any."""
    # A stream of its own: the sample must not be that of a search with the same seed.
    stream = Stream(int(Stream(seed).bits("estimate", 0, 0)[0] >> np.uint64(1)))
    return stream.shuffled(np.arange(size if samples is None else min(samples, size)), size, "texts")


def _made(plan: Plan, survey: TextSurvey, size: int, stop: str, seed: int, like: str, barring: bool) -> Estimate:
    """Make an estimate of a survey of some of ``size`` texts."""
    asker, ground, n, found = survey.asker, survey.ground, survey.samples, survey.found
    rows, broken = plan.about == "rows", stop == "interrupted"
    # One that was broken off was ended by what it showed, for all that is known.
    rate, low, high, interval = of_counts(found, n, size if rows else None, broken, plan.confidence)
    whose = f"the data's {size:,} texts" if rows else f"texts like {like}"
    left_out = {"left_out": len(ground.seeds) - size} if barring else {}
    sure = Sureness(float(plan.confidence), float(plan.tolerance), watched=broken, exact=interval == "exact")
    width = survey.terms.width

    def ends(found: Differences, terms: int) -> Ends:
        return sure.at_once(terms).difference(found)

    return Estimate(
        rate=rate,
        low=low,
        high=high,
        confidence=float(plan.confidence),
        interval=ALL_ROWS if interval == "exact" and survey.sampled else interval,
        samples=n,
        found=found,
        population=plan.population,
        about=f"{whose} with a protected term",
        stop=stop,
        rows=survey.judge.rows,
        rows_checked=survey.checked,
        seconds=survey.seconds,
        seed=seed,
        counts={
            "rows": len(ground.seeds) + ground.without + ground.alone + ground.missing,
            "missing": ground.missing,
            "untestable": ground.without + ground.alone,
            **left_out,
        },
        noise=0.0,
        repeats=1,
        misjudged=0.0,
        sampled=survey.sampled,
        model=asker.model.name,
        criterion=asker.criterion,
        favourable=None,
        tolerance=float(plan.tolerance),
        space=ground.space,
        shares=(),
        comparisons=(),
        points=survey.points,
        kept=survey.kept,
        terms=survey.terms.shares(ends),
        score_of=() if width is None else survey.favour.scored(width),
        families=n,
    )
