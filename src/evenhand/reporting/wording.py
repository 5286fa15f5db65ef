"""What a report says in words of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.budget import StopReason
from evenhand.errors import EvenhandError
from evenhand.measuring.favour import HIGHER, LOWER
from evenhand.measuring.tables import ALL_VALUES, spread
from evenhand.measuring.words import level, percent
from evenhand.reporting.counting import Counted
from evenhand.reporting.cutting import listed, short
from evenhand.text.space import TextSpace
from evenhand.words import native, plain

if TYPE_CHECKING:
    from evenhand.measuring import Estimate
    from evenhand.reporting.gathering import Content
    from evenhand.run import Run

TEXTS = "texts like those given with a protected term"
EACH = "Each was compared with a sample of its"


def end(share: float, digits: int = 3, *, up: bool) -> str:
    """Write the end of an interval, rounded outward, so that what is shown holds what was measured.

    >>> end(0.0499, 2, up=False), end(0.0581, 2, up=True), end(-0.0499, 2, up=False), end(0.07, 2, up=True)
    ('4.9 %', '5.9 %', '-5 %', '7 %')
    >>> end(0.9996, 2, up=True), end(0.0, up=False), end(1.0, up=True)
    ('99.96 %', '0 %', '100 %')
    """
    # Twelve digits, so that what binary fractions leave behind rounds nothing.
    value = Decimal(f"{100 * share:.12g}")
    if not value:
        return "0 %"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    rounded = value
    for finer in range(12):
        rounded = value.quantize(Decimal(1).scaleb(-places - finer), ROUND_CEILING if up else ROUND_FLOOR)
        if abs(rounded) < 100 or abs(value) >= 100:
            # "100 %" is said of all, and of nothing less.
            break
    text = f"{rounded:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + " %"


def between(low: float, high: float, digits: int = 3) -> str:
    """Write an interval.

    >>> between(0.0499, 0.0589, 2)
    '4.9 % to 5.9 %'
    """
    return f"{end(low, digits, up=False)} to {end(high, digits, up=True)}"


def protected_of(run: Run) -> str:
    """Name what is protected, as part of a sentence.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("a"), eh.Boolean("b")], protected=["a", "b"])
    >>> protected_of(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'a or b'
    """
    return " or ".join(map(plain, run.space.protected))


def condition(run: Run) -> str:
    """Say under what people would be treated differently.

    Scores are compared of any two values, and of more than two those farthest apart need not be anybody's own.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("race", ["A", "B", "C"])], protected="race")
    >>> condition(eh.audit(lambda f: f["age"] / 9, space, "themis", criterion=eh.Gap(0.5)))
    'for some two values of race, all else equal'
    """
    what = protected_of(run)
    if isinstance(run.space, TextSpace):
        alone = str(run.identity["criterion"]) == "Flip()"
        return f"if only a word of {what} were swapped" if alone else f"for some two words of {what}, all else equal"
    if str(run.identity["criterion"]) != "Flip()" and run.space.combinations > 2:
        return f"for some two values of {what}, all else equal"
    return f"if only their {what} were different"


def verdict(run: Run, data: Estimate | None = None, uniform: Estimate | None = None, named: bool = False) -> str:
    """Say in one sentence whether people are treated differently, how common that is and, if known, against whom.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> verdict(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'No: everyone whom the space allows was tested, and nobody gets another outcome when only member changes.'
    """
    what, counted = protected_of(run), Counted.of(run)
    get, gets = counted.would, counted.nobody
    if isinstance(run.space, TextSpace):
        return _of_texts(run, data)
    if data is not None and uniform is not None and not data.found and uniform.found and uniform.low > 0:
        bound = "every row was judged"
        if not data.exact:
            bound = f"at most {percent(data.upper, 2, up=True)} with {level(data.confidence)} confidence"
        return (
            f"Yes, though nobody in the data: none of {data.samples:,} people there ({bound}) would {get} "
            f"{condition(run)}; of all individuals that the space allows, {_share(uniform)} would."
        )
    best = data if data is not None and data.found else uniform if uniform is not None and uniform.found else None
    if best is not None and best.low > 0:
        whom = "people like those in the data" if best is data else "all individuals that the space allows"
        return f"Yes: {_share(best)} of {whom} would {get} {condition(run)}{_against(best, named, counted)}."
    known = data if data is not None else uniform
    if run.found:
        one = "1 individual" if run.found == 1 else f"{run.found:,} individuals"
        rate = "how common that is was not measured"
        if known is not None:
            rate = f"by the estimate, at most {percent(known.upper, 2, up=True)} are affected"
        return f"Yes: the search found {one} who would {get} {condition(run)}; {rate}."
    everybody = run.stop is StopReason.EXHAUSTED or (uniform is not None and uniform.exact)
    if everybody and not run.sampled:
        return f"No: everyone whom the space allows was tested, and nobody {gets} when only {what} changes."
    most = "" if known is None else f"; at most {percent(known.upper, 2, up=True)} are affected, by the estimate below"
    return f"None found: in {_tests(run)} nobody {gets} when only {what} changes{most}."


def _of_texts(run: Run, data: Estimate | None) -> str:
    """Say whether texts are treated differently, and how common that is among those given."""
    if data is not None and data.found:
        return f"Yes: {_share(data)} of {TEXTS} would {Counted.of(run).would} {condition(run)}."
    what = protected_of(run)
    bound = "" if data is None else f"at most {percent(data.upper, 2, up=True)} of {TEXTS} are affected"
    if run.found:
        found = "1 text" if run.found == 1 else f"{run.found:,} texts"
        rate = f"by the estimate, {bound}" if bound else "how common that is was not measured"
        return f"Yes: the search found {found} whose outcome changes when only a word of {what} is swapped; {rate}."
    most = f"; {bound}, by the estimate below" if bound else ""
    return f"None found: in {_tests(run)} no text's outcome changed when only a word of {what} was swapped{most}."


def _share(e: Estimate) -> str:
    share = percent(e.rate, 2)
    return share if e.exact else f"an estimated {share} ({between(e.low, e.high, 2)})"


def _against(e: Estimate, named: bool, counted: Counted) -> str:
    """Say who loses, or of several who loses most, where it is known what people want."""
    pairs = [c for c in e.comparisons if len(c.first) == 1]
    clear = [c for c in pairs if c.net is not None and c.verdict.startswith("favours")]
    if not named or not clear:
        return ""
    worst = max(clear, key=lambda c: abs(c.net or 0.0))
    loser, winner = (worst.second, worst.first) if worst.verdict == "favours first" else (worst.first, worst.second)
    beside = f", compared with {listed(winner)}" if len(pairs) > 1 else ""
    if counted.scores and e.favourable not in (HIGHER, LOWER):
        return f", most often with {listed(loser)} behind{beside}"
    return f", most often to the disadvantage of {listed(loser)}{beside}"


def measured_on(content: Content) -> str:
    """Say on whom the shares were measured."""
    said = []
    if "data" in content.estimates:
        said.append(f"on {'the texts' if content.subject.texts else 'rows of the data'} as they are")
    if "uniform" in content.estimates:
        exact = content.estimates["uniform"].exact
        said.append(f"on {'everyone whom the space allows' if exact else 'individuals drawn evenly from the space'}")
    return (
        f"It is measured {', and '.join(said)}; the findings of the search, which goes where findings are, play no "
        "part in it."
    )


def spread_out(run: Run) -> list[str]:
    """Say which protected attributes have too many values to compare all of them.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Boolean("member"), eh.Integer("age", 20, 90)], protected="age")
    >>> spread_out(eh.audit(lambda f: f["age"] > 30, space, strategy="themis", budget=eh.Budget(tests=1)))
    ['age has 71 values: five of them (20, 38, 55, 72 and 90) stand for its range in these comparisons.']
    """
    out = []
    for name, column in zip(run.space.protected, run.space.protected_columns, strict=True):
        size, present = run.space.coding.sizes[column], int(run.space.present[column])
        if size > ALL_VALUES:
            codes = np.array(spread(size, present))
            values = [short(native(value)) for value in run.space.attributes[column].decode(codes)]
            out.append(
                f"{plain(name)} has {present:,} values: five of them ({', '.join(values[:-1])} and {values[-1]}) stand "
                "for its range in these comparisons."
            )
    return out


def remarks(e: Estimate) -> list[str]:
    """Say what a reader of an estimate has to know besides its numbers."""
    dropped, clipped, rows = (e.counts.get(name, 0) for name in ("dropped", "clipped", "rows"))
    out = []
    if dropped:
        are, were = ("is", "was") if dropped == 1 else ("are", "were")
        out.append(f"{dropped:,} of the {rows:,} rows of the data {are} outside the space and {were} left out.")
    if clipped:
        were = "was" if clipped == 1 else "were"
        out.append(f"{clipped:,} of the {rows:,} rows of the data {were} moved to the nearest bound of the space.")
    if isinstance(e.space, TextSpace) and e.counts.get("untestable"):
        out.append(f"{e.counts['untestable']:,} of the {rows:,} texts have no term that can be swapped: left out.")
    if e.sampled:
        whose = "Some were compared with a sample of their" if isinstance(e.space, TextSpace) else EACH
        out.append(f"{whose} counterparts only, so the shares may be higher.")
    if e.repeats > 1:
        out.append(
            f"The model gave two answers to {percent(e.noise)} of the rows that were asked twice, so each was asked "
            f"{e.repeats} times and the most frequent answer counts."
        )
    return out


def asked(e: Estimate) -> str:
    """Say how many were asked, of how many where they are rows, and how many of them are affected."""
    rows = e.counts.get("rows", 0) - e.counts.get("dropped", 0)
    texts = isinstance(e.space, TextSpace)
    of = f" of {rows:,} {'texts' if texts else 'rows'}" if e.population == "data" and rows >= e.samples else ""
    return f"{e.samples:,}{of}, {e.found:,} of {'which' if texts else 'whom'} {'is' if e.found == 1 else 'are'}"


def ended(run: Run) -> str:
    """Say why a run ended, in words that nobody takes for those of a lawyer."""
    return "everyone whom the space allows was judged" if run.stop is StopReason.EXHAUSTED else run.stop.words


def aimed(run: Run) -> str:
    """Say what findings per test mean.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> aimed(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'in 9 tests, which are all that the space has'
    """
    if run.stop is StopReason.EXHAUSTED:
        return f"in {_tests(run)}, which are all that the space has"
    return f"in {_tests(run)}: how well it aims, not how common it is"


def rising(runs: Sequence[Run]) -> str:
    """Say what a curve that still rises at its end means, where there is one that could go on."""
    ends = {run.stop for run in runs}
    if ends <= {StopReason.EXHAUSTED}:
        return "Everyone whom the space allows was judged, so there is nothing more to find."
    if ends <= {StopReason.EXHAUSTED, StopReason.FINISHED}:
        return "The search came to its own end."
    return "Where a curve is still rising at its end, a longer search may find more."


def named(run: Run) -> str:
    """Name the model; a function may have no name.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> named(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"))
    'A function without a name'
    """
    name = plain(run.identity["model"])
    return "A function without a name" if name == "<lambda>" else name


def call_of(run: Run, threshold: float | None = None) -> str:
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
    model = "model" if threshold is None else f"eh.wrap(model, threshold={threshold!r})"
    return (
        f"eh.audit({model}, space, {_strategy(run)}, eh.Budget({limits}), seed={run.identity['seed']}, "
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
