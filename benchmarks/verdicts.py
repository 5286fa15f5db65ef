"""Whether a paper's table or figure is reproduced: one verdict for each claim, and the counts on the summary page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.layout import table

REPRODUCED, CONTRADICTED, IMPOSSIBLE, OPEN = "reproduced", "contradicted", "not possible", "not measured"
KINDS = (REPRODUCED, CONTRADICTED, IMPOSSIBLE)


@dataclass(frozen=True)
class Verdict:
    """What a table or figure claims, what is found here, and whether they agree."""

    where: str
    """The table or figure, as ``table 3``."""
    claim: str
    found: str
    """What was measured here, or why it cannot be."""
    holds: bool | None
    """None if it cannot be measured."""
    why: str = ""
    """The reason, unless the claim is reproduced."""
    missing: bool = False
    """Whether the measurement has not been made yet."""

    @property
    def kind(self) -> str:
        """The verdict in a word."""
        if self.missing:
            return OPEN
        return IMPOSSIBLE if self.holds is None else REPRODUCED if self.holds else CONTRADICTED


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Lay out a paper's verdicts."""
    rows = [
        [one.where, one.claim, one.found, f"**{one.kind}**" + (f": {one.why}" if one.why and not one.holds else "")]
        for one in verdicts
    ]
    return table(["table or figure", "claim", "here", "verdict"], rows, words=True)


def counts(verdicts: Sequence[Verdict]) -> list[str]:
    """Count the verdicts of each kind.

    >>> counts([Verdict("table 1", "", "", True), Verdict("table 2", "", "", None)])
    ['1', '0', '1']
    """
    return [str(sum(one.kind == kind for one in verdicts)) for kind in KINDS]
