"""How noisy a model is, and how often each row is asked so that its most frequent answers count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand.engine.probe import ModelProbe
from evenhand.engine.steadiness import ALONE, PATIENCE, PROBES, affordable
from evenhand.errors import FlakyModel
from evenhand.estimates.intervals import at_most
from evenhand.spaces.base import Families
from evenhand.spaces.findings import Decisions

MEASURED = 4_096
"""Rows by which the noise of a model is measured."""
TURNS, MORE_TURNS = 8, 64
"""How often they are asked, to tell noise from replicas that answer in turn; and how often where that is not enough."""
SEVERAL = 3
"""More than the rarest noise, which many more repeats did not show, does by chance."""
RESIDUE = 0.001
"""The share of individuals who may be misjudged where the model's noise is the same everywhere."""
MOST_HALF = 51
"""The most times that each half of the repeats asks a row."""
HOPELESS = 0.25
SHUFFLES = 1_000
"""How many shuffles of noisy answers must repeat less often than these before they are said to come in turn."""


def measure_noise(asker: ModelProbe, families: Families, seen: int) -> tuple[int, int, int]:
    """Ask families of a noisy model several times; return how many rows got two answers, of how many.

    The third number is how many rows that took.

    Raises ``FlakyModel`` where whole answers come again, as of replicas in turn: those have no majority. So they
    do where other batches gave ``seen`` rows another answer, and the same batch always gives the same.
    """
    rows, decisions, before = families.asked, Decisions(), asker.asking.calls.rows

    def ask(turns: int) -> npt.NDArray[Any]:
        # The same rows in the same order: what differs now is the model's own noise.
        with asker.asking.calls.at_once():
            return np.stack([decisions.encode(asker.both(rows)[0]) for _ in range(turns)])

    codes = ask(TURNS)
    if (codes != codes[0]).any() and repeated_pairs(codes):
        # Where few rows waver, whole answers come again by chance: more of them tell whether too often.
        turns = affordable(asker, MORE_TURNS, len(rows), PATIENCE)
        codes = np.concatenate([codes, ask(max(0, turns - TURNS))]) if turns > TURNS else codes
    unlike = int((codes[0] != codes[1]).sum())
    noise = float((codes != codes[0]).any(axis=0).mean())
    if not noise and seen >= SEVERAL:
        raise FlakyModel(
            "the prediction depends on the other rows in the batch, or on the calls before: the same rows in the "
            f"same order always get the same answer, and in other batches another; {ALONE}",
            seen / PROBES,
        )
    if in_turn(codes):
        raise FlakyModel(
            f"the model gave two answers to {noise:.1%} of {len(rows):,} rows, and the same few to all rows of a "
            "call again and again, as replicas do that answer in turn; ask one replica only",
            noise,
        )
    return unlike, len(rows), asker.asking.calls.rows - before


def in_turn(codes: npt.NDArray[Any]) -> bool:
    """Tell whether whole batches came back too often, as of replicas that answer in turn, for chance to have done it.

    ``codes`` are the answers to the same rows in the same order, one row of them for each time.

    >>> in_turn(np.tile([[0] * 20, [1] * 20], (4, 1)))
    True
    >>> in_turn(np.random.default_rng(0).integers(0, 2, (8, 20)))
    False
    """
    again = repeated_pairs(codes)
    codes = codes[:, (codes != codes[0]).any(axis=0)]
    if not again or codes.shape[1] < 2:
        # One noisy row shows nothing: its own noise looks the same.
        return False
    rng = np.random.default_rng(0)
    # If each row were noisy by itself, any order of its answers would be as likely as the one that came.
    return all(repeated_pairs(rng.permuted(codes, axis=0)) < again for _ in range(SHUFFLES))


def repeated_pairs(codes: npt.NDArray[Any]) -> int:
    """Count the pairs of batches whose answers are the same for every row.

    >>> repeated_pairs(np.array([[0, 1], [1, 1], [0, 1], [0, 1]]))
    3
    """
    # A number for each batch, which differs where the answers do.
    names = codes.astype(np.int64) @ np.random.default_rng(0).integers(1, 2**62, codes.shape[1])
    _, times = np.unique(names, return_counts=True)
    return int((times * (times - 1)).sum()) // 2


def repeats_for(noise: float, rows: int, width: int) -> int:
    """Choose how often each half of the repeats asks a row, so that most frequent answers are the usual ones.

    ``noise`` is the share of ``rows`` rows, asked twice, that got two answers; ``width`` the size of a family.

    >>> repeats_for(0.1, 256, 2)
    11
    """
    # Rather too often than not often enough: as if the noise were at the upper end of what was measured.
    likely = min(0.5, float(at_most(round(noise * rows), rows)))
    other = (1 - math.sqrt(1 - 2 * likely)) / 2
    for half in range(3, MOST_HALF + 1, 2):
        if 4 * width * _minority_wins(other, half) <= RESIDUE:
            return half
    if 4 * width * _minority_wins(other, MOST_HALF) > HOPELESS:
        raise FlakyModel(
            f"the model gave two answers to {noise:.1%} of {rows:,} rows that were asked twice, so that no verdict on "
            "it is possible; switch off what is random in it (dropout, sampling, temperature), or average its answers",
            noise,
        )
    return MOST_HALF


def _minority_wins(chance: float, repeats: int) -> float:
    """The chance that the rarer of two answers comes more often."""
    from scipy.special import bdtrc

    return float(bdtrc(repeats // 2, repeats, chance))
