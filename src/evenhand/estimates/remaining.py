"""How much is left: regions of discrimination that have not been found yet, from independent individuals only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import high, interval, level, percent, to_plain
from evenhand._stats import at_most, clopper_pearson
from evenhand.errors import EstimateError
from evenhand.estimates.result import Estimate
from evenhand.runs.run import Run
from evenhand.spaces.base import require, table
from evenhand.spaces.individuals import Individuals, Rows

LEAVES, LEAF = 256, 20
"""The most leaves of the tree, and the fewest individuals in one."""


@dataclass(frozen=True)
class Remaining:
    """Regions of discrimination: how many were come across, and how many there seem to be. Not made by hand."""

    leaves: int
    """Regions that the space is divided into, discriminatory or not."""
    findings: int
    """Independent findings that were counted."""
    seen: int
    """Regions that they lie in."""
    total: float
    """Chao's estimate of how many discriminatory regions there are, at least."""
    unseen: float
    """Good and Turing's estimate: the share of discriminatory individuals who are in regions not seen."""
    unseen_high: float
    """That share is at most this, with the confidence."""
    confidence: float
    found_by_run: int | None = None
    """Regions that a search has found."""
    missed: float | None = None
    """Share of the independent findings that are in regions which the search has not found."""
    missed_low: float | None = None
    missed_high: float | None = None
    left: float | None = None
    """Regions that the search has yet to find, by Chao's estimate."""

    @property
    def undiscovered(self) -> float:
        """Regions that the independent findings do not show, by Chao's estimate."""
        return self.total - self.seen

    def to_dict(self) -> dict[str, Any]:
        """Give everything in plain values."""
        return {name: to_plain(value) for name, value in {**asdict(self), "undiscovered": self.undiscovered}.items()}

    def __repr__(self) -> str:
        if not self.findings:
            if not self.unseen_high:
                return "Remaining: no individual is treated differently, and everyone was judged"
            return "Remaining: insufficient evidence: no independent finding tells where discriminatory regions are"
        text = (
            f"Remaining: {self.findings:,} independent findings lie in {self.seen:,} of {self.leaves:,} regions; about "
            f"{self.undiscovered:.0f} more are discriminatory, with {percent(self.unseen)} of the discriminatory "
            f"individuals (at most {high(self.unseen_high)} with {level(self.confidence)} confidence)"
        )
        if self.missed is not None and self.missed_low is not None and self.missed_high is not None:
            text += (
                f"\n  the search found {self.found_by_run:,} regions; {percent(self.missed)} of the discriminatory "
                f"individuals ({interval(self.missed_low, self.missed_high)}) are elsewhere, in about "
                f"{self.left:.0f} regions"
            )
        return text


