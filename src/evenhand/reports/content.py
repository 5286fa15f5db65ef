"""The content of a report, by section; a section that cannot be made is replaced by a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from evenhand._format import plain, visible
from evenhand._rng import Stream
from evenhand.errors import DataError, EvenhandError, MissingExtra, ModelError
from evenhand.estimates.coverage import Coverage, Inputs, coverage
from evenhand.estimates.estimate import estimate, estimate_again
from evenhand.estimates.groups import Groups, groups
from evenhand.estimates.result import Estimate
from evenhand.explanations.examples import Examples, Known, Shrunk, draft, examples_of
from evenhand.explanations.quality import quality
from evenhand.explanations.regions import Regions, regions
from evenhand.models.wrap import wrap
from evenhand.reports.figures import Card, card_of, cards_of_examples, listed, short
from evenhand.reports.people import Map, Scores, map_of, ranked, scores_of, with_scores
from evenhand.runs.pair_sentences import NONE, REAL, Pair, select_pairs, swaps
from evenhand.runs.replay import judge_of
from evenhand.spaces.base import table
from evenhand.spaces.frames import native
from evenhand.spaces.individuals import Individuals

if TYPE_CHECKING:
    from evenhand.engine.judge import ModelProbe
    from evenhand.reports.report import ReportInputs
    from evenhand.runs.run import Run, RunEstimate
    from evenhand.spaces.tabular import Space

import numpy as np

Made = TypeVar("Made")
PERSONAL = (ModelError, DataError)
"""Errors with texts that are not evenhand's own."""

RULES, LEARNT = 3, 4
"""Maximum number of rules; and the share of the samples to learn them from, because learning takes longer than
judging."""
GROWN = 2**21
"""Maximum number of individuals times columns for the tree of the coverage: growing it takes longer than judging."""
CHANGED = 1_000
"""Maximum number of findings of texts whose quality is measured."""
REGIONS, SOUGHT, FEW = 3, 20_000, 1_000
"""Individuals for regions: a multiple of the samples, and a minimum. With fewer samples than the third number, there
are no regions."""
SHOWN = 8
"""Maximum number of directions to list."""
TEXTS = 5_000
"""Maximum number of findings of texts to count."""
TERMS = 20
DECISIONS = 6
"""If there are more different decisions, as in a regression, they are not distinguished."""


@dataclass(frozen=True)
class Direction:
    """Findings that have the same protected values on each side, and the same decisions."""

    first: str
    first_said: str
    second: str
    second_said: str
    count: int


@dataclass(frozen=True)
class Term:
    """A swapped term, and how often the findings have each decision with it."""

    name: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Terms:
    """The terms of a text run's findings."""

    decisions: tuple[str, ...]
    """None if there are too many decisions; findings are then counted without them."""
    terms: list[Term]
    """Terms with the most findings first."""
    looked_at: int
    more: int
    """Number of terms that are not listed."""


@dataclass
class Content:
    """Everything that a report shows, as objects."""

    subject: ReportInputs
    title: str
    show_examples: str
    """``"synthetic"``, ``"real"`` or ``"none"``."""
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
    """Number of findings that the quality is averaged over."""
    influence: list[str] = field(default_factory=list)
    """The free attributes, those first on which the rate depends most."""
    map: Map | None = None
    scores: Scores | None = None
    missing: dict[str, str] = field(default_factory=dict)
    """Missing sections, with the reasons."""
    failed: dict[str, str] = field(default_factory=dict)
    """The sections that failed, with the errors."""

    @property
    def run(self) -> Run:
        """The run that is reported."""
        return self.subject.run

    @property
    def rates(self) -> dict[str, Estimate | RunEstimate]:
        """How common it is, by population: the run's own figures, also without a model or data."""
        confidence = self.subject.options.confidence
        own = {name: replace(one, confidence=confidence) for name, one in self.run.estimate.items()}
        return {name: one for name in ("data", "uniform") if (one := (own | self.estimates).get(name)) is not None}

    @property
    def note(self) -> str:
        """A paragraph about the model."""
        return self.subject.options.note

    @property
    def others(self) -> Sequence[Run]:
        """Other runs of the same model and space."""
        return self.subject.options.others


