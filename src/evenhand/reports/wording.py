"""The sentences of a report."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand import __version__, _format
from evenhand._format import number, plain, round_number
from evenhand.budget import StopReason
from evenhand.criteria import KINDS, Criterion, Flip, Pairwise
from evenhand.engine.judge import statement
from evenhand.errors import EvenhandError
from evenhand.estimates.pair_counts import ALL_VALUES, LOWER, Order, alike, directs, outcomes_of, spread
from evenhand.estimates.result import Estimate, more
from evenhand.reports.figures import count, given, high, interval, level, linked, listed, percent, say, short, written
from evenhand.runs.reading import reading_of
from evenhand.runs.replay import Source
from evenhand.runs.run import Run, RunEstimate
from evenhand.spaces.frames import native

if TYPE_CHECKING:
    from markupsafe import Markup

    from evenhand.estimates.favoured import Comparison
    from evenhand.estimates.pair_counts import Term
    from evenhand.reports.content import Content
    from evenhand.reports.report import ReportInputs
    from evenhand.runs.run import Run

Measured = Estimate | RunEstimate
"""How common it is, as ``estimate`` says it or as the run itself does."""
TEXTS = "texts like those given with a protected term"
EACH = "Each was compared with a sample of its"
NET = "Net is the first share minus the second: above zero, the first of the two is better off."
SHOWN = {
    "both ways": "differs equally in both directions",
    "none found": "no difference found",
    "insufficient evidence": "insufficient evidence",
    "not received": "the model does not receive it",
}
"""Verdicts that name no group."""
SURE = 0.01
"""Without findings, an estimate below this is enough to say that none was found."""
SAME = 1e-9
"""Amounts are the decisions of a regression: the gap is their difference, but for this rounding."""
ROUND = 0.001
"""Shares this close to 1 are written as percentages only, not as so many people."""


@dataclass(frozen=True)
class Counted:
    """What a criterion counts, for each place in a sentence.

    >>> from evenhand.criteria import Gap
    >>> counted = Counted.by(Gap(0.05))
    >>> f"Changing only sex changes {counted.effect}: it {counted.model}."
    "Changing only sex changes this model's score by more than 0.05: it gives scores more than 0.05 apart."
    """

    effect: str
    """What changes with a protected attribute."""
    heading: str
    model: str
    """What the model does."""
    words: str
    scores: bool = False
    """Whether scores, and not only decisions, show who is ahead."""

    @classmethod
    def of(cls, run: Run) -> Counted:
        """Return the words for a run."""
        return cls.by(run.identity.criterion, noun=score_noun(run))

    @classmethod
    def by(cls, criterion: Criterion, noun: str = "score") -> Counted:
        """Return the words for a criterion; the noun is what the model's number is called."""
        clauses = {(c.flip, c.gamma) for c in criterion.clauses} if isinstance(criterion, Pairwise) else set()
        kind = {flip for flip, _ in clauses}, {gamma is None for _, gamma in clauses}
        least = number(min((gamma for _, gamma in clauses if gamma is not None), default=0.0), 6)
        decision, apart, score = "this model's decision", f"more than {least} apart", f"{noun} by more than {least}"
        if kind == ({True}, {True}):
            return cls(decision, "Outcome differs", "decides differently", "decided differently")
        if kind == ({False}, {False}):
            words = f"{noun.capitalize()}s {apart}", f"gives {noun}s {apart}"
            return cls(f"this model's {score}", *words, "scored differently", True)
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
        """The words in a list of settings."""
        return {"Outcome differs": "a different outcome"}.get(self.heading, self.heading[0].lower() + self.heading[1:])


def score_noun(run: Run) -> str:
    """Return what a model's number is called: an amount, if it is the decision and may be above 1."""
    if not run.found or not run.space.supports("attributes"):
        return "score"
    one, other = (run.pairs.decisions(side, slice(1)) for side in ("decision", "counterpart_decision"))
    gap = run.pairs.joined().get("gap")
    if one.dtype.kind != "f" or gap is None or max(abs(one[0]), abs(other[0])) <= 1:
        return "score"
    return "amount" if abs(abs(one[0] - other[0]) - gap[0]) <= SAME * abs(gap[0]) else "score"


