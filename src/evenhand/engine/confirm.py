"""Confirming findings: only findings for which the model gives the same answers twice are reported.

Findings are queried again in random order and in batches of other sizes before a run is returned. When a run is
continued or replayed, some stored tests are queried again, to detect a model that has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.criteria import Criterion, Judgement, Outputs
from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import (
    FEW,
    PROBES,
    RANDOM,
    ROUNDING,
    TOLERANCE,
    Mask,
    Positions,
    Said,
    at_once,
    close,
    may_score,
    noisy,
    reachable,
    same,
    scattered,
)
from evenhand.errors import FlakyModel, ModelError, RunError
from evenhand.spaces.base import Block
from evenhand.spaces.findings import Findings

if TYPE_CHECKING:
    from evenhand.engine.judge import Judge

OF_BLOCK, BLOCKS, AT_MOST = 8, 1024, 512
"""Maximum numbers of tests kept per stored block, of blocks, and of tests of each kind that are queried again."""
OFTEN = 8
"""Repeats that distinguish a noisy model from one that has changed."""
SLAB = 2**16
"""Findings that are shuffled together when they are queried again."""


@dataclass(frozen=True)
class Checked:
    """The result of querying the findings of a run again."""

    confirm: int | None = None
    """Maximum number to query again; None for all."""
    asked: int = 0
    """Number of findings that were queried again, chosen by the seed."""
    refuted: list[int] = field(default_factory=list)
    """Positions of the refuted findings among those of the search."""
    unsteady: str | None = None
    """Why the model's answers are not reproducible; None if they are."""
    noise: float = 0.0
    """The share of rows, or of findings, with two answers."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "confirm": self.confirm,
            "asked_again": self.asked,
            "refuted": self.refuted,
            "unsteady": self.unsteady,
            **({} if self.unsteady is None else {"noise": self.noise}),
        }

    def accused(self, error: FlakyModel) -> Checked:
        """Record why the model's answers are not reproducible."""
        return replace(self, unsteady=str(error), noise=error.noise)

    @classmethod
    def of(cls, result: dict[str, Any]) -> Checked:
        """Read it from the result of a run."""
        stored = result.get("checked")
        if stored is None:
            # Earlier versions did not store which findings were queried again.
            return cls(0)
        noise = stored.get("noise", 0.0)
        return cls(stored["confirm"], stored["asked_again"], stored["refuted"], stored["unsteady"], noise)

    def fits(self, found: int) -> bool:
        """Whether this is possible for a search with so many findings."""
        refuted = self.refuted
        within = not refuted or (refuted[0] >= 0 and refuted[-1] < found)
        return 0 <= self.asked <= found and within and all(np.diff(refuted) > 0)

    def settle(self, findings: Findings, seed: int) -> None:
        """Remove the refuted findings, and mark those that were queried again as confirmed.

        If the answers are not reproducible, no finding is confirmed: the same answer may be chance.
        """
        asked = np.zeros(findings.count, dtype=bool)
        if self.unsteady is None:
            asked[to_confirm(findings.count, self.asked, seed)] = True
        findings.mark(asked)
        if self.refuted:
            findings.drop(np.array(self.refuted))

    def counted(self, points: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """Remove the refuted findings from a discovery curve."""
        gone = np.searchsorted(self.refuted, [found for *_, found in points]).tolist()
        return [(tests, rows, found - n) for (tests, rows, found), n in zip(points, gone, strict=True)]


def to_confirm(found: int, most: int | None, seed: int) -> Positions:
    """Choose the findings to query again: all, or ``most`` by the seed.

    >>> to_confirm(3, None, 0), len(to_confirm(100, 5, 0))
    (array([0, 1, 2]), 5)
    """
    if most is None or most >= found:
        return np.arange(found)
    return np.sort(np.random.default_rng(seed).choice(found, most, replace=False))


def confirm(
    probe: ModelProbe, findings: Findings, seed: int, chunk: int, most: int | None = None
) -> tuple[Checked, int, FlakyModel | None]:
    """Ask findings again, all or at most so many; return what came of it, the rows it took, and an error to raise.

    There is no error if those refuted are few, and so near the edge between two decisions that rounding moves them.
    ``Checked.settle`` changes the findings.
    """
    chosen = to_confirm(findings.count, most, seed)
    held = holds(probe, findings, chosen, chunk, seed)
    lost, rows = chosen[~held], 2 * len(chosen) * probe.cost
    if not len(lost):
        return Checked(most, len(chosen)), rows, None
    if len(lost) <= max(1, FEW * len(chosen)):
        rows += 2 * len(lost) * probe.cost
        if _on_edge(probe, findings, lost).all():
            return Checked(most, len(chosen), lost.tolist()), rows, None
    why = (
        f"{len(lost):,} of {len(chosen):,} findings that were asked again, in another order and in batches of other "
        f"sizes, got another answer, and are not reported; {RANDOM}; or check that its answer to a row does not depend "
        "on the other rows in the batch"
    )
    return Checked(most, len(chosen), lost.tolist(), why), rows, FlakyModel(why, len(lost) / len(chosen))


def _on_edge(probe: ModelProbe, findings: Findings, at: Positions) -> Mask:
    """Return a mask of findings whose decisions could be restored by rounding of scores."""
    edge = np.full(len(at), may_score(probe))
    if not edge.any():
        return edge
    for side, name in (("individual", "decision"), ("counterpart", "counterpart_decision")):
        try:
            scores = probe.scores(findings.rows(side, at))
        except ModelError:
            return np.zeros(len(at), dtype=bool)
        edge &= reachable(probe, scores, findings.decisions(name, at))
    return edge


def holds(probe: ModelProbe, findings: Findings, chosen: Positions, chunk: int, seed: int = 0) -> Mask:
    """Return a mask of chosen findings with the recorded answers and still a different treatment.

    They are queried in random order and in batches of other sizes, the two sides of a pair apart.
    """
    parts = [_holds(probe, findings, chosen[i : i + SLAB], chunk, seed) for i in range(0, len(chosen), SLAB)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _holds(probe: ModelProbe, findings: Findings, at: Positions, chunk: int, seed: int) -> Mask:
    one, other = (findings.rows(side, at) for side in ("individual", "counterpart"))
    rows = one + other if isinstance(one, list) else np.concatenate([one, other])
    order = np.random.default_rng([seed, len(at)]).permutation(len(rows))
    # Among few rows, one alone makes another batch of the others; among many it would only be one more call.
    labels, scores = scattered(probe, rows, order, chunk, (1,) if len(rows) < PROBES else ())
    ok = np.ones(len(at), dtype=bool)
    for part, name in zip(np.split(labels, 2), ("decision", "counterpart_decision"), strict=True):
        ok &= same(findings.coding.encode(part), findings.select(name, at), ROUNDING)
    if scores is not None and probe.criterion.needs_scores:
        both, scored = (np.stack(np.split(values, 2), axis=1) for values in (labels, scores))
        judged = probe.criterion.judge(Outputs(both, scored, np.zeros(len(at), dtype=np.int64)))
        # A pair at the very edge of gamma counts if its gap is the stored one.
        ok &= judged.unfair | close(judged.gap, findings.select("gap", at))
    return ok


class StoredTests:
    """A sample of stored tests and their verdicts, to detect a model that has changed.

    Findings come first, because they are the claims of a run; the others are spread over all stored tests.
    """

    def __init__(self) -> None:
        self._parts: dict[bool, list[tuple[Block, Mask]]] = {True: [], False: []}

    def add(self, block: Block, unfair: Mask) -> None:
        """Keep some tests of a stored block."""
        for kind, parts in self._parts.items():
            places = np.flatnonzero(unfair == kind)
            some = places[_spread(len(places), OF_BLOCK)]
            if len(some):
                parts.append((block[some], unfair[some]))
            if len(parts) > BLOCKS:
                # Every other one, so that what is left is spread over all blocks.
                del parts[1::2]

    def check(self, judge: Judge, where: Path | None) -> None:
        """Judge them again; raise if a verdict has changed."""
        for parts in self._parts.values():
            chosen = [parts[i] for i in _spread(len(parts), AT_MOST // OF_BLOCK)]
            for block, before in chosen:
                judged = judge.judge(judge.families(block))
                unlike = (judged.unfair != before) & ~_at_the_edge(judge.probe.criterion, judged.verdicts)
                if unlike.any():
                    refuse_noise(judge.probe, judge.families(block).asked)
                    raise changed(where)
            parts.clear()


def check_kept(probe: ModelProbe, findings: Findings, chunk: int, where: Path | None) -> int:
    """Query some findings of a finished run again; raise if an answer has changed. Return the number of rows."""
    some = _spread(findings.count, AT_MOST)
    held = holds(probe, findings, some, chunk)
    if not held.all():
        raise otherwise(probe, findings, some[~held], where)
    return 2 * len(some) * probe.cost


def otherwise(probe: ModelProbe, findings: Findings, lost: Positions, where: Path | None) -> RunError:
    """Return the error for stored findings with other answers; raise ``FlakyModel`` if the model is noisy."""
    for side in ("individual", "counterpart"):
        refuse_noise(probe, findings.rows(side, lost[:OF_BLOCK]))
    return changed(where)


def refuse_noise(probe: ModelProbe, rows: Any) -> None:
    """Query rows several times in the same batch; raise ``FlakyModel`` if some get two answers."""
    first = Said(*at_once(probe, rows), follows=False)
    unlike = np.zeros(len(rows), dtype=bool)
    for _ in range(OFTEN):
        unlike |= first.differs(Said(*at_once(probe, rows), follows=False), probe.criterion.needs_scores)
    if unlike.any():
        raise noisy(int(unlike.sum()), len(rows))


def changed(where: Path | None) -> RunError:
    """Return the error for a model that is not the one of the stored answers."""
    return RunError(
        f"the model has changed since the run in {where} was made: it gives other answers to tests that are stored "
        "there",
        remedy="use a new directory, or the original model",
    )


def _spread(n: int, most: int) -> Positions:
    """Choose at most ``most`` of ``n`` positions, evenly spaced.

    >>> _spread(10, 4).tolist(), _spread(3, 4).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.arange(n) if n <= most else np.arange(most) * n // most


def _at_the_edge(criterion: Criterion, judgement: Judgement) -> Mask:
    """Return a mask of gaps so close to the criterion's threshold that rounding decides."""
    gammas = [clause.gamma for clause in getattr(criterion, "clauses", ()) if clause.gamma is not None]
    edge = np.zeros(len(judgement.gap), dtype=bool)
    for gamma in gammas:
        edge |= np.isclose(judgement.gap, gamma, rtol=TOLERANCE, atol=TOLERANCE)
    return edge