def gather(content: Content) -> Content:
    """Query and count everything."""
    subject = content.subject
    if subject.run.unsteady is not None:
        # The answers of such a model may not be reproducible.
        content.missing["common"] = "The rate was not measured: the model is not deterministic."
        for section in ("terms" if subject.texts else "comparisons", "examples", "regions"):
            content.missing[section] = "This part is left out: the model is not deterministic."
        return content
    _shares(content)
    if subject.texts:
        _texts(content)
    elif subject.people:
        _comparisons(content)
        _charts(content)
    if content.show_examples != NONE:
        _examples(content, subject.options.examples)
    if subject.people:
        _places(content)
        _groups(content)
    elif not subject.texts:
        content.missing["comparisons"] = content.missing["regions"] = subject.no_model
    return content


def _tried(content: Content, section: str, make: Callable[[], Made]) -> Made | None:
    """Make a part; if that fails, record the reason in its place, so that the other parts are not lost."""
    try:
        return make()
    except MissingExtra as error:
        # Not a failure: the package is optional.
        content.missing[section] = f"This part is left out: {error}."
        return None
    except (EvenhandError, MemoryError) as error:
        why = error.reason if isinstance(error, EvenhandError) else str(error)
        reason = visible(why).partition("\n")[0][:400].rstrip(".:") or type(error).__name__
        again = reason in content.failed.values()
        content.failed[section] = reason
        # What a model or a file says may contain personal values: only who runs the report sees it.
        said = type(error).__name__ if content.show_examples != REAL and isinstance(error, PERSONAL) else reason
        content.missing[section] = (
            "This part could not be made either, for the same reason."
            if again
            else f"This part could not be made: {said}."
        )
        return None


def _shares(content: Content) -> None:
    """Measure how common it is: from the independent draws of the run; if it made none, from others."""
    subject = content.subject
    probe, run = subject.probe, subject.run
    if probe is None:
        content.missing["common"] = subject.no_model or subject.no_data
        if subject.texts and subject.no_model and subject.no_data:
            content.missing["common data"] = subject.no_data
        return
    if run.unaware and not run.found:
        content.missing["common"] = "The rate was not measured: the model does not receive the protected attributes."
        return
    model, criterion, options = probe.model, probe.criterion, subject.options
    favourable = None if subject.texts else subject.favourable

    def measured(population: Any) -> Estimate:
        data = subject.data if population == "data" else None
        if population in own:
            return estimate_again(run, population, model, data, favourable, options.confidence, subject.draws)
        return estimate(
            model,
            run.space,
            population,
            data=data,
            samples=subject.samples,
            confidence=options.confidence,
            favourable=favourable,
            criterion=criterion,
            seed=options.seed,
        )

    populations = ["uniform"] if subject.data is None else ["data", "uniform"]
    if subject.texts:
        populations.remove("uniform")
    own = [name for name in run.estimate if name == "uniform" or subject.own_data]
    for population in populations:
        found = _tried(content, f"common {population}", lambda p=population: measured(p))  # type: ignore[misc]
        if found is not None:
            content.estimates[population] = found
    if subject.data is None:
        content.missing["common data"] = subject.no_data


def _comparisons(content: Content) -> None:
    counted = _tried(content, "comparisons", lambda: directions(content.run))
    if counted is not None:
        content.directions, content.more_directions = counted


def _texts(content: Content) -> None:
    content.terms = _tried(content, "terms", lambda: terms(content.run))
    _tried(content, "quality", lambda: _quality(content))


def _quality(content: Content) -> None:
    """Compare changed texts with the original ones, apart from the swap."""
    found = quality(content.run, at=slice(CHANGED))
    content.edited = int(found.edited.sum())
    if content.edited:
        # Vectors exist in memory only, and the report of a loaded run must be the same.
        means = found.mean.drop("distance", errors="ignore")
        content.quality = {str(name): float(mean) for name, mean in means.items()}


def _charts(content: Content) -> None:
    """Find the attributes that matter most, map the rate over two of them, and compare the scores of people."""
    # Real people first; the others only where there are no real ones.
    e = content.estimates.get("data") or content.estimates.get("uniform")
    if e is None:
        return
    content.influence = _tried(content, "map", lambda: ranked(e)) or []
    if content.show_examples != NONE:
        # The ends of its ranges come from people.
        content.map = _tried(content, "map", lambda: map_of(e, content.influence))
    content.scores = _tried(content, "scores", lambda: scores_of(content.subject, e))