MANY = 1_000
"""With fewer individuals, shares are percentages: "1,500 in 100,000" would suggest more than were tested."""
STATUS = {"found": "Discrimination found", "none": "None found", "unclear": "Inconclusive"}
LOOKS_PROTECTED = re.compile(
    r"(?<![a-z])(sex|gender|age|birth|race|ethnic\w*|nationality|national\w* origin|native|citizen\w*|country|religion|"
    r"faith|disab\w*|marital|married|relationship|orientation|pregnan\w*|parent\w*|foreign\w*|migrant\w*|language)(?![a-z])"
)
"""Names of attributes that laws often protect."""


def status(run: Run, measured: Mapping[str, Measured]) -> tuple[str, str]:
    """Return the status of a run, and its words: found, none found, or inconclusive."""
    if run.unsteady is not None:
        kind = "unclear"
    elif run.confirmed or any(e.low > 0 for e in measured.values()):
        kind = "found"
    elif run.found or run.stop is StopReason.INTERRUPTED:
        kind = "unclear"
    else:
        sure = run.complete or run.unaware or any(e.high <= SURE for e in measured.values())
        kind = "none" if sure else "unclear"
    return kind, STATUS[kind]


def next_steps(content: Content) -> list[Markup]:
    """Say what to do now, in three steps that fit the case."""
    run, subject = content.run, content.subject
    kind, place = status(run, content.rates)[0], "RUN" if run.directory is None else shlex.quote(str(run.directory))
    rows = "--texts FILE" if subject.texts else "--data FILE"
    if kind == "found":
        steps = [
            say("Show the examples to people who know these decisions: does anything justify the difference?"),
            say("Make a fairer model: <code>{}</code> compares ways to do it.",
                "eh.repair" if subject.texts else "evenhand repair"),
            say("Keep it from coming back: check each new version with <code>evenhand audit --fail-above</code>."),
        ]  # fmt: skip
        if subject.data is None:
            steps[1:1] = [say("Measure it among real people: <code>evenhand report {} {}</code>.", given(place), rows)]
    elif run.unsteady is not None:
        steps = [
            say("Make the predictions reproducible: fix seeds, switch dropout off, do not mix batches."),
            say("Audit again in a new directory."),
            say("If the noise must stay, <code>evenhand estimate</code> repeats each query and measures it."),
        ]
    elif kind == "none":
        proxies = "Look for indirect effects: the group figures below compare how the groups fare."
        if content.groups is None:
            proxies = (
                "Look for indirect effects: <code>evenhand report {} {} --favourable DECISION</code> compares groups."
            )
        others = not_audited(run)
        steps = [
            say(proxies, *([] if content.groups is not None else [given(place), rows])),
            say("Check whether other attributes need an audit{}.", given(f": {', '.join(others)}") if others else ""),
            say("Audit again when the model or the data change."),
        ]
    else:
        steps = [
            say("Complete the run: the same call with the same directory continues it and confirms its findings.")
            if run.unconfirmed and run.directory is not None
            else say("Search longer: a larger budget continues the run where it ended."),
            say("Measure how common it is with more samples: <code>evenhand estimate</code>."),
            say("Start from real people: <code>{}</code>.", rows),
        ]
    return steps[:3]


def strip(content: Content) -> list[tuple[str, Markup]]:
    """Say which model and data, when, who audits and why; what is not known is left out."""
    from markupsafe import Markup

    run, subject = content.run, content.subject
    about, source = run.about, Source.stored(run)
    model, data = run.identity.model_sha256 or source.model_sha256, source.data_sha256
    name = subject.data_name or source.data or ""
    said = {
        "Model": say("{}{}", given(named(run)), _hash(model)),
        "Data": say("{}{}", given(short(name)), _hash(data)) if name else "",
        "Data description": about.data_description,
        "Date": (about.started or "").replace("T", " ").replace("+00:00", " UTC"),
        "Auditor": about.auditor,
        "Purpose": about.purpose,
        "Made with": f"evenhand {run.versions.get('evenhand', __version__)}",
    }
    return [(name, value if isinstance(value, Markup) else given(value)) for name, value in said.items() if value]


