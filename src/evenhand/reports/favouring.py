"""Who fares better of two, in words that are true of what was counted: decisions, scores or numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.estimates.pair_counts import LOWER, Order, alike, directs, outcomes_of
from evenhand.estimates.result import more
from evenhand.reports.counting import Counted
from evenhand.reports.cutting import listed, short
from evenhand.reports.figures import given, say, told

if TYPE_CHECKING:
    from markupsafe import Markup

    from evenhand.estimates.comparisons import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.reports.gathering import Content
    from evenhand.reports.subject import ReportInputs

NET = "Net is the first of these shares less the second: above zero, the first of the two is better off."
SHOWN = {
    "both ways": "differs both ways alike",
    "none found": "no difference found",
    "insufficient evidence": "too little evidence to say",
    "not received": "the model does not receive it",
}
"""What verdicts say that name nobody."""


def numbers(subject: ReportInputs) -> bool:
    """Whether what people want is a number, and no decision."""
    return not subject.decides or directs(subject.favourable)


def wanted(subject: ReportInputs) -> str:
    """Say what people want, or what the report speaks of: decisions or, where the model gives numbers alone, a score.

    A number may be called by the decision that it speaks for: 1 for a higher one, 0 for a lower one.
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
        return say("People want {}; of two who are told apart, the one who has it is favoured. {}", what, NET)
    if isinstance(subject.favourable, Order):
        order = given(", ".join(f"“{short(one)}”" for one in subject.favourable.outcomes))
        ranked = "Outcomes from worst to best: {}. Of two, the one with the better outcome is favoured. {}"
        return say(ranked, order, NET)
    if subject.named:
        several = len(outcomes_of(subject.favourable)) > 1
        head = say("The {} {}.", "outcomes that people want are" if several else "outcome that people want is", what)
    else:
        head = say("Nobody said which outcome people want, so this speaks of {} and judges nothing.", what)
    if counted.scores:
        head += say(
            " Of two who are told apart, ahead is who alone gets {} or, where both get the same outcome, whose score "
            "for {} is higher; to be behind need not mean another outcome.",
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