def _examples(content: Content, count: int) -> None:
    """Show distinct examples near real people; otherwise findings; otherwise individuals found by an estimate."""
    subject, run, probe = content.subject, content.run, content.subject.probe
    real = content.show_examples == REAL
    if probe is not None and subject.data is not None and subject.people:
        judge = judge_of(run, probe, subject.samples * run.space.width)
        known = _tried(content, "examples", lambda: affected(content.estimates.get("data"), run.space, subject.data))
        seed = subject.options.seed
        found = _tried(content, "examples", lambda: examples_of(run, judge, subject.data, count, seed, known, real))
        if found:
            content.examples = found
            data = subject.data if real else None
            cards = _tried(content, "examples", lambda: cards_of_examples(found, data, subject.numbered, run.found))
            _finish(content, cards or [], [example.pair for example in found])
            return
    pairs: Sequence[Pair] | None = None
    if run.found:
        pairs = _tried(content, "examples", lambda: select_pairs(run, count, subject.data, content.show_examples))
    elif probe is not None and content.estimates and subject.people:
        met = [e for name, e in content.estimates.items() if real or name != "data"]
        pairs = _tried(content, "examples", lambda: pairs_met(run, probe, met, count))
    _finish(content, [card_of(pair) for pair in pairs or []], pairs or [])


def _finish(content: Content, cards: list[Card], pairs: Sequence[Pair]) -> None:
    """Put scores on the cards, and the most influential attributes first."""
    made = _tried(content, "examples", lambda: with_scores(content.subject, cards, pairs))
    content.cards = [card.ordered(content.influence) for card in made or cards]