def _hash(sha256: str | None) -> Markup:
    return say("") if sha256 is None else say(' <small data-source="input">SHA-256 {}…</small>', sha256[:16])


def not_audited(run: Run) -> list[str]:
    """Name attributes that look protected and were not audited."""
    if not run.space.supports("attributes"):
        return []
    return [plain(name) for name in run.space.free if LOOKS_PROTECTED.search(re.sub(r"[_\W]+", " ", name).lower())]


def headline(run: Run) -> str:
    """Write the verdict as text, for a terminal."""
    return str(verdict(run).striptags())


def protected_of(run: Run) -> str:
    """Name the protected attributes, as part of a sentence."""
    return " or ".join(map(plain, run.space.protected))


def change(run: Run) -> str:
    """Name the tested change.

    Scores are compared between any two values; with more than two, the values farthest apart may both not be the
    individual's own.
    """
    what, flips = protected_of(run), run.identity.criterion == Flip()
    if run.space.supports("texts"):
        return f"Swapping only a term of {what}" if flips else f"Swapping one term of {what} for another"
    if flips or (run.space.supports("attributes") and run.space.combinations <= 2):
        return f"Changing only {what}"
    return f"Changing {what} from one value to another"


def effect(run: Run) -> str:
    """Describe what is counted, as part of a sentence."""
    text = change(run)
    return f"{text[0].lower()}{text[1:]} changes {Counted.of(run).effect}"


def verdict(run: Run, data: Measured | None = None, uniform: Measured | None = None, named: bool = False) -> Markup:
    """Write whether people are treated differently, and whether the model uses the protected attributes at all.

    Without estimates, those of the run itself count.
    """
    said, note = answer(run, data, uniform, named)
    return note if not said else say("{} {}", said, note) if note else said


def answer(
    run: Run, data: Measured | None = None, uniform: Measured | None = None, named: bool = False
) -> tuple[Markup, Markup]:
    """Write both parts of the verdict; either may be empty."""
    if data is None and uniform is None:
        data, uniform = run.estimate.get("data"), run.estimate.get("uniform")
    said = _answer(run, data, uniform, named)
    # Findings of the estimates alone also count.
    found = max(one.found for one in (run, data, uniform) if one is not None)
    noted = statement(run.space, run.unused, found, run.tests, run.scored, run.complete)
    if noted is None or run.unsteady is not None:
        return said, say("")
    note = linked(replace(noted, text=f"{noted.text[:1].upper()}{noted.text[1:]}."))
    return say("") if run.unaware and not run.found else said, note


def _answer(run: Run, data: Measured | None, uniform: Measured | None, named: bool) -> Markup:
    """Write in one sentence whether people are treated differently, how common that is and, if known, who loses."""
    effects, texts = Counted.of(run).effect, run.space.supports("texts")
    change_of = change(run)
    lower = change_of[0].lower() + change_of[1:]
    if run.unsteady is not None:
        again = say("It gave two answers to the same individuals")
        if run.refuted:
            again = say("{} of its findings got a different answer when they were tested again", count(run.refuted))
        return say(
            "Unknown: the model is not deterministic. {}, so whether {} affects it cannot be determined.",
            again, protected_of(run),
        )  # fmt: skip
    if data is not None and uniform is not None and not data.found and uniform.found and uniform.low > 0:
        bound = say("all were tested")
        if not data.exact:
            bound = say("at most {} with {} confidence", high(data.high), level(data.confidence))
        return say(
            "{} changes {} for none of {} people in the data ({}), but for {}.",
            change_of, effects, count(data.samples), bound, _share(uniform, texts),
        )  # fmt: skip
    best = next((e for e in (data, uniform) if e is not None and e.found and (e.low > 0 or texts)), None)
    if best is not None:
        return say(
            "{} changes {} for {}{}.",
            change_of, effects, _share(best, texts),
            _extremes(best) if texts else _against(best, named, Counted.of(run)),
        )  # fmt: skip
    known = data if data is not None else uniform
    most = None if known is None else _at_most(known, texts)
    if run.found:
        found = say("{} {}{}", count(run.found), run.space.noun, "" if run.found == 1 else "s")
        rate = "how common this is was not measured" if most is None else most
        head = change_of if run.confirmed else f"Not confirmed: {lower}"
        return say("{} changes {} for {} found by the search; {}{}.", head, effects, found, rate, _doubt(run))
    everybody = run.stop is StopReason.EXHAUSTED or (uniform is not None and uniform.exact)
    if everybody and not run.sampled and not texts:
        return say("{} never changes {}: all valid individuals were tested.", change_of, effects)
    bound = say("") if most is None else say("; {}", most)
    return say("None found: in {}, {} never changed {}{}.", _tests(run), lower, effects, bound)


