"""The sentences of a report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evenhand._format import native, number, plain
from evenhand.budget import StopReason
from evenhand.criteria import KINDS, Criterion, Flip, Pairwise
from evenhand.engine.unused import statement
from evenhand.errors import EvenhandError
from evenhand.estimates.pair_counts import ALL_VALUES, LOWER, Order, alike, directs, outcomes_of, spread
from evenhand.estimates.result import more
from evenhand.reports.figures import count, given, high, interval, level, listed, percent, say, short, told, written

if TYPE_CHECKING:
    from markupsafe import Markup

    from evenhand.estimates.comparisons import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.reports.content import Content
    from evenhand.reports.report import ReportInputs
    from evenhand.runs.run import Run

TEXTS = "texts like those given with a protected term"
EACH = "Each was compared with a sample of its"
NET = "Net is the first share minus the second: above zero, the first of the two is better off."
SHOWN = {
    "both ways": "differs both ways alike",
    "none found": "no difference found",
    "insufficient evidence": "insufficient evidence",
    "not received": "the model does not receive it",
}
"""Verdicts that name no group."""
ROUND = 0.001
"""Shares below this, or as close to 1, are percentages, and not so many in 1,000."""


@dataclass(frozen=True)
class Counted:
    """What a criterion counts, for each place in a sentence.

    >>> from evenhand.criteria import Gap
    >>> counted = Counted.by(Gap(0.05))
    >>> f"Changing only sex changes {counted.effect}. {counted.heading}: the model {counted.model}."
    "Changing only sex changes this model's score by more than 0.05. Scores more than 0.05 apart: the model gives scores more than 0.05 apart."
    """  # noqa: E501

    effect: str
    """What a change of a protected attribute changes."""
    heading: str
    model: str
    """What the model does."""
    told: str
    scores: bool = False
    """Whether scores decide who is ahead, and not decisions alone."""

    @classmethod
    def of(cls, run: Run) -> Counted:
        """Return the words for a run."""
        return cls.by(run.identity.criterion)

    @classmethod
    def by(cls, criterion: Criterion) -> Counted:
        """Return the words for a criterion."""
        clauses = {(c.flip, c.gamma) for c in criterion.clauses} if isinstance(criterion, Pairwise) else set()
        kind = {flip for flip, _ in clauses}, {gamma is None for _, gamma in clauses}
        least = number(min((gamma for _, gamma in clauses if gamma is not None), default=0.0), 6)
        decision, apart, score = "this model's decision", f"more than {least} apart", f"score by more than {least}"
        if kind == ({True}, {True}):
            return cls(decision, "Outcome differs", "decides differently", "decided differently")
        if kind == ({False}, {False}):
            return cls(f"this model's {score}", f"Scores {apart}", f"gives scores {apart}", "scored differently", True)
        if len(clauses) == 1:
            heading, model = f"Outcome differs, scores {apart}", f"decides differently, with scores {apart}"
            return cls(f"{decision} and its {score}", heading, model, "decided differently", True)
        if clauses == {(True, None), (False, min((g for _, g in clauses if g is not None), default=0.0))}:
            heading, model = f"Outcome differs, or scores {apart}", f"decides differently or gives scores {apart}"
            return cls(f"{decision} or its {score}", heading, model, "treated differently", True)
        return cls(
            "how this model treats people",
            "Treated differently",
            "treats them differently",
            "treated differently",
            True,
        )

    @property
    def fact(self) -> str:
        """The words for a list of settings."""
        return {"Outcome differs": "another outcome"}.get(self.heading, self.heading[0].lower() + self.heading[1:])


def protected_of(run: Run) -> str:
    """Name what is protected, as part of a sentence.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("a"), eh.Boolean("b")], protected=["a", "b"])
    >>> protected_of(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'a or b'
    """
    return " or ".join(map(plain, run.space.protected))


def change(run: Run) -> str:
    """Name the change that is tested.

    Scores are compared of any two values, and of more than two those farthest apart need not be anybody's own.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("race", ["A", "B", "C"])], protected="race")
    >>> change(eh.audit(lambda f: f["age"] / 9, space, "themis", criterion=eh.Gap(0.5)))
    'Changing race from one value to another'
    """
    what, flips = protected_of(run), run.identity.criterion == Flip()
    if run.space.supports("texts"):
        return f"Swapping only a term of {what}" if flips else f"Swapping one term of {what} for another"
    if flips or (run.space.supports("attributes") and run.space.combinations <= 2):
        return f"Changing only {what}"
    return f"Changing {what} from one value to another"


def effect(run: Run) -> str:
    """Say what is counted, within a sentence: that a change of what is protected changes what the model does."""
    text = change(run)
    return f"{text[0].lower()}{text[1:]} changes {Counted.of(run).effect}"


def verdict(run: Run, data: Estimate | None = None, uniform: Estimate | None = None, named: bool = False) -> Markup:
    """Say whether people are treated differently, and whether the model uses what is protected at all.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["age"] > 3, space, strategy="themis")
    >>> for sentence in verdict(run).striptags().split(". "):
    ...     print(sentence[:61])
    Changing only member never changes this model's decision: all
    No decision changed in 9 families, which are all that the spa
    """
    said = _answer(run, data, uniform, named)
    # What only the estimates found is no less of a finding.
    found = max(one.found for one in (run, data, uniform) if one is not None)
    noted = statement(run.space, run.unused, found, run.tests, run.scored, run.complete)
    if noted is None or run.unsteady is not None:
        return said
    note = told(replace(noted, text=f"{noted.text[:1].upper()}{noted.text[1:]}."))
    return note if run.unaware and not run.found else say("{} {}", said, note)


def _answer(run: Run, data: Estimate | None = None, uniform: Estimate | None = None, named: bool = False) -> Markup:
    """Say in one sentence whether people are treated differently, how common that is and, if known, who loses."""
    effects, texts = Counted.of(run).effect, run.space.supports("texts")
    change_of = change(run)
    lower = change_of[0].lower() + change_of[1:]
    if run.unsteady is not None:
        return say(
            "Unknown: the model is not deterministic. {} of its findings got another answer when they were tested "
            "again, so whether {} affects it cannot be determined.",
            count(run.refuted), protected_of(run),
        )  # fmt: skip
    if data is not None and uniform is not None and not data.found and uniform.found and uniform.low > 0:
        bound = say("all were tested")
        if not data.exact:
            bound = say("at most {} with {} confidence", high(data.high), level(data.confidence))
        return say(
            "{} changes {} for none of {} people in the data ({}), but for {}.",
            change_of, effects, count(data.samples), bound, _share(uniform),
        )  # fmt: skip
    best = data if data is not None and data.found else uniform if uniform is not None and uniform.found else None
    if best is not None and (best.low > 0 or texts):
        return say(
            "{} changes {} for {}{}.",
            change_of, effects, _share(best), say("") if texts else _against(best, named, Counted.of(run)),
        )  # fmt: skip
    known = data if data is not None else uniform
    most = None if known is None else say("at most {} of {} are affected", high(known.high), _people(known))
    if run.found:
        found = say("{} {}{}", count(run.found), run.space.noun, "" if run.found == 1 else "s")
        rate = "how common this is was not measured" if most is None else say("{}, by the estimate", most)
        head = change_of if run.confirmed else f"Not confirmed: {lower}"
        return say("{} changes {} for {} found by the search; {}{}.", head, effects, found, rate, _doubt(run))
    everybody = run.stop is StopReason.EXHAUSTED or (uniform is not None and uniform.exact)
    if everybody and not run.sampled and not texts:
        return say("{} never changes {}: all valid individuals were tested.", change_of, effects)
    bound = say("") if most is None else say("; {}, by the estimate", most)
    return say("None found: in {}, {} never changed {}{}.", _tests(run), lower, effects, bound)


def _doubt(run: Run) -> Markup:
    if not run.unconfirmed:
        return say("")
    return say("; {} of {} were not tested again, so not confirmed", count(run.unconfirmed), count(run.found))


def _people(e: Estimate) -> str:
    """Name the population of an estimate."""
    if e.space.supports("texts"):
        return TEXTS
    if e.population == "data":
        return "the people in the data" if e.exact else "people"
    return "all valid individuals" if e.exact else "synthetic people"


def _share(e: Estimate) -> Markup:
    if e.exact:
        return say("{} of {} (all were tested)", percent(e.rate), _people(e))
    if e.low < ROUND or e.high > 1 - ROUND:
        rate = say("{} of {}", percent(e.rate), _people(e))
        return say("about {} ({} CI {})", rate, level(e.confidence), interval(e.low, e.high))
    ends = written(e.low, "thousandths_low"), written(e.high, "thousandths_high")
    rate = written(e.rate, "in_thousand")
    return say("about {} {} ({} CI {} to {})", rate, _people(e), level(e.confidence), *ends)


def _against(e: Estimate, named: bool, counted: Counted) -> Markup:
    """Say who loses, or of several who loses most, where it is known what people want."""
    pairs = [c for c in e.comparisons if len(c.first) == 1]
    by = _by(e, pairs)
    clear = [c for c in pairs if c.net is not None and c.verdict.startswith("favours")]
    if not named or not clear:
        return by
    worst = max(clear, key=lambda c: abs(c.net or 0.0))
    loser, winner = (worst.second, worst.first) if worst.verdict == "favours first" else (worst.first, worst.second)
    beside = say(", compared with {}", given(listed(winner))) if len(pairs) > 1 else ""
    if counted.scores and not directs(e.favourable):
        return say(", most often with {} behind{}{}", given(listed(loser)), beside, by)
    return say(", most often to the disadvantage of {}{}{}", given(listed(loser)), beside, by)


def _by(e: Estimate, pairs: list[Comparison]) -> Markup:
    """Say which pair's numbers differ most, and by how much, where that is clear."""

    def sure(c: Comparison) -> bool:
        low, high = c.difference_low, c.difference_high
        return low is not None and high is not None and (low > 0 or high < 0)

    clear = [c for c in pairs if sure(c)]
    most = max(clear, key=lambda c: abs(c.difference or 0.0), default=None)
    sentence = None if most is None else more(most, e.score_of, e.confidence)
    return say("") if sentence is None else say("; {}", told(sentence))


