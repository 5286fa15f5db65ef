"""Asks a run's findings again: nothing is reported that the model does not say twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
from evenhand.criterion import Outputs
from evenhand.errors import FlakyModel
from evenhand.findings import Findings

MOST = 10_000
TOLERANCE = 1e-6


def confirm(asker: Asker, findings: Findings, seed: int, chunk: int) -> int:
    """Ask findings again, all of up to 10,000 and else a seeded choice; return how many rows that took.

    Raises ``FlakyModel`` if the model takes one back.
    """
    if not findings.count:
        return 0
    if findings.count <= MOST:
        chosen = np.arange(findings.count)
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(findings.count, MOST, replace=False))
    held = holds(asker, findings, chosen, chunk)
    noise = 1 - float(held.mean())
    if noise:
        raise FlakyModel(
            f"{(~held).sum():,} of {len(chosen):,} findings that were asked again got another answer; the model "
            "answers the same row differently: switch off what is random in it, or check that its answer to a row "
            "does not depend on the other rows of the batch",
            noise,
        )
    return 2 * len(chosen) * asker.cost


def holds(asker: Asker, findings: Findings, chosen: npt.NDArray[np.int64], chunk: int) -> npt.NDArray[np.bool_]:
    """Tell which of the chosen findings the model still answers as recorded, and still treats differently."""
    parts = [_holds(asker, findings, chosen[i : i + chunk]) for i in range(0, len(chosen), chunk)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _holds(asker: Asker, findings: Findings, at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    sides = [asker.both(findings.rows(side, at)) for side in ("individual", "counterpart")]
    ok = np.ones(len(at), dtype=bool)
    for (labels, _), said in zip(sides, ("decision", "counterpart_decision"), strict=True):
        ok &= same(findings.decisions.encode(labels), findings.taken(said, at))
    scores = [scores for _, scores in sides if scores is not None]
    if scores and asker.criterion.needs_scores:
        labels = np.stack([labels for labels, _ in sides], axis=1)
        own = np.zeros(len(at), dtype=np.int64)
        judged = asker.criterion.judge(Outputs(labels, np.stack(scores, axis=1), own))
        # A pair at the very edge of gamma counts if its gap is the stored one.
        ok &= judged.unfair | np.isclose(judged.gap, findings.taken("gap", at), rtol=TOLERANCE, atol=TOLERANCE)
    return ok


def same(labels: npt.NDArray[Any], before: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which decisions are the same; numbers may differ by what the order of a sum changes.

    >>> same(np.array([1.0, 2.0]), np.array([1.0 + 1e-12, 2.1])).tolist()
    [True, False]
    """
    if before.dtype.kind == "f" and labels.dtype.kind == "f":
        return np.asarray(np.isclose(labels, before, rtol=TOLERANCE, atol=TOLERANCE))
    return np.asarray(labels == before, dtype=bool)