def _at_most(e: Measured, texts: bool) -> Markup:
    """Write the upper end of an estimate."""
    if not e.found and not e.exact:
        # The samples of the estimate are not the tests of the search.
        whole = f"text{'s' * (e.samples != 1)}" if texts else "person" if e.samples == 1 else "people"
        where = "with a protected term" if texts else "in the data" if e.population == "data" else "drawn at random"
        return say("of {} {} {}, none is affected, so at most {} are ({} confidence)",
                   count(e.samples), whole, where, _bound(e, ""), level(e.confidence))  # fmt: skip
    return say("at most {} are affected ({} confidence)", _bound(e, _people(e, texts)), level(e.confidence))


def _bound(e: Measured, who: str) -> Markup:
    """Write the upper end of an estimate, of these people if they are named."""
    if e.samples < MANY:
        return say("{} of {}", high(e.high), who) if who else high(e.high)
    most = written(e.high, "people_high")
    return say("{} {}", most, who) if who else most


def _doubt(run: Run) -> Markup:
    if not run.unconfirmed:
        return say("")
    return say("; {} of {} were not tested again, so not confirmed", count(run.unconfirmed), count(run.found))


def _people(e: Measured, texts: bool) -> str:
    """Name the population of an estimate."""
    if texts:
        return TEXTS
    if e.population == "data":
        return "the people in the data" if e.exact else "people in the data" if "rows" in e.about else "people"
    return "all valid individuals" if e.exact else "synthetic people"


def _share(e: Measured, texts: bool) -> Markup:
    if e.exact:
        return say("{} of {} (all were tested)", percent(e.rate), _people(e, texts))
    if e.high > 1 - ROUND or e.samples < MANY:
        rate = percent(e.rate), _people(e, texts)
        return say("about {} of {} ({} CI {})", *rate, level(e.confidence), interval(e.low, e.high))
    of = round_number(*(_format.percent(e.rate), _format.low(e.low), _format.high(e.high)))
    low, top = written(e.low, f"people_low:{of}"), written(e.high, f"people_high:{of}")
    return say("about {} {} ({} CI {} to {})", written(e.rate, f"people:{of}"), _people(e, texts),
               level(e.confidence), low, top)  # fmt: skip


def _against(e: Measured, named: bool, counted: Counted) -> Markup:
    """Write who loses, or who loses most, if the favourable outcome is known."""
    if isinstance(e, RunEstimate) or not hasattr(e, "comparisons"):
        # A path to one does not tell its class.
        return say("")
    pairs = [c for c in e.comparisons if len(c.first) == 1]
    by = _by(e, pairs)
    clear = [c for c in pairs if c.net is not None and c.verdict.startswith("favours")]
    if not clear:
        return by
    worst = max(clear, key=lambda c: abs(c.net or 0.0))
    loser, winner = (worst.second, worst.first) if worst.verdict == "favours first" else (worst.first, worst.second)
    if not named:
        if counted.scores or directs(e.favourable):
            return by
        got = " or ".join(f"“{short(one)}”" for one in outcomes_of(e.favourable))
        return say("; {} gets {} more often than {}{}", given(listed(winner)), given(got), given(listed(loser)), by)
    beside = say(", compared with {}", given(listed(winner))) if len(pairs) > 1 else ""
    if counted.scores and not directs(e.favourable):
        return say(", most often with {} behind{}{}", given(listed(loser)), beside, by)
    return say(", most often to the disadvantage of {}{}{}", given(listed(loser)), beside, by)


