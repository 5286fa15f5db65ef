"""Examples: a real person, what had to change, and what the model decides for each side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from evenhand._format import percent
from evenhand.words import Pair, plain

if TYPE_CHECKING:
    import pandas as pd


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
