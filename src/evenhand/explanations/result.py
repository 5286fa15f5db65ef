"""What regions are: rules with their rates, supports and the evidence for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from evenhand._format import estimated, level, percent, visible
from evenhand.explanations.rules import Rule
from evenhand.words import Pair, plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Rate:
    """A share of fresh individuals who are treated differently, with its interval.

    >>> Rate(31, 100, 0.22, 0.41).words
    '31% (22% to 41%)'
    """

    found: int
    samples: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share; 0 where there was nobody to ask."""
        return self.found / self.samples if self.samples else 0.0

    @property
    def words(self) -> str:
        """Say it."""
        return estimated(self.rate, self.low, self.high)


@dataclass(frozen=True)
class Region:
    """Individuals, told by a rule, who are treated differently more often than others. Not made by hand."""

    rule: Rule = field(repr=False)
    inside: Rate
    """Of fresh individuals who meet the rule."""
    outside: Rate
    """Of fresh individuals who do not."""
    support: float
    """The share of valid individuals who meet the rule."""
    data_support: float | None
    """The share of the data's rows that do; None without data."""
    p_value: float
    """The chance of so great a difference on the fresh samples if there were none."""

    @property
    def rate(self) -> float:
        """The share of its individuals who are treated differently."""
        return self.inside.rate

    @property
    def words(self) -> str:
        """The rule, in the user's names and values."""
        return self.rule.words

    @property
    def sentence(self) -> str:
        """Say the region in a sentence."""
        real = "" if self.data_support is None else f", {percent(self.data_support)} of the data"
        elsewhere = f", against {self.outside.words} elsewhere" if self.outside.samples else ""
        return (
            f"{self.words}: {self.inside.words} of such individuals are treated differently{elsewhere}. They are "
            f"{percent(self.support)} of all valid individuals{real}."
        )

    def contains(self, frame: Any) -> npt.NDArray[np.bool_]:
        """Tell which rows of a frame meet the rule; rows that are not in the space do not."""
        encoded = self.rule.space.encode(frame)
        out = np.zeros(len(encoded.positions) + encoded.dropped, dtype=bool)
        out[encoded.positions] = self.rule.inside(encoded.individuals.rows)
        return out

    def to_dict(self) -> dict[str, Any]:
        """Give all of it in plain values."""
        return {
            "rule": self.words,
            "conditions": self.rule.to_dict(),
            **{name: value for side in ("inside", "outside") for name, value in _plain(side, getattr(self, side))},
            "support": self.support,
            "data_support": self.data_support,
            "p_value": self.p_value,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Interaction:
    """How much being treated differently depends on one free attribute."""

    name: str
    ends: Rate
    """Of individuals treated differently: those who no longer are when this attribute alone is drawn anew."""


@dataclass(frozen=True)
class Regions:
    """Where individuals are treated differently, the most telling region first. Not made by hand."""

    regions: list[Region]
    everybody: Rate
    """Of fresh uniform individuals."""
    beyond: Rate
    """Of fresh individuals in no region."""
    interactions: list[Interaction] = field(repr=False)
    confidence: float
    rows: int
    """Rows that the model was asked, outside all budgets."""
    complete: bool = True
    """Whether there were rows enough to make all rules exact, and to look for more."""

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self.regions)

    @overload
    def __getitem__(self, place: int) -> Region: ...
    @overload
    def __getitem__(self, place: slice) -> list[Region]: ...
    def __getitem__(self, place: int | slice) -> Region | list[Region]:
        """Return one region, or some."""
        return self.regions[place]

    @property
    def frame(self) -> pd.DataFrame:
        """One row a region."""
        import pandas as pd

        names = ["rule", "rate", "low", "high", "outside", "outside_low", "outside_high", "support", "data_support",
                 "p_value"]  # fmt: skip
        lines = [
            (r.words, r.rate, r.inside.low, r.inside.high, r.outside.rate, r.outside.low, r.outside.high, r.support,
             r.data_support, r.p_value)
            for r in self.regions
        ]  # fmt: skip
        return pd.DataFrame(lines, columns=names)

    @property
    def sentence(self) -> str:
        """Sum up."""
        if self.regions:
            n = len(self.regions)
            left = f"; outside {'it' if n == 1 else 'all of them'} {self.beyond.words}" if self.beyond.samples else ""
            return f"{n} {'region' if n == 1 else 'regions'} of discrimination{left}"
        if not self.everybody.found:
            return f"no region: nobody is treated differently in {self.everybody.samples:,} draws from the space"
        return f"no region stands out: {self.everybody.words} of all individuals are treated differently"

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            "regions": [region.to_dict() for region in self.regions],
            **dict(_plain("everybody", self.everybody)),
            **dict(_plain("beyond", self.beyond)),
            "interactions": [{"attribute": it.name, **dict(_plain("ends", it.ends))} for it in self.interactions],
            "confidence": self.confidence,
            "rows": self.rows,
            "complete": self.complete,
        }

    def __repr__(self) -> str:
        cut = "" if self.complete else "; the limit of rows was reached: thresholds may be rough, and there may be more"
        lines = [f"Regions: {self.sentence} ({level(self.confidence)} confidence{cut})"]
        lines += [f"  {region.sentence}" for region in self.regions]
        strong = [it for it in self.interactions if it.ends.low > 0]
        if strong:
            told = ", ".join(f"{visible(it.name)} ({percent(it.ends.rate)})" for it in strong[:5])
            lines.append(f"  drawing one attribute anew ends it most often for {told}")
        return "\n".join(lines)


