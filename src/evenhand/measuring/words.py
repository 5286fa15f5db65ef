"""Estimates in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from evenhand.text.space import TextSpace

if TYPE_CHECKING:
    from evenhand.measuring.comparisons import Comparison
    from evenhand.measuring.result import Estimate
    from evenhand.space.tabular import Space


ALL_SAMPLED = "each was compared with a sample of its"
ALL_ROWS = "all rows, counterparts sampled"
"""The interval of rows that were all judged, but each by a sample of its counterparts."""


def percent(share: float, digits: int = 3, *, up: bool = False) -> str:
    """Write a share in per cent with a few digits that count, never as a power of ten; ``up`` rounds upwards.

    >>> percent(0.04023), percent(0.0000299573, 2, up=True), percent(0.5), percent(0)
    ('4.02 %', '0.003 %', '50 %', '0 %')
    """
    value = 100 * share
    if not value:
        return "0 %"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if up:
        # A hair less, so that 0.03 does not become 0.031 because it is 0.030000000000000002.
        value = math.ceil(value * 10**places * (1 - 1e-12)) / 10**places
    while not up and round(abs(value), places) >= 100 > abs(value) and places < 15:
        # "100 %" is said of all, and of nothing less.
        places += 1
    text = f"{value:.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"


def level(confidence: float) -> str:
    """Write a confidence.

    >>> level(0.95), level(0.999), level(0.9999999)
    ('95 %', '99.9 %', '99.99999 %')
    """
    return percent(confidence, 6)


def listed(values: dict[str, object]) -> str:
    """Write protected values as a reader says them.

    >>> listed({"sex": "F", "race": "black"})
    'sex F, race black'
    """
    from evenhand.words import phrase

    return ", ".join(phrase(name, value) for name, value in values.items())


def treated(space: Space | TextSpace, criterion: str) -> str:
    """Say what is counted of people, after "are".

    Whoever sees two decisions in a family differs from one of them. Scores are compared of any two of a family, and of
    more than two values those farthest apart need not be anybody's own.

    >>> from evenhand.space import Integer, Nominal, Space
    >>> space = Space([Integer("age", 1, 9), Nominal("race", ["A", "B", "C"])], protected="race")
    >>> treated(space, "Flip()"), treated(space, "Gap(gamma=0.2)")
    ('treated differently', 'such that some two values of race are treated differently')
    """
    texts = isinstance(space, TextSpace)
    if criterion == "Flip()" or (not isinstance(space, TextSpace) and space.combinations <= 2):
        return "treated differently"
    from evenhand.words import plain

    what = "words" if texts else "values" if len(space.protected) == 1 else "combinations"
    return f"such that some two {what} of {' and '.join(map(plain, space.protected))} are treated differently"


def noun(space: Space | TextSpace) -> str:
    """Name those who are asked.

    >>> noun(TextSpace("religion"))
    'texts'
    """
    return "texts" if isinstance(space, TextSpace) else "individuals"


def sentence(e: Estimate) -> str:
    """Say the share, what it is of, and how sure it is."""
    sure, of, how = level(e.confidence), e.about, treated(e.space, e.criterion)
    texts = isinstance(e.space, TextSpace)
    none, each = ("none", "some were compared with a sample of their") if texts else ("nobody", ALL_SAMPLED)
    more = f"; {each} counterparts only, so the share may be higher" if e.sampled else ""
    if e.repeats > 1:
        more += (
            f"; the model gave two answers to {percent(e.noise)} of the rows that were asked twice, so each was asked "
            f"{e.repeats} times and the most frequent answer counts"
        )
    more += _rows_lost(e.counts, "that" if texts else "whom")
    if e.unfinished:
        return (
            f"{e.samples:,} of {of} were judged before it ended, of whom {e.found:,} are {how}; so, "
            f"whoever is left, {percent(e.low)} to {percent(e.high)} of all of them are{more}"
        )
    if e.sampled and e.interval == ALL_ROWS:
        many = percent(e.rate) if e.found else none
        return f"{many} of {of} {'are' if e.found else 'is'} found to be {how}; every one was judged{more}"
    if e.exact:
        if not e.found:
            return f"{none} of {of} is {how}; every one was judged{more}"
        return f"exactly {percent(e.rate)} of {of} are {how}; every one was judged{more}"
    if not e.found:
        high, bound = percent(e.high, 2, up=True), percent(e.upper, 2, up=True)
        side = "" if e.upper == e.high else f" (one-sided; the two-sided interval ends at {high})"
        what = "would be found so by these counterparts" if e.sampled else ""
        bound = f"at most {bound} {what}".strip()
        return f"{none} of {e.samples:,} asked is {how}: {bound} with {sure} confidence{side}, of {of}{more}"
    return (
        f"{percent(e.rate)} of {of} are {how}, {percent(e.low)} to {percent(e.high)} with {sure} "
        f"confidence ({e.found:,} of {e.samples:,} asked; {e.interval}){more}"
    )


def _rows_lost(counts: dict[str, int], whom: str) -> str:
    dropped, clipped, rows = (counts.get(name, 0) for name in ("dropped", "clipped", "rows"))
    out = f"; {dropped:,} of the {rows:,} rows outside the space left out" if dropped else ""
    out += f"; {clipped:,} of the {rows:,} rows moved to the nearest bound of the space" if clipped else ""
    used, missing = counts.get("left_out", 0), counts.get("missing", 0)
    out += f"; {missing:,} of the {rows:,} texts missing" if missing else ""
    return out + (f"; {used:,} {whom} the repair used left out" if used else "")


def said(c: Comparison) -> str:
    """Say a comparison in one line.

    >>> from evenhand.measuring.comparisons import Comparison
    >>> c = Comparison({"sex": "F"}, {"sex": "M"}, 1000, 90, 0.09, 0.07, 0.11, 10, 80, 0.09, -0.07, -0.09, -0.05, 1e-9,
    ...                1e-9, None, "favours second")
    >>> said(c)
    'sex M favoured over sex F: net 7 % (5 % to 9 %), M in 8 % of pairs, F in 1 %'
    """
    from evenhand.words import plain

    pair = f"{listed(c.first)} and {listed(c.second)}"
    if c.net is None or c.net_low is None or c.net_high is None:
        sure = f" ({percent(c.low)} to {percent(c.high)})" if c.low < c.high else ""
        return f"{pair}: {percent(c.rate)} differ{sure}; {c.verdict}"
    assert c.first_favoured is not None
    assert c.second_favoured is not None
    turned = c.net < 0
    one, other = (c.second, c.first) if turned else (c.first, c.second)
    ends = sorted((-c.net_low, -c.net_high)) if turned else (c.net_low, c.net_high)
    counts = sorted((c.first_favoured, c.second_favoured), reverse=True)
    shares = [percent(count / max(c.pairs, 1)) for count in counts]
    short = [", ".join(map(plain, side.values())) for side in (one, other)]
    sure = f" ({percent(ends[0])} to {percent(ends[1])})" if c.net_low < c.net_high else ""
    head = f"{listed(one)} against {listed(other)}: {c.verdict};"
    if c.verdict.startswith("favours"):
        head = f"{listed(one)} favoured over {listed(other)}:"
    return f"{head} net {percent(abs(c.net))}{sure}, {short[0]} in {shares[0]} of pairs, {short[1]} in {shares[1]}"