def measured_on(content: Content) -> Markup:
    """Say what the shares were measured on."""
    said = []
    if "data" in content.estimates:
        said.append(_as_they_are(content.estimates["data"]))
    if "uniform" in content.estimates:
        exact = content.estimates["uniform"].exact
        said.append(say(f"on {'all valid individuals' if exact else 'uniform random individuals of the space'}"))
    on = ", and ".join(["{}"] * len(said))
    return say(f"It is measured {on}; the search, which looks for findings, plays no part in it.", *said)


def _as_they_are(e: Estimate) -> Markup:
    """Say how the rows were tested: those beyond the space's bounds are moved."""
    if e.space.supports("texts"):
        return say("on the texts as they are")
    clipped, rows = (e.counts.get(name, 0) for name in ("clipped", "rows"))
    said = say("on rows of the data as they are")
    if not clipped:
        return said
    moved = "{} but for {} of {}, which were moved to the nearest bound of the space"
    return say(moved, said, count(clipped), count(rows))


def spread_out(run: Run) -> list[str]:
    """Say which protected attributes have too many values to compare all of them.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Boolean("member"), eh.Integer("age", 20, 90)], protected="age")
    >>> spread_out(eh.audit(lambda f: f["age"] > 30, space, strategy="themis", budget=eh.Budget(tests=1)))
    ['age has 71 values: these comparisons use five of them (20, 38, 55, 72 and 90).']
    """
    out = []
    for name, column in zip(run.space.protected, run.space.protected_columns, strict=True):
        size, present = run.space.coding.sizes[column], int(run.space.present[column])
        if size > ALL_VALUES:
            codes = np.array(spread(size, present))
            values = [short(native(value)) for value in run.space.attributes[column].decode(codes)]
            out.append(
                f"{plain(name)} has {present:,} values: these comparisons use five of them "
                f"({', '.join(values[:-1])} and {values[-1]})."
            )
    return out


