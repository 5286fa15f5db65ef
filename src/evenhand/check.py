"""Asks a run's findings again: nothing is reported that the model does not say twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.asker import Asker
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
    """Tell which of the chosen findings the model still answers as recorded."""
    out = np.zeros(len(chosen), dtype=bool)
    for start in range(0, len(chosen), chunk):
        at = chosen[start : start + chunk]
        ok = np.ones(len(at), dtype=bool)
        for side, said in (("individual", "decision"), ("counterpart", "counterpart_decision")):
            labels, _ = asker.both(findings.individuals(side, at).rows)
            ok &= same(findings.decisions.encode(labels), findings.joined()[said][at])
        out[start : start + chunk] = ok
    return out


def same(labels: npt.NDArray[Any], before: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which decisions are the same; numbers may differ by what the order of a sum changes.

    >>> same(np.array([1.0, 2.0]), np.array([1.0 + 1e-12, 2.1])).tolist()
    [True, False]
    """
    if before.dtype.kind == "f" and labels.dtype.kind == "f":
        return np.asarray(np.isclose(labels, before, rtol=TOLERANCE, atol=TOLERANCE))
    return np.asarray(labels == before, dtype=bool)