def _places(content: Content) -> None:
    subject, run = content.subject, content.run
    if subject.probe is None:
        content.missing["regions"] = subject.no_model
        return
    model = None if run.origin is not None else subject.probe.model
    if subject.samples < FEW:
        content.missing["regions"] = (
            f"Regions need at least {FEW:,} samples: use evenhand report --samples {FEW}, or eh.regions(run)."
        )
    else:
        content.regions = _tried(
            content,
            "regions",
            lambda: regions(
                run,
                model,
                subject.data,
                subject.options.seed,
                subject.options.confidence,
                max_regions=RULES,
                samples=max(100, subject.samples // LEARNT),
                rows=individuals(subject.samples) * run.space.width,
            ),
        )
    if content.coverage is None and subject.decides:
        people = subject.data if run.origin is None else None
        content.coverage = _tried(
            content,
            "coverage",
            lambda: coverage(run, model, people, samples=_grown(run, subject.samples), seed=subject.options.seed),
        )


def _groups(content: Content) -> None:
    subject = content.subject
    if subject.probe is None or subject.data is None:
        return
    model = subject.probe.model
    if not subject.decides and not model.regression:
        try:
            # The run compared the model's numbers, so they may also be averaged.
            model = wrap(model, regression=True)
        except ModelError:
            content.missing["groups"] = (
                f"Group figures need decisions or amounts, but {plain(model.name)} returns a score: "
                "use eh.wrap(model, threshold=...)."
            )
            return
    if subject.favourable is None and not model.regression:
        content.missing["groups"] = (
            "Group figures need the favourable outcome: use evenhand report RUN --favourable OUTCOME, or "
            "eh.report(run, favourable=...)."
        )
        return
    weights = None
    if subject.part < subject.size:
        # Rows with weight 0 are skipped.
        drawn = Stream(subject.options.seed).shuffled(np.arange(subject.size), subject.size, "groups")
        weights = drawn < subject.part
    if model.regression and subject.y is not None:
        content.missing["accuracy"] = "Accuracy needs decisions, but the model returns numbers, so y was not used."
    content.groups = _tried(
        content,
        "groups",
        lambda: groups(
            model,
            subject.run.space,
            subject.data,
            subject.favourable,
            y=None if model.regression else subject.y,
            weights=weights,
            confidence=subject.options.confidence,
        ),
    )


def _grown(run: Run, samples: int) -> int:
    """Number of individuals to grow a tree from: fewer if there are many columns, but enough to cross-validate it."""
    return max(100, min(samples, max(1_000, GROWN // Inputs(run.space).columns)))


def individuals(samples: int) -> int:
    """Return the number of individuals for regions."""
    return max(REGIONS * samples, SOUGHT) if samples >= FEW else 0


def affected(e: Estimate | None, space: Space, data: Any) -> Known | None:
    """Return which rows of the data the estimate found; None without an estimate.

    The estimate itself counts how many are affected.
    """
    if e is None:
        return None
    rows = space.encode(data).individuals.rows
    found = {row.tobytes() for row in _found(e).rows}
    return Known(np.flatnonzero([row.tobytes() in found for row in rows]), e.samples, e.found)


def pairs_met(run: Run, probe: ModelProbe, estimates: Sequence[Estimate], count: int) -> list[Pair]:
    """Return some individuals that an estimate found, each with a counterpart, after testing them again."""
    people = next((found[:count] for e in estimates if len(found := _found(e))), None)
    if people is None:
        return []
    families = run.space.families(people, run.identity.seed)
    if families.valid is not None:
        # If all were tested, a family may be represented by a member that breaks the constraints.
        people = families.members(np.arange(len(people)), families.valid.argmax(axis=1))
    met = Shrunk(np.full(len(people), -1), people.rows, None, people.rows)
    return [one.example.pair for one in draft(judge_of(run, probe), met, None, None)]


def _found(e: Estimate) -> Individuals:
    """Return the individuals that an estimate found and kept."""
    kept, space = e.kept, table(e.space)
    parts = [people[np.flatnonzero(unfair)] for people, unfair in zip(kept.people, kept.unfair, strict=True)]
    return Individuals.join([space.individuals(np.zeros((0, len(space.names)), dtype=np.int32)), *parts, *kept.later])


def directions(run: Run, most: int = SHOWN) -> tuple[list[Direction], int]:
    """Count findings by values and outcomes; return the most common, and how many other directions there are."""
    space, joined = run.space, run.pairs.joined()
    if not run.found or joined["decision"].dtype.kind == "f":
        return [], 0
    columns = space.protected_columns
    one, other = (run.pairs.individuals(side).rows[:, columns] for side in ("individual", "counterpart"))
    said, other_said = (joined[name].astype(np.int64) for name in ("decision", "counterpart_decision"))
    # A pair is the same from both sides.
    place = np.argmax(one != other, axis=1)
    here = np.arange(len(one))
    turned = (one[here, place] > other[here, place])[:, None]
    first, second = np.where(turned, other, one), np.where(turned, one, other)
    decided = np.column_stack([said, other_said])
    decided = np.where(turned, decided[:, ::-1], decided)
    kinds, counts = np.unique(np.column_stack([first, second, decided]), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:most]
    width, values = len(columns), run.pairs.coding.values
    rows = np.tile(run.pairs.individuals("individual", slice(1)).rows, (2 * len(order), 1))
    rows[: len(order), columns], rows[len(order) :, columns] = kinds[order, :width], kinds[order, width : 2 * width]
    people = space.values(rows, list(space.protected))
    out = []
    for i, kind in enumerate(order.tolist()):
        sides = [{n: native(people[n][j]) for n in space.protected} for j in (i, len(order) + i)]
        differing = [n for j, n in enumerate(space.protected) if kinds[kind, j] != kinds[kind, width + j]]
        who = [listed({n: side[n] for n in differing}) for side in sides]
        outcomes = [short(values[code]) for code in kinds[kind, 2 * width :]]
        out.append(Direction(who[0], outcomes[0], who[1], outcomes[1], int(counts[kind])))
    return out, len(kinds) - len(out)


def terms(run: Run, most: int = TERMS) -> Terms:
    """Count the terms that are swapped in the findings of texts."""
    at = slice(min(run.found, TEXTS))
    texts, others = run.pairs.rows("individual", at), run.pairs.rows("counterpart", at)
    said = (
        [run.pairs.decisions(name, at).tolist() for name in ("decision", "counterpart_decision")]
        if run.found
        else [[]] * 2
    )
    decisions = sorted({short(value) for side in said for value in side})
    if len(decisions) > DECISIONS:
        decisions = []
    number = {name: i for i, name in enumerate(decisions)}
    counts: dict[str, list[int]] = {}
    for pair, *values in zip(swaps(texts, others, run.space.lexicons), *said, strict=True):
        for name, value in zip(pair, values, strict=True):
            counts.setdefault(name, [0] * max(1, len(decisions)))[number.get(short(value), 0)] += 1
    ranked = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
    listed_terms = [Term(short(name), tuple(found)) for name, found in ranked[:most]]
    return Terms(tuple(decisions), listed_terms, len(texts), max(0, len(ranked) - most))