def remarks(e: Estimate) -> list[Markup]:
    """Say what a reader of an estimate has to know besides its numbers."""
    dropped, rows, alone = (e.counts.get(name, 0) for name in ("dropped", "rows", "untestable"))
    out = []
    if dropped and e.space.supports("texts"):
        out.append(say("{} of the {} texts are missing.", count(dropped), count(rows)))
    elif dropped:
        are = "is outside the space and was" if dropped == 1 else "are outside the space and were"
        out.append(say("{} of the {} rows of the data {} left out.", count(dropped), count(rows), are))
    if e.space.supports("texts") and alone:
        out.append(say("{} of the {} texts have no term that can be swapped: left out.", count(alone), count(rows)))
    if e.sampled:
        who = "Some were compared with a sample of their" if e.space.supports("texts") else EACH
        out.append(say("{} counterparts only, so the shares may be higher.", who))
    if e.repeats > 1:
        noise = (
            "The model is not deterministic: {} of the rows queried twice got two answers. Each row was queried {} "
            "times and the most frequent answer counts."
        )
        out.append(say(noise, percent(e.noise), count(e.repeats)))
    return out


def slow(subject: ReportInputs) -> list[Markup]:
    """Say that a slow model was queried less, so that the report did not take long."""
    if not subject.slow or subject.probe is None:
        return []
    fewer = "The model is slow, so each estimate has at most {} samples; {} takes more."
    return [say(fewer, count(subject.samples), say("<code>evenhand report RUN --samples N</code>"))]