def _extremes(e: Measured) -> Markup:
    """Name the terms with which texts are treated most differently."""
    terms = [] if isinstance(e, RunEstimate) or not hasattr(e, "terms") else in_order(e.terms)
    if len(terms) < 2:
        return say("")
    one, other = terms[0], terms[-1]
    if one.difference is not None and other.difference is not None:
        apart = "; with {} the score is {} higher than with the other terms, with {} {} lower"
        if one.difference <= 0 or other.difference >= 0:
            return say("")
        up, down = written(one.difference, "size"), written(other.difference, "size")
        return say(apart, given(_quoted(one)), up, given(_quoted(other)), down)
    last = len(one.shares) - 1
    if last < 0 or one.shares[last][1] == other.shares[last][1]:
        return say("")
    (decision, most), (_, least) = one.shares[last], other.shares[last]
    told = "; the decision is {} for {} with {}, and for {} with {}"
    parts = percent(most), given(_quoted(one)), percent(least), given(_quoted(other))
    return say(told, given(f"“{short(decision)}”"), *parts)


def _quoted(term: Any) -> str:
    return f"“{short(term.term)}”"


def in_order(terms: Sequence[Term]) -> list[Term]:
    """Sort terms by the scores with them, or by how often they have the last decision."""

    def place(term: Term) -> float:
        if term.difference is not None:
            return term.difference
        return term.shares[-1][1] if term.shares else term.mean or 0.0

    return sorted(terms, key=lambda term: -place(term))


def _by(e: Estimate, pairs: list[Comparison]) -> Markup:
    """Write which pair's numbers differ most, and by how much, if that is clear."""

    def sure(c: Comparison) -> bool:
        low, high = c.difference_low, c.difference_high
        return low is not None and high is not None and (low > 0 or high < 0)

    clear = [c for c in pairs if sure(c)]
    most = max(clear, key=lambda c: abs(c.difference or 0.0), default=None)
    sentence = None if most is None else more(most, e.score_of, e.confidence)
    return say("") if sentence is None else say("; {}", linked(sentence))


def measured_on(content: Content) -> Markup:
    """Write what the shares were measured on."""
    said = []
    if "data" in content.rates:
        said.append(_as_they_are(content))
    if "uniform" in content.rates:
        exact = content.rates["uniform"].exact
        said.append(say(f"on {'all valid individuals' if exact else 'uniform random individuals of the space'}"))
    on = ", and ".join(["{}"] * len(said))
    return say(f"It is measured {on}; the search is not part of it.", *said)


def _as_they_are(content: Content) -> Markup:
    """Write how the rows were tested: those outside the space's bounds are moved."""
    if content.subject.texts:
        return say("on the texts as they are")
    said = say("on rows of the data as they are")
    if "data" not in content.estimates:
        return said
    clipped, rows = (content.estimates["data"].counts.get(name, 0) for name in ("clipped", "rows"))
    if not clipped:
        return said
    moved = "{} except {} of {}, which were moved to the nearest bound of the space"
    return say(moved, said, count(clipped), count(rows))


def spread_out(run: Run) -> list[str]:
    """Write which protected attributes have too many values to compare all of them."""
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


def read(run: Any) -> list[Markup]:
    """Say how many of the findings of texts a reader found sound, if somebody read some."""
    reading = reading_of(run) if isinstance(run, Run) else None
    if reading is None:
        return []
    shares = (percent(share) for share in (reading.precision, *reading.interval))
    words = "A reader found {} of {} findings sound: precision {} (95% CI {} to {})."
    return [say(words, count(reading.sound), count(reading.read), *shares)]