def _plain(side: str, rate: Rate) -> list[tuple[str, Any]]:
    return [
        (f"{side}_rate", rate.rate if rate.samples else None),
        (f"{side}_low", rate.low),
        (f"{side}_high", rate.high),
        (f"{side}_found", rate.found),
        (f"{side}_samples", rate.samples),
    ]


@dataclass(frozen=True)
class Example:
    """One distinct example of discrimination, told by the pair that is nearest to a real person. Not made by hand."""

    pair: Pair
    """The individual, its counterpart, and what the model said of each."""
    person: dict[str, Any] = field(repr=False)
    """The real person as the data has it, or the central individual where there were no data."""
    row: int | None
    """Where the person stands in the data; None without data."""
    changed: dict[str, tuple[Any, Any]]
    """What differs between the person and the individual: from what, to what; a protected value only where a criterion
    of scores finds two other values treated differently, and the person's own beside neither."""
    distance: float
    """By how much: the shares of the attributes' ranges added up, a nominal one counting 1."""
    nearness: float | None
    """The share of real people who are at least as far from the data as the individual; None without data."""
    odd: list[tuple[str, str]] | None
    """Attributes whose values never occur together in the data, though they should."""
    realistic: bool | None
    finding: int | None
    """The finding that was shrunk, or that is nearest to a person who needed no change, as its place in the run; None
    where the run has none."""
    stands_for: int
    """Findings of the run to which no other example is nearer."""

    @property
    def sentence(self) -> str:
        """Say the example."""
        who = "the central individual" if self.row is None else f"row {self.row:,} of the data"
        if not self.changed:
            return f"{who} as it is: {self.pair.sentence}"
        steps = ", ".join(f"{plain(n)} {plain(b)} instead of {plain(a)}" for n, (a, b) in self.changed.items())
        return f"{who} with {steps}: {self.pair.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it in plain values."""
        pair = self.pair.to_dict()
        return {
            **pair,
            "row": self.row,
            "person": Pair(self.person, {}, None, None, 0.0).to_dict()["individual"],
            "changed": {name: [_json(a), _json(b)] for name, (a, b) in self.changed.items()},
            "distance": self.distance,
            "nearness": self.nearness,
            "odd": None if self.odd is None else [list(two) for two in self.odd],
            "realistic": self.realistic,
            "finding": self.finding,
            "stands_for": self.stands_for,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class Examples:
    """Distinct examples of a run, the best first. Not made by hand."""

    examples: list[Example]
    found: int
    """Findings of the run."""
    realistic: float | None
    """The share of findings that are realistic, before they were shrunk; None without data, or without findings."""
    realistic_of: int
    """Findings by whom that share was told: all of them, up to 5,000."""
    real: bool
    """Whether there were data; without, findings are brought to the central individual, who need not exist."""
    rows: int
    """Rows that the model was asked, outside all budgets."""
    complete: bool = True
    """Whether the limit of rows allowed everything that was to be tried."""
    judged: int = 0
    """Real people who were judged as they are."""
    affected: int = 0
    """Those of them who are treated differently, without any change."""

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)

    @overload
    def __getitem__(self, place: int) -> Example: ...
    @overload
    def __getitem__(self, place: slice) -> list[Example]: ...
    def __getitem__(self, place: int | slice) -> Example | list[Example]:
        """Return one example, or some."""
        return self.examples[place]

    @property
    def frame(self) -> pd.DataFrame:
        """One row per example: the individual, what differs in the counterpart, the decisions, how real it is."""
        import pandas as pd

        lines = []
        for example in self.examples:
            pair = example.pair
            lines.append(
                {
                    **pair.individual,
                    **{f"counterpart_{name}": value for name, value in pair.changes.items()},
                    "decision": pair.decision,
                    "counterpart_decision": pair.counterpart_decision,
                    "gap": pair.gap,
                    "row": example.row,
                    "changed": ", ".join(example.changed),
                    "distance": example.distance,
                    "nearness": example.nearness,
                    "realistic": example.realistic,
                    "stands_for": example.stands_for,
                }
            )
        return pd.DataFrame(lines)

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {
            "examples": [example.to_dict() for example in self.examples],
            "found": self.found,
            "realistic": self.realistic,
            "realistic_of": self.realistic_of,
            "real": self.real,
            "rows": self.rows,
            "complete": self.complete,
            "judged": self.judged,
            "affected": self.affected,
        }

    def __repr__(self) -> str:
        n = len(self.examples)
        head = (
            f"Examples: {n:,} distinct {'example stands' if n == 1 else 'examples stand'} for {self.found:,} findings"
        )
        if self.realistic is not None:
            head += f", of which {percent(self.realistic)} are realistic"
        if not self.real and n:
            head += "; there are no data, so each was brought to the central individual of the space"
        if self.judged:
            head += f"; {self.affected:,} of {self.judged:,} people in the data are treated differently as they are"
        if not self.complete:
            head += "; the limit of rows ended the search, so nearer pairs may exist"
        return "\n".join([head, *(f"  {example.sentence}" for example in self.examples)])


def _json(value: Any) -> Any:
    return Pair({"": value}, {}, None, None, 0.0).to_dict()["individual"][""]