def asked(e: Estimate) -> Markup:
    """Say how many were tested, of how many rows or texts, and how many of them are affected."""
    texts = e.space.supports("texts")
    of = say("")
    if e.population == "data" and "rows" in e.counts and e.counts["rows"] >= e.samples:
        of = say(" of {} {}", count(e.counts["rows"]), "texts" if texts else "rows")
    return say("{}{}, {} of them treated differently", count(e.samples), of, count(e.found))


def ended(run: Run) -> str:
    """Say why a run ended."""
    return "all valid individuals were tested" if run.stop is StopReason.EXHAUSTED else run.stop.words


def aimed(run: Run) -> Markup:
    """Say what findings per test mean.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> print(aimed(eh.audit(lambda f: f["age"] > 3, space, strategy="themis")))
    in 9 tests, which is the whole space
    """
    if run.stop is StopReason.EXHAUSTED:
        return say("in {}, which is the whole space", _tests(run))
    return say("in {}: how well the search aims, not how common this is", _tests(run))


def rising(runs: Sequence[Run]) -> str:
    """Say what a curve that still rises at its end means, where there is one that could go on."""
    ends = {run.stop for run in runs}
    if ends <= {StopReason.EXHAUSTED}:
        return "All valid individuals were tested, so there is nothing more to find."
    if ends <= {StopReason.EXHAUSTED, StopReason.FINISHED}:
        return "The search has finished."
    return "Where a curve is still rising at its end, a longer search may find more."


def named(run: Run) -> str:
    """Name the model; a function may have no name.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> named(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'A function without a name'
    """
    name = plain(run.identity.model)
    return "A function without a name" if name == "<lambda>" else name


def call_of(run: Run, threshold: float | None = None) -> str:
    """Write the call that makes the run again.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> call_of(eh.audit(lambda f: f["age"] > 3, space, strategy="themis", budget=eh.Budget(tests=9)))[:32]
    'eh.audit(model, space, eh.Themis'
    """
    limits = ", ".join(f"{name}={value!r}" for name, value in vars(run.budget).items() if value is not None)
    data = ", data=data" if run.identity.data else ""
    model = "model" if threshold is None else f"eh.wrap(model, threshold={threshold!r})"
    criterion = re.sub(rf"\b({'|'.join(KINDS)})\(", r"eh.\1(", repr(run.identity.criterion))
    return (
        f"eh.audit({model}, space, {_strategy(run)}, eh.Budget({limits}), seed={run.identity.seed}, "
        f"criterion={criterion}{data})"
    )