def remarks(e: Estimate) -> list[Markup]:
    """Write what a reader must know about an estimate besides its numbers."""
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
    if not e.exact and e.families < e.samples:
        part = "The model is slow, so who gains and who loses is measured on the first {} of the {} only."
        out.append(say(part, count(e.families), count(e.samples)))
    if e.repeats > 1:
        noise = (
            "The model is not deterministic: {} of the rows queried twice got two answers. Each row was queried {} "
            "times and the most frequent answer counts."
        )
        out.append(say(noise, percent(e.noise), count(e.repeats)))
    return out


def every_row(e: Measured) -> bool:
    """Whether all rows of the data were tested, so that the share among them is exact."""
    if isinstance(e, RunEstimate) or not hasattr(e, "counts"):
        return bool(e.all_rows)  # type: ignore[union-attr]
    left_out = ("dropped", "untestable", "left_out")
    rows = e.counts.get("rows", 0) - sum(e.counts.get(name, 0) for name in left_out)
    return e.population == "data" and not e.exact and not e.sampled and e.samples == rows


def exact_for_rows(texts: bool) -> Markup:
    """Write what is known after all rows were tested."""
    whole = "texts" if texts else "rows of the data"
    exact = "All {} were tested, so the share among them is exact; the interval is for the population behind them."
    return say(exact, whole)


def slow(subject: ReportInputs) -> list[Markup]:
    """Write that a slow model was queried less, so that the report does not take long."""
    if not subject.slow or subject.probe is None:
        return []
    fewer = "The model is slow, so each part of this report draws at most {} individuals; {} takes more."
    return [say(fewer, count(subject.samples), say("<code>evenhand report RUN --samples N</code>"))]


def asked(e: Measured) -> Markup:
    """Write how many were tested, of how many rows or texts, and how many of them are affected."""
    if isinstance(e, RunEstimate) or not hasattr(e, "counts"):
        return say("{}, {} of them treated differently", count(e.samples), count(e.found))
    texts = e.space.supports("texts")
    of = say("")
    if e.population == "data" and "rows" in e.counts and e.counts["rows"] >= e.samples:
        of = say(" of {} {}", count(e.counts["rows"]), "texts" if texts else "rows")
    return say("{}{}, {} of them treated differently", count(e.samples), of, count(e.found))


def ended(run: Run) -> str:
    """Write why a run ended."""
    return "all valid individuals were tested" if run.stop is StopReason.EXHAUSTED else run.ended


def aimed(run: Run) -> Markup:
    """Write what findings per test mean, and how many findings are not confirmed."""
    whole = run.stop is StopReason.EXHAUSTED
    means = ", which is the whole space" if whole else ": this measures the search, not how common discrimination is"
    doubt = say("")
    if run.unconfirmed:
        doubt = say("; {} are not confirmed", count(run.unconfirmed)) if run.confirmed else say("; none is confirmed")
    return say("in {}{}{}", _tests(run), means, doubt)


def rising(runs: Sequence[Run]) -> str:
    """Write what a curve that still rises at its end means, if the search could continue."""
    ends = {run.stop for run in runs}
    if ends <= {StopReason.EXHAUSTED}:
        return "All valid individuals were tested, so there is nothing more to find."
    if ends <= {StopReason.EXHAUSTED, StopReason.FINISHED}:
        return "The search has finished."
    return "Where a curve is still rising at its end, a longer search may find more."


def named(run: Run) -> str:
    """Return the model's name; a function may have none."""
    name = plain(run.identity.model)
    return "A function without a name" if name == "<lambda>" else name


def call_of(run: Run, threshold: float | None = None) -> str:
    """Write the call that repeats the run."""
    limits = ", ".join(f"{name}={value!r}" for name, value in vars(run.budget).items() if value is not None)
    data = ", data=data" if run.identity.data else ""
    model = "model" if threshold is None else f"eh.wrap(model, threshold={threshold!r})"
    return (
        f"eh.audit({model}, space, {_strategy(run)}, eh.Budget({limits}), seed={run.identity.seed}, "
        f"criterion={_code(run.identity.criterion)}{data})"
    )


