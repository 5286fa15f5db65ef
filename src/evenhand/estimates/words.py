"""Estimates in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenhand._format import Figure, Sentence, estimated, high, interval, level, number_interval, percent, size
from evenhand.criteria import Criterion, Flip
from evenhand.estimates.tables import KEPT
from evenhand.spaces.base import table
from evenhand.spaces.text.space import TextSpace

if TYPE_CHECKING:
    from evenhand.estimates.comparisons import Comparison
    from evenhand.estimates.result import Estimate
    from evenhand.estimates.terms import Term
    from evenhand.spaces.tabular import Space


ALL_SAMPLED = "each was compared with a sample of its"
ALL_ROWS = "all rows, counterparts sampled"
"""The interval of rows that were all judged, but each by a sample of its counterparts."""


SHOWN = 60
"""Characters of a decision that are shown within a sentence."""


def listed(values: dict[str, object]) -> str:
    """Write protected values as a reader says them.

    >>> listed({"sex": "F", "race": "black"})
    'sex F, race black'
    """
    from evenhand._format import phrase

    return ", ".join(phrase(name, value) for name, value in values.items())


def treated(space: Space | TextSpace, criterion: Criterion) -> str:
    """Say what is counted of people, after "are".

    Whoever sees two decisions in a family differs from one of them. Scores are compared of any two of a family, and of
    more than two values those farthest apart need not be anybody's own.

    >>> from evenhand.criteria import Gap
    >>> from evenhand.spaces.attributes import Integer, Nominal; from evenhand.spaces.tabular import Space
    >>> space = Space([Integer("age", 1, 9), Nominal("race", ["A", "B", "C"])], protected="race")
    >>> treated(space, Flip()), treated(space, Gap(0.2))
    ('treated differently', 'such that some two values of race are treated differently')
    """
    texts = space.noun == "text"
    if criterion == Flip() or (space.noun != "text" and table(space).combinations <= 2):
        return "treated differently"
    from evenhand._format import plain

    what = "words" if texts else "values" if len(space.protected) == 1 else "combinations"
    return f"such that some two {what} of {' and '.join(map(plain, space.protected))} are treated differently"


def noun(space: Space | TextSpace) -> str:
    """Name those who are asked.

    >>> noun(TextSpace("religion"))
    'texts'
    """
    return "texts" if space.noun == "text" else "individuals"


def sentence(e: Estimate) -> str:
    """Say the share, what it is of, and how sure it is."""
    sure, of, how = level(e.confidence), e.about, treated(e.space, e.criterion)
    texts = e.space.noun == "text"
    none, each = ("none", "some were compared with a sample of their") if texts else ("nobody", ALL_SAMPLED)
    more = f"; {each} counterparts only, so the share may be higher" if e.sampled else ""
    if e.repeats > 1:
        more += (
            f"; the model gave two answers to {percent(e.noise)} of the rows that were asked twice, so each was asked "
            f"{e.repeats} times and the most frequent answer counts"
        )
    more += _rows_lost(e.counts, "that" if texts else "whom")
    if e.unaware and not e.found:
        return f"{e.note}{more}"
    if e.unfinished:
        return (
            f"{e.samples:,} of {of} were judged before it ended, of whom {e.found:,} are {how}; so, "
            f"whoever is left, {interval(e.low, e.high)} of all of them are{more}"
        )
    if e.sampled and e.interval == ALL_ROWS:
        many = percent(e.rate) if e.found else none
        return f"{many} of {of} {'are' if e.found else 'is'} found to be {how}; every one was judged{more}"
    if e.exact:
        if not e.found:
            return f"{none} of {of} is {how}; every one was judged{more}"
        return f"exactly {percent(e.rate)} of {of} are {how}; every one was judged{more}"
    if not e.found:
        what = "would be found so by these counterparts" if e.sampled else ""
        bound = f"at most {high(e.high)} {what}".strip()
        return f"{none} of {e.samples:,} asked is {how}: {bound} with {sure} confidence, of {of}{more}"
    return (
        f"{percent(e.rate)} of {of} are {how}, {interval(e.low, e.high)} with {sure} "
        f"confidence ({e.found:,} of {e.samples:,} asked; {e.interval}){more}"
    )


def _rows_lost(counts: dict[str, int], whom: str) -> str:
    dropped, clipped, rows = (counts.get(name, 0) for name in ("dropped", "clipped", "rows"))
    out = f"; {dropped:,} of the {rows:,} rows outside the space left out" if dropped else ""
    out += f"; {clipped:,} of the {rows:,} rows moved to the nearest bound of the space" if clipped else ""
    used, missing = counts.get("left_out", 0), counts.get("missing", 0)
    out += f"; {missing:,} of the {rows:,} texts missing" if missing else ""
    return out + (f"; {used:,} {whom} the repair used left out" if used else "")


def more(c: Comparison, scored: tuple[Any, ...], confidence: float) -> Sentence | None:
    """Say who of the two gets more, and how much on average; None where no numbers were compared.

    ``scored`` names the decisions whose score is compared; none: the model's own number. Somebody is said to get more
    where the interval that is shown excludes 0.

    >>> from evenhand.estimates.comparisons import Comparison
    >>> c = Comparison({"sex": "F"}, {"sex": "M"}, 9, 9, 1, 1, 1, *[None] * 7, None, "different", -412.3, -444, -380)
    >>> print(more(c, (), 0.95))
    sex M gets 412 more than sex F on average (95% CI 380 to 444)
    >>> print(more(c, ("good",), 0.95))
    sex M scores 412 higher for “good” than sex F on average (95% CI 380 to 444)
    """
    if c.difference is None:
        return None
    turned = c.difference < 0
    who, whom = (listed(side) for side in ((c.second, c.first) if turned else (c.first, c.second)))
    names = tuple(_short(one) for one in scored)
    of = f" for {' or '.join(['“{}”'] * len(names))}" if names else ""
    up, down = ("higher", "lower") if scored else ("more", "less")
    gets = "scores" if scored else "gets"
    much = Figure(c.difference, "size")
    same = f"{{}} and {{}} {'score' if scored else 'get'} the same{of}"
    if c.difference_low is None and not c.difference and c.gaps is not None and not c.gaps["largest"]:
        # Of more pairs the gaps of the first alone are known.
        if c.pairs > KEPT:
            return Sentence(f"{same} on average", (who, whom, *names))
        return Sentence(f"{same} in all {{}} asked", (who, whom, *names, Figure(c.pairs, "count")))
    if c.difference_low is None or c.difference_high is None:
        few = "too few pairs differ to say how sure that is"
        return Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average ({few})", (who, much, *names, whom))
    if not (c.difference or c.difference_low or c.difference_high):
        return Sentence(f"{same} on average", (who, whom, *names))
    ends = (Figure(c.difference_low, "size_low"), Figure(c.difference_high, "size_high"))
    ends, sure = ends[::-1] if turned else ends, Figure(confidence, "level")
    if c.difference_low <= 0 <= c.difference_high:
        clear = f"it is not clear whether {{}} {gets} {up}{of} than {{}} on average ({{}} CI {{}} {down} to {{}} {up})"
        return Sentence(clear, (who, *names, whom, sure, *ends))
    said = Sentence(f"{{}} {gets} {{}} {up}{of} than {{}} on average", (who, much, *names, whom))
    known = c.difference_low == c.difference_high
    return said if known else said + Sentence(" ({} CI {} to {})", (sure, *ends))


def more_of(term: Term, scored: tuple[Any, ...], confidence: float) -> str:
    """Say of a term that has an interval how much higher or lower texts are scored with it, on average.

    >>> from evenhand.estimates.terms import Term
    >>> more_of(Term("religion", "Sikh", 40, (), 0.5, -0.21, -0.22, -0.2), ("toxic",), 0.95)
    'with “Sikh” the score for “toxic” is 0.21 lower than with the other terms of religion (95% CI 0.2 to 0.22)'
    """
    from evenhand._format import plain

    if term.difference is None or term.difference_low is None or term.difference_high is None:
        return ""
    turned = term.difference < 0
    ends = (-term.difference_high, -term.difference_low) if turned else (term.difference_low, term.difference_high)
    of = f" for {' or '.join(f'“{_short(one)}”' for one in scored)}" if scored else ""
    sure = f" ({level(confidence)} CI {number_interval(*ends)})" if ends[0] < ends[1] else ""
    return (
        f"with “{plain(term.term)}” the score{of} is {size(term.difference)} {'lower' if turned else 'higher'} than "
        f"with the other terms of {plain(term.attribute)}{sure}"
    )


def _short(value: object) -> str:
    from evenhand._format import plain

    text = plain(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def said(c: Comparison, scored: tuple[Any, ...] = (), confidence: float = 0.95) -> str:
    """Say a comparison in one line.

    >>> from evenhand.estimates.comparisons import Comparison
    >>> c = Comparison({"sex": "F"}, {"sex": "M"}, 1000, 90, 0.09, 0.07, 0.11, 10, 80, 0.09, -0.07, -0.09, -0.05, 1e-9,
    ...                None, "favours second")
    >>> said(c)
    'sex M favoured over sex F: net 7% (5% to 9%), M in 8% of pairs, F in 1%'
    """
    from evenhand._format import plain

    pair = f"{listed(c.first)} and {listed(c.second)}"
    numbers = more(c, scored, confidence)
    if c.net is None or c.net_low is None or c.net_high is None:
        sure = f" ({interval(c.low, c.high)})" if c.low < c.high else ""
        return f"{pair}: {percent(c.rate)} differ{sure}; {numbers or c.verdict}"
    assert c.first_share is not None
    assert c.second_share is not None
    turned = c.net < 0
    one, other = (c.second, c.first) if turned else (c.first, c.second)
    ends = sorted((-c.net_low, -c.net_high)) if turned else (c.net_low, c.net_high)
    shares = [percent(share) for share in sorted((c.first_share, c.second_share), reverse=True)]
    short = [", ".join(map(plain, side.values())) for side in (one, other)]
    head = f"{listed(one)} against {listed(other)}: {c.verdict};"
    if c.verdict.startswith("favours"):
        head = f"{listed(one)} favoured over {listed(other)}:"
    text = f"{head} net {estimated(abs(c.net), *ends)}, {short[0]} in {shares[0]} of pairs, {short[1]} in {shares[1]}"
    return f"{text}; {numbers}" if numbers else text