def _strategy(run: Run) -> str:
    from evenhand.plugins import is_spec
    from evenhand.strategies import STRATEGIES, known, make

    name, settings = run.identity.search, run.identity.settings
    try:
        if name in STRATEGIES:
            return f"eh.{make(name, **settings)!r}"
        if known(name) is None and not is_spec(name):
            return f"{name}(...)"
    except (EvenhandError, TypeError):
        return repr(name)
    given = "".join(f", {key}={value!r}" for key, value in settings.items() if key.isidentifier())
    return f"evenhand.strategies.make({name!r}{given})"


def _tests(run: Run) -> Markup:
    return say("{} {}", count(run.tests), "test" if run.tests == 1 else "tests")


def numbers(subject: ReportInputs) -> bool:
    """Whether what people want is a number, and no decision."""
    return not subject.decides or directs(subject.favourable)


def wanted(subject: ReportInputs) -> str:
    """Name the outcome that the figures are for: decisions or, where the model gives numbers alone, a score.

    A number may be named by the decision that it stands for: 1 for a higher one, 0 for a lower one.
    """
    if numbers(subject):
        lower = subject.favourable == LOWER or alike(0, subject.favourable)
        return f"a {'lower' if lower else 'higher'} {'number' if subject.regression else 'score'}"
    if isinstance(subject.favourable, Order):
        return "a better outcome"
    return " or ".join(f"“{short(one)}”" for one in outcomes_of(subject.favourable))


def sides(subject: ReportInputs, counted: Counted) -> tuple[str, str]:
    """Give the headings for how often the first, and the second, of a pair fares better."""
    if numbers(subject):
        return "First favoured", "Second favoured"
    if isinstance(subject.favourable, Order):
        return "First gets better", "Second gets better"
    if counted.scores:
        return "First ahead", "Second ahead"
    return "Only the first gets it", "Only the second gets it"


def explained(subject: ReportInputs, counted: Counted) -> Markup:
    """Say what the columns of a directed comparison count, and what the sign of the net means."""
    what = given(wanted(subject))
    if numbers(subject):
        return say(
            "The favourable outcome is {}; of two who are treated differently, the one who gets it is favoured. {}",
            what,
            NET,
        )
    if isinstance(subject.favourable, Order):
        order = given(", ".join(f"“{short(one)}”" for one in subject.favourable.outcomes))
        ranked = "Outcomes from worst to best: {}. Of two, the one with the better outcome is favoured. {}"
        return say(ranked, order, NET)
    if subject.named:
        several = len(outcomes_of(subject.favourable)) > 1
        head = say("The favourable {} {}.", "outcomes are" if several else "outcome is", what)
    else:
        head = say("No favourable outcome was set; figures are for {}.", what)
    if counted.scores:
        head += say(
            " Of two who are treated differently, the one ahead is the only one to get {} or, if both get the same "
            "outcome, has the higher score for {}; being behind need not mean another outcome.",
            what,
            what,
        )
    return say("{} {}", head, NET)


def shown(c: Comparison, content: Content, e: Estimate) -> Markup:
    """Say what a comparison shows: who fares better, and of numbers how much more one gets.

    The words follow from the intervals beside them.
    """
    subject, counted = content.subject, Counted.of(content.run)
    if counted.scores and not numbers(subject) and not isinstance(subject.favourable, Order):
        gets = "is ahead" if subject.named else f"is ahead for {wanted(subject)}"
    else:
        gets = "is favoured" if subject.named else f"gets {wanted(subject)} more often"
    sentence = more(c, e.score_of, e.confidence)
    how_much = None if sentence is None else told(sentence)
    if c.verdict == "different" and how_much is not None:
        return how_much
    if c.verdict.startswith("favours"):
        said = say("{} {}", given(listed(c.first if c.verdict == "favours first" else c.second)), given(gets))
    else:
        said = say("{}", {"different": counted.told, **SHOWN}[c.verdict])
    return said if how_much is None or c.verdict == "not received" else say("{}; {}", said, how_much)
