"""What a report says in words of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand.budget import StopReason
from evenhand.errors import EvenhandError
from evenhand.measuring.words import listed, percent
from evenhand.text.space import TextSpace
from evenhand.words import plain

if TYPE_CHECKING:
    from evenhand.measuring import Estimate
    from evenhand.measuring.comparisons import Comparison
    from evenhand.reporting.gathering import Content
    from evenhand.run import Run


def protected_of(run: Run) -> str:
    """Name what is protected, as part of a sentence.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("a"), eh.Boolean("b")], protected=["a", "b"])
    >>> protected_of(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'a or b'
    """
    return " or ".join(map(plain, run.space.protected))


def effect(run: Run) -> tuple[str, str]:
    """Name what happens to people, after "would" and after "nobody": a gap of scores is no other outcome."""
    if "Gap" in str(run.identity["criterion"]):
        return "be scored differently", "is scored differently"
    return "get another outcome", "gets another outcome"


def verdict(run: Run, data: Estimate | None = None, uniform: Estimate | None = None, named: bool = False) -> str:
    """Say in one sentence whether people are treated differently, how common that is and, if known, against whom.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> verdict(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'No: every legal individual was tested, and nobody gets another outcome when only member changes.'
    """
    what, (get, gets) = protected_of(run), effect(run)
    if isinstance(run.space, TextSpace):
        if run.found:
            found = "1 text" if run.found == 1 else f"{run.found:,} texts"
            return f"Yes: the search found {found} whose outcome changes when only a word of {what} is swapped."
        return f"None found: in {_tests(run)} no text's outcome changed when only a word of {what} was swapped."
    best = data if data is not None and data.found else uniform if uniform is not None and uniform.found else None
    if best is not None and best.low > 0:
        whom = "people like those in the data" if best is data else "all individuals that the space allows"
        share = percent(best.rate, 2)
        how = share if best.exact else f"an estimated {share} ({percent(best.low, 2)} to {percent(best.high, 2)})"
        against = _against(best, named)
        return f"Yes: {how} of {whom} would {get} if only their {what} were different{against}."
    known = data if data is not None else uniform
    if run.found:
        one = "1 individual" if run.found == 1 else f"{run.found:,} individuals"
        rate = "how common that is was not measured"
        if known is not None:
            rate = f"by the estimate, at most {percent(known.upper, 2, up=True)} are affected"
        return f"Yes: the search found {one} who would {get} if only their {what} were different; {rate}."
    everybody = run.stop is StopReason.EXHAUSTED or (uniform is not None and uniform.exact)
    if everybody and not run.sampled:
        return f"No: every legal individual was tested, and nobody {gets} when only {what} changes."
    most = "" if known is None else f"; at most {percent(known.upper, 2, up=True)} are affected, by the estimate below"
    return f"None found: in {_tests(run)} nobody {gets} when only {what} changes{most}."


def _against(e: Estimate, named: bool) -> str:
    """Say who loses, where there are two to compare and it is known what people want."""
    pairs = [c for c in e.comparisons if len(c.first) == 1]
    if not named or len(pairs) != 1 or not pairs[0].verdict.startswith("favours"):
        return ""
    loser = pairs[0].second if pairs[0].verdict == "favours first" else pairs[0].first
    return f", most often to the disadvantage of {listed(loser)}"


def remarks(e: Estimate) -> list[str]:
    """Say what a reader of an estimate has to know besides its numbers."""
    dropped, clipped, rows = (e.counts.get(name, 0) for name in ("dropped", "clipped", "rows"))
    out = []
    if dropped:
        out.append(f"{dropped:,} of the {rows:,} rows of the data are outside the space and were left out.")
    if clipped:
        out.append(f"{clipped:,} of the {rows:,} rows of the data were moved to the nearest bound of the space.")
    if e.sampled:
        out.append("Each was compared with a sample of its counterparts only, so the shares may be higher.")
    if e.repeats > 1:
        out.append(
            f"The model gave two answers to {percent(e.noise)} of the rows that were asked twice, so each was asked "
            f"{e.repeats} times and the most frequent answer counts."
        )
    return out


def shown(c: Comparison, content: Content) -> str:
    """Say what a comparison shows."""
    decision = plain(content.subject.favourable)
    gets = "is favoured" if content.subject.named else f"gets “{decision}” more often"
    return {
        "favours first": f"{listed(c.first)} {gets}",
        "favours second": f"{listed(c.second)} {gets}",
        "both ways": "differs both ways alike",
        "different": "decided differently",
        "none found": "no difference found",
        "insufficient evidence": "too little evidence to say",
    }[c.verdict]


def call_of(run: Run) -> str:
    """Write the call that makes the run again.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> call_of(eh.audit(lambda f: f["age"] > 3, space, strategy="themis", budget=eh.Budget(tests=9)))[:32]
    'eh.audit(model, space, eh.Themis'
    """
    limits = ", ".join(f"{name}={value!r}" for name, value in vars(run.budget).items() if value is not None)
    criterion = str(run.identity["criterion"])
    for kind in ("Flip", "Gap", "Both", "Either"):
        criterion = criterion.replace(f"{kind}(", f"eh.{kind}(")
    data = ", data=data" if run.identity.get("data") else ""
    return (
        f"eh.audit(model, space, {_strategy(run)}, eh.Budget({limits}), seed={run.identity['seed']}, "
        f"criterion={criterion}{data})"
    )


def _strategy(run: Run) -> str:
    from evenhand.strategies import STRATEGIES, make

    settings: dict[str, Any] = dict(run.identity["strategy"])
    name = settings.pop("strategy")
    if name not in STRATEGIES:
        return f"{name}(...)"
    try:
        return f"eh.{make(name, **settings)!r}"
    except (EvenhandError, TypeError):
        return repr(name)


def _tests(run: Run) -> str:
    return "1 test" if run.tests == 1 else f"{run.tests:,} tests"
