"""What regions are: rules with their rates, supports and the evidence for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from evenhand._format import estimated, level, percent, visible
from evenhand.locating.rules import Rule

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
    """The share of legal individuals who meet the rule."""
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
            f"{percent(self.support)} of all legal individuals{real}."
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
