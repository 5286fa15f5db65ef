"""Who fares better of two, in words that are true of what was counted: decisions, scores or numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand.measuring.favour import HIGHER, LOWER, alike
from evenhand.reporting.counting import Counted
from evenhand.reporting.cutting import listed, short

if TYPE_CHECKING:
    from evenhand.measuring.comparisons import Comparison
    from evenhand.reporting.gathering import Content
    from evenhand.reporting.subject import Subject

NET = "Net is the first of these shares less the second: above 0, the first of the two is better off."


def numbers(subject: Subject) -> bool:
    """Whether what people want is a number, and no decision."""
    return not subject.decides or subject.favourable in (HIGHER, LOWER)


def wanted(subject: Subject) -> str:
    """Say what people want, or what the report speaks of: a decision or, where the model gives numbers alone, a score.

    A number may be called by the decision that it speaks for: 1 for a higher one, 0 for a lower one.
    """
    if not numbers(subject):
        return f"“{short(subject.favourable)}”"
    lower = subject.favourable == LOWER or alike(0, subject.favourable)
    return f"a {'lower' if lower else 'higher'} {'number' if subject.regression else 'score'}"


def sides(subject: Subject, counted: Counted) -> tuple[str, str]:
    """Give the headings for how often the first, and the second, of a pair fares better."""
    if numbers(subject):
        return "First favoured", "Second favoured"
    if counted.scores:
        return "First ahead", "Second ahead"
    return "Only the first gets it", "Only the second gets it"


def explained(subject: Subject, counted: Counted) -> str:
    """Say what the columns of a directed comparison count, and what the sign of the net means."""
    what = wanted(subject)
    if numbers(subject):
        return f"People want {what}; of two who are told apart, the one who has it is favoured. {NET}"
    if subject.named:
        head = f"The outcome that people want is {what}."
    else:
        head = f"Nobody said which outcome people want, so this speaks of {what} and judges nothing."
    if counted.scores:
        head += (
            f" Of two who are told apart, ahead is who alone gets {what} or, where both get the same outcome, whose "
            f"score for {what} is higher; to be behind need not mean another outcome."
        )
    return f"{head} {NET}"


def shown(c: Comparison, content: Content) -> str:
    """Say what a comparison shows."""
    subject, counted = content.subject, Counted.of(content.run)
    if counted.scores and not numbers(subject):
        gets = "is ahead" if subject.named else f"is ahead for {wanted(subject)}"
    else:
        gets = "is favoured" if subject.named else f"gets {wanted(subject)} more often"
    return {
        "favours first": f"{listed(c.first)} {gets}",
        "favours second": f"{listed(c.second)} {gets}",
        "both ways": "differs both ways alike",
        "different": counted.told,
        "none found": "no difference found",
        "insufficient evidence": "too little evidence to say",
    }[c.verdict]
