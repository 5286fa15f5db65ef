"""What a report says, gathered section by section; what cannot be had is a sentence in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from evenhand._format import visible
from evenhand.errors import EvenhandError, MissingExtra, ModelError
from evenhand.estimates.coverage import Coverage, Inputs, coverage
from evenhand.estimates.estimating import estimate
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.result import Estimate
from evenhand.explanations.examples import examples_of as shrunk
from evenhand.explanations.finding import regions
from evenhand.explanations.result import Examples, Regions
from evenhand.models.wrap import wrap
from evenhand.reports.cards import Card, cards_of_examples, cards_of_pairs
from evenhand.reports.directions import Direction, Terms, directions, terms
from evenhand.reports.meeting import affected, pairs_met
from evenhand.reports.subject import FEW, SOUGHT, ReportInputs, individuals
from evenhand.runs.replay import judge_of
from evenhand.words import plain, telling

if TYPE_CHECKING:
    from evenhand.estimates.plan import Whom
    from evenhand.runs.run import Run

Made = TypeVar("Made")

RULES, LEARNT = 3, 4
"""How many rules are looked for; and the part of the samples that they are learnt from, because learning takes longer
than asking."""
GROWN = 2**21
"""Individuals times columns that the tree of the coverage is grown from: growing takes longer than asking."""
CHANGED = 1_000
"""Findings of texts whose quality is measured."""


@dataclass
class Content:
    """Everything that a report says, as the objects that say it."""

    subject: ReportInputs
    title: str
    note: str
    rows: bool
    others: Sequence[Run]
    estimates: dict[str, Estimate] = field(default_factory=dict)
    """By population: ``"data"``, ``"uniform"``."""
    directions: list[Direction] = field(default_factory=list)
    more_directions: int = 0
    terms: Terms | None = None
    examples: Examples | None = None
    cards: list[Card] = field(default_factory=list)
    regions: Regions | None = None
    coverage: Coverage | None = None
    groups: Groups | None = None
    quality: dict[str, float] = field(default_factory=dict)
    edited: int = 0
    """Findings that the quality is the mean of."""
    missing: dict[str, str] = field(default_factory=dict)
    """Sections that are not there, and why."""
    failed: dict[str, str] = field(default_factory=dict)
    """Those of them that were tried in vain, and the error."""

    @property
    def run(self) -> Run:
        """The run that is reported."""
        return self.subject.run


def gather(
    subject: ReportInputs,
    title: str,
    note: str,
    rows: bool,
    others: Sequence[Run],
    examples: int,
    known: Coverage | None,
) -> Content:
    """Ask and count everything; ``known`` is a coverage that was measured before."""
    content = Content(subject, title, note, rows, others, coverage=known)
    _shares(content)
    if subject.texts:
        _texts(content)
    elif subject.people:
        _whom(content)
    _pairs(content, examples)
    if subject.people:
        _places(content)
        _groups(content)
    elif not subject.texts:
        content.missing["whom"] = content.missing["regions"] = subject.no_model
    return content


def _tried(content: Content, section: str, make: Callable[[], Made]) -> Made | None:
    """Make a part; where that fails say why in its place, so that the rest is not lost by it."""
    try:
        return make()
    except MissingExtra as error:
        # Nothing went wrong: a package is optional.
        content.missing[section] = f"This part is left out: {error}."
        return None
    except (EvenhandError, MemoryError) as error:
        # What the model raises is a ModelError. An error may name what somebody's values are.
        why = error.reason if isinstance(error, EvenhandError) else str(error)
        told = visible(why).partition("\n")[0][:400].rstrip(".:") if content.rows else ""
        told = told or type(error).__name__
        again = told in content.failed.values()
        content.failed[section] = told
        content.missing[section] = (
            "This part could not be made either, for the same reason."
            if again
            else f"This part could not be made: {told}."
        )
        return None


def _shares(content: Content) -> None:
    subject = content.subject
    probe, space = subject.probe, subject.run.space
    if probe is None:
        content.missing["common"] = subject.no_model or subject.no_data
        if subject.texts and subject.no_model and subject.no_data:
            content.missing["common data"] = subject.no_data
        return
    run = subject.run
    if run.unsteady is not None:
        content.missing["common"] = "How common it is was not measured: the model does not answer steadily."
        return
    if run.unaware and not run.found:
        content.missing["common"] = "How common it is was not measured: the model does not receive what is protected."
        return
    model, criterion, timeout = probe.model, probe.criterion, probe.timeout

    def measured(population: Whom) -> Estimate:
        return estimate(
            model,
            space,
            population,
            data=subject.data if population == "data" else None,
            samples=subject.samples,
            confidence=subject.confidence,
            favourable=None if subject.texts else subject.favourable,
            criterion=criterion,
            seed=subject.seed,
            timeout=timeout,
        )

    populations: list[Whom] = ["uniform"] if subject.data is None else ["data", "uniform"]
    if subject.texts:
        populations.remove("uniform")
    for population in populations:
        found = _tried(content, f"common {population}", lambda p=population: measured(p))  # type: ignore[misc]
        if found is not None:
            content.estimates[population] = found
    if subject.data is None:
        content.missing["common data"] = subject.no_data


def _whom(content: Content) -> None:
    counted = _tried(content, "whom", lambda: directions(content.run))
    if counted is not None:
        content.directions, content.more_directions = counted


def _texts(content: Content) -> None:
    content.terms = _tried(content, "terms", lambda: terms(content.run))
    _tried(content, "quality", lambda: _quality(content))


def _quality(content: Content) -> None:
    """Compare changed texts with what they were, the swap apart."""
    from evenhand.spaces.text.quality import quality
    from evenhand.spaces.text.tokens import split

    records: list[Any] = content.run.pairs.records(slice(min(content.run.found, CHANGED)))  # type: ignore[attr-defined]
    edited = [(text, changed) for text, _, _, changed in records if changed]
    if not edited:
        return
    before = []
    for text, changed in edited:
        tokens = split(text)
        for position, old, _ in changed:
            tokens[2 * position + 1] = old
        before.append("".join(tokens))
    table = quality(before, [text for text, _ in edited])
    content.quality, content.edited = {str(name): float(mean) for name, mean in table.mean().items()}, len(edited)


def _pairs(content: Content, count: int) -> None:
    """Show distinct examples beside real people; else findings as they are; else whom an estimate met."""
    if not content.rows:
        return
    subject, run = content.subject, content.run
    if subject.probe is not None and subject.data is not None and not subject.texts:
        judge = judge_of(run, subject.probe, subject.samples * _width(run))
        known = _tried(content, "examples", lambda: affected(content.estimates.get("data"), run.space, subject.data))
        content.examples = _tried(
            content, "examples", lambda: shrunk(run, judge, subject.data, count, subject.seed, known)
        )
    if not content.examples:
        content.examples = None
    if content.examples is not None:
        found, numbered = content.examples, subject.numbered
        cards = _tried(
            content, "examples", lambda: cards_of_examples(found, run.space.protected, subject.data, numbered)
        )
        content.cards = cards or []
    elif run.found:
        pairs = _tried(content, "examples", lambda: telling(run, count, subject.data))
        content.cards = cards_of_pairs(pairs or [], run.space.protected)
    elif subject.probe is not None and content.estimates and not subject.texts:
        probe = subject.probe
        met = _tried(content, "examples", lambda: pairs_met(run, probe, list(content.estimates.values()), count))
        content.cards = cards_of_pairs(met or [], run.space.protected)


def _places(content: Content) -> None:
    subject, run = content.subject, content.run
    if subject.probe is None:
        content.missing["regions"] = subject.no_model
        return
    model = None if run.origin is not None else subject.probe.model
    if subject.samples < FEW:
        content.missing["regions"] = (
            f"Rules are checked on some {SOUGHT:,} individuals, which this report was not to ask: "
            f"evenhand report --samples {FEW}, or eh.regions(run), finds them."
        )
    else:
        content.regions = _tried(
            content,
            "regions",
            lambda: regions(
                run,
                model,
                subject.data,
                subject.seed,
                subject.confidence,
                most=RULES,
                samples=max(100, subject.samples // LEARNT),
                rows=individuals(subject.samples) * _width(run),
            ),
        )
    if content.coverage is None and subject.decides:
        people = subject.data if run.origin is None else None
        content.coverage = _tried(
            content,
            "coverage",
            lambda: coverage(run, model, people, samples=_grown(run, subject.samples), seed=subject.seed),
        )


def _groups(content: Content) -> None:
    subject = content.subject
    if subject.probe is None or subject.data is None:
        return
    model, timeout = subject.probe.model, subject.probe.timeout
    if not subject.decides and not model.regression:
        try:
            # The run compared the model's numbers, so they may be averaged as well.
            model = wrap(model, regression=True)
        except ModelError:
            content.missing["groups"] = (
                f"Group figures are of decisions or amounts, and {plain(model.name)} gives a score: "
                "eh.wrap(model, threshold=...) makes decisions of it."
            )
            return
    if subject.favourable is None and not model.regression:
        content.missing["groups"] = (
            "Group figures need the outcome that people want, which was not named: evenhand report RUN --favourable "
            "OUTCOME, or eh.report(run, favourable=...)."
        )
        return
    if model.regression and subject.y is not None:
        content.missing["accuracy"] = "Accuracy is of decisions, and the model gives numbers, so y was not used."
    content.groups = _tried(
        content,
        "groups",
        lambda: groups(
            model,
            subject.run.space,
            subject.data,
            subject.favourable,
            y=None if model.regression else subject.y,
            confidence=subject.confidence,
            timeout=timeout,
        ),
    )


def _grown(run: Run, samples: int) -> int:
    """How many individuals to grow a tree from: fewer of many columns, and never too few to cross-validate it."""
    return max(100, min(samples, max(1_000, GROWN // Inputs(run.space).columns)))


def _width(run: Run) -> int:
    return int(run.space.width)