def remaining(estimate: Estimate, run: Run | None = None) -> Remaining:
    """Estimate how many regions of discrimination are still undiscovered.

    A region is a leaf of a decision tree that imitates what the model does with families: decide for all of them alike,
    one way or the other, or treat them differently. The first half of the kept sample grows the tree; the findings of
    the rest are counted in it, so that to them the regions are given. Chao's and Good and Turing's estimates then say
    how many regions have not shown up, and how much lies in them.

    Parameters
    ----------
    estimate
        What ``eh.estimate`` returned: its individuals are independent. The findings of a search are not, and cannot
        be used: it stays where it finds.
    run
        A search, of any kind, whose findings are looked up in the regions: how much has it missed?

    Examples
    --------
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer(n, 0, 99) for n in "abc"] + [eh.Boolean("sex")], protected="sex")
    >>> model = lambda f: (f["a"] < 50) & f["sex"] | (f["b"] < 50) & ~f["sex"]
    >>> left = eh.remaining(eh.estimate(model, space, eh.populations.Uniform(exact=False), samples=5000))
    >>> left.undiscovered
    0.0
    """
    if isinstance(estimate, Run):
        raise EstimateError(
            "a search's findings say nothing of what it has not found, because it goes where findings are;\n"
            "give an estimate, whose individuals are independent: eh.remaining(eh.estimate(model, space), run)"
        )
    if not isinstance(estimate, Estimate):
        raise EstimateError(f"remaining needs what eh.estimate returned, got {type(estimate).__name__}")
    require(estimate.space, "attributes", "eh.remaining")
    if run is not None and (not isinstance(run, Run) or run.space != estimate.space):
        raise EstimateError("run must be a run of eh.audit on the very space of the estimate")
    if run is not None and run.identity.criterion != estimate.criterion:
        raise EstimateError(
            f"run and estimate must have one criterion; the run has {run.identity.criterion}, the estimate "
            f"{estimate.criterion}"
        )
    if estimate.kept.weights:
        raise EstimateError("regions are counted by individuals who count alike; make the estimate without weights")
    if estimate.unfinished:
        raise EstimateError("the estimate did not finish, so what it left out is unknown; let it finish, or sample")
    people, unfair, said = _kept(estimate)
    half = max(1, len(people) // 2)
    tree = _tree(estimate, people[:half], unfair[:half], said[:half])
    # Where everyone was asked nothing is estimated, and all findings count; unless some were not kept.
    whole = estimate.exact and not estimate.kept.forgotten
    start = 0 if whole else half
    found = Individuals.join([people[start:][np.flatnonzero(unfair[start:])], *estimate.kept.later])
    regions = tree.apply(_features(estimate, found.rows)) if len(found) else np.zeros(0, dtype=np.int64)
    known = None if run is None else _regions_of(tree, estimate, run)
    return _count(regions, int(tree.get_n_leaves()), known, estimate.confidence, whole)


def _kept(estimate: Estimate) -> tuple[Individuals, npt.NDArray[np.bool_], npt.NDArray[Any]]:
    kept = estimate.kept
    return Individuals.join(kept.people), kept.verdicts(), np.concatenate(kept.said)


def _tree(estimate: Estimate, people: Individuals, unfair: npt.NDArray[np.bool_], said: npt.NDArray[Any]) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    # Numbers of a regression are no classes: there the tree tells only who is treated differently.
    does = np.zeros(len(said), dtype=np.int64) if said.dtype.kind == "f" else said.astype(np.int64) + 1
    does[unfair] = -1
    tree = DecisionTreeClassifier(
        max_leaf_nodes=LEAVES, min_samples_leaf=LEAF, class_weight="balanced", random_state=estimate.seed % 2**32
    )
    return tree.fit(_features(estimate, people.rows), does)


def _features(estimate: Estimate, rows: Rows) -> npt.NDArray[np.float32]:
    return rows[:, table(estimate.space).free_columns].astype(np.float32)


def _regions_of(tree: Any, estimate: Estimate, run: Run) -> npt.NDArray[np.int64]:
    if not run.found:
        return np.zeros(0, dtype=np.int64)
    return np.unique(tree.apply(_features(estimate, run.pairs.individuals().rows)))


def _count(
    regions: npt.NDArray[np.int64],
    leaves: int,
    known: npt.NDArray[np.int64] | None,
    confidence: float,
    whole: bool = False,
) -> Remaining:
    n = len(regions)
    seen, times = np.unique(regions, return_counts=True)
    total, unseen, most = float(len(seen)), 0.0, 0.0
    if not whole:
        total = min(float(leaves), chao(times))
        unseen = float((times == 1).sum() / n) if n else 1.0
        most = bounded(regions, confidence)
    given: dict[str, Any] = {}
    if known is not None:
        elsewhere = int((~np.isin(regions, known)).sum())
        share = elsewhere / n if n else None
        low, high = (share, share) if whole else clopper_pearson(elsewhere, n, confidence)
        everywhere = max(total, float(len(np.union1d(seen, known))))
        given = {
            "found_by_run": len(known),
            "missed": share,
            "missed_low": None if low is None else float(low),
            "missed_high": None if high is None else float(high),
            "left": everywhere - len(known),
        }
    return Remaining(leaves, n, len(seen), total, unseen, most, confidence, **given)


def chao(times: npt.NDArray[np.int64]) -> float:
    """Estimate how many regions there are from how often each was met: Chao's lower bound, corrected for its bias.

    Chao, "Nonparametric estimation of the number of classes in a population", Scandinavian Journal of Statistics 1984.
    Regions that were met once or twice tell how many were not met at all.

    >>> chao(np.array([5, 4, 1, 1, 2]))
    5.5
    """
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    return float(len(times) + once * (once - 1) / (2 * (twice + 1)))


def bounded(regions: npt.NDArray[np.int64], confidence: float) -> float:
    """Bound the share in regions not seen: the second half of the findings tells what the first has not seen.

    Both halves together have seen more than the first, so the bound holds for them as well.
    """
    half = len(regions) // 2
    new = int((~np.isin(regions[half:], regions[:half])).sum())
    return float(at_most(new, len(regions) - half, confidence))