def _code(value: Any) -> str:
    """Write a criterion as Python."""
    if type(value).__name__ not in KINDS:
        return repr(value)
    return f"eh.{type(value).__name__}({', '.join(f'{name}={_code(part)}' for name, part in vars(value).items())})"


def _strategy(run: Run) -> str:
    from evenhand.plugins import is_spec
    from evenhand.strategies import STRATEGIES, known

    name, settings = run.identity.search, run.identity.settings
    given = ", ".join(f"{key}={value!r}" for key, value in settings.items() if key.isidentifier())
    if name in STRATEGIES:
        return f"eh.{STRATEGIES[name].__name__}({given})"
    try:
        if known(name) is None and not is_spec(name):
            return f"{name}(...)"
    except EvenhandError:
        return repr(name)
    return f"evenhand.strategies.make({name!r}{given and ', ' + given})"


def _tests(run: Run) -> Markup:
    return say("{} {}", count(run.tests), "test" if run.tests == 1 else "tests")


def numbers(subject: ReportInputs) -> bool:
    """Whether the favourable outcome is a number, not a decision."""
    return not subject.decides or directs(subject.favourable)


def wanted(subject: ReportInputs) -> str:
    """Name the outcome that the figures are for: decisions or, if the model returns numbers, a score.

    A number may be named by a decision: 1 for a higher number, 0 for a lower one.
    """
    if numbers(subject):
        lower = subject.favourable == LOWER or alike(0, subject.favourable)
        return f"a {'lower' if lower else 'higher'} {'number' if subject.regression else 'score'}"
    if isinstance(subject.favourable, Order):
        return "a better outcome"
    return " or ".join(f"“{short(one)}”" for one in outcomes_of(subject.favourable))


def sides(subject: ReportInputs, counted: Counted) -> tuple[str, str]:
    """Return the headings for how often the first, and the second, of a pair is better off."""
    if numbers(subject):
        return "First favoured", "Second favoured"
    if isinstance(subject.favourable, Order):
        return "First gets better", "Second gets better"
    if counted.scores:
        return "First ahead", "Second ahead"
    return "Only the first gets it", "Only the second gets it"


def ahead(subject: ReportInputs, counted: Counted) -> str:
    """Return the words between two names, the first of which is ahead."""
    if counted.scores and not numbers(subject) and not isinstance(subject.favourable, Order):
        return "is ahead of"
    return "fares better than" if subject.named else f"gets {wanted(subject)} more often than"


def explained(subject: ReportInputs, counted: Counted) -> Markup:
    """Explain what the columns of a directed comparison count, and what the sign of the net means."""
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
            "outcome, has the higher score for {}; being behind does not always mean a different outcome.",
            what,
            what,
        )
    return say("{} {}", head, NET)


def shown(c: Comparison, content: Content, e: Estimate) -> Markup:
    """Write what a comparison shows: who is better off and, for numbers, how much more one gets.

    The words follow from the intervals shown with them.
    """
    subject, counted = content.subject, Counted.of(content.run)
    if counted.scores and not numbers(subject) and not isinstance(subject.favourable, Order):
        gets = "is ahead" if subject.named else f"is ahead for {wanted(subject)}"
    else:
        gets = "is favoured" if subject.named else f"gets {wanted(subject)} more often"
    sentence = more(c, e.score_of, e.confidence)
    how_much = None if sentence is None else linked(sentence)
    if c.verdict == "different" and how_much is not None:
        return how_much
    if c.verdict.startswith("favours"):
        said = say("{} {}", given(listed(c.first if c.verdict == "favours first" else c.second)), given(gets))
    else:
        said = say("{}", {"different": counted.words, **SHOWN}[c.verdict])
    return said if how_much is None or c.verdict == "not received" else say("{}; {}", said, how_much)
