"""Estimates how many regions of discrimination have not been found yet, from independent individuals only."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._format import high, interval, level, percent, to_plain
from evenhand._intervals import at_most, clopper_pearson
from evenhand.errors import EstimateError
from evenhand.estimates.result import Estimate
from evenhand.runs.run import Run
from evenhand.spaces.base import require, table
from evenhand.spaces.individuals import Individuals, Rows

LEAVES, LEAF = 256, 20
"""Maximum number of leaves of the tree, and minimum number of individuals in a leaf."""


@dataclass(frozen=True)
class Remaining:
    """Regions of discrimination, found and estimated. Returned by ``eh.remaining``."""

    leaves: int
    """Regions into which the space is divided, discriminatory or not."""
    findings: int
    """Number of independent findings."""
    seen: int
    """Number of regions that they lie in."""
    total: float
    """Chao's estimate of the number of discriminatory regions, a lower bound."""
    unseen: float
    """Good and Turing's estimate of the share of discriminatory individuals in regions not found."""
    unseen_high: float
    """The upper bound of that share."""
    confidence: float
    found_by_run: int | None = None
    """Regions that a search has found."""
    missed: float | None = None
    """Share of the independent findings in regions that the search has not found."""
    missed_low: float | None = None
    missed_high: float | None = None
    left: float | None = None
    """Regions that the search has not found, by Chao's estimate."""

    @property
    def undiscovered(self) -> float:
        """Regions without an independent finding, by Chao's estimate."""
        return self.total - self.seen

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {name: to_plain(value) for name, value in {**asdict(self), "undiscovered": self.undiscovered}.items()}

    def __repr__(self) -> str:
        if not self.findings:
            if not self.unseen_high:
                return "Remaining: all individuals were judged, and none is treated differently"
            return "Remaining: insufficient evidence: there are no independent findings"
        text = (
            f"Remaining: {self.findings:,} independent findings lie in {self.seen:,} of {self.leaves:,} regions; about "
            f"{self.undiscovered:.0f} more are discriminatory, with {percent(self.unseen)} of the discriminatory "
            f"individuals (at most {high(self.unseen_high)} with {level(self.confidence)} confidence)"
        )
        if self.missed is not None and self.missed_low is not None and self.missed_high is not None:
            regions = "region" if self.found_by_run == 1 else "regions"
            text += (
                f"\n  the search found {self.found_by_run:,} {regions}; {percent(self.missed)} of the discriminatory "
                f"individuals ({interval(self.missed_low, self.missed_high)}) are elsewhere, in about "
                f"{self.left:.0f} regions"
            )
        return text


def remaining(estimate: Estimate, run: Run | None = None) -> Remaining:
    """Estimate how many regions of discrimination are still undiscovered.

    A region is a leaf of a decision tree that imitates how the model treats families: with the same decision for all
    members, or differently. The tree is grown from the first half of the kept sample, and the findings of the second
    half are counted in its leaves. Chao's estimate then gives the number of regions that have not been found, and Good
    and Turing's the share of discriminatory individuals in them.

    Parameters
    ----------
    estimate
        The result of ``eh.estimate``, whose individuals are independent. Findings of a search cannot be used, because a
        search stays near its findings.
    run
        A run whose findings are located in the regions, to estimate how much its search missed.

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
            "a run does not show what its search missed, because a search stays near its findings",
            remedy="pass an estimate, whose individuals are independent: eh.remaining(eh.estimate(model, space), run)",
        )
    if not isinstance(estimate, Estimate):
        raise EstimateError(f"must be the result of eh.estimate, got {type(estimate).__name__}", parameter="estimate")
    require(estimate.space, "attributes", "eh.remaining")
    if run is not None and (not isinstance(run, Run) or run.space != estimate.space):
        raise EstimateError("must be a run of eh.audit on the same space as the estimate", parameter="run")
    if run is not None and run.identity.criterion != estimate.criterion:
        raise EstimateError(
            f"run and estimate have different criteria: {run.identity.criterion} and {estimate.criterion}",
            remedy="use one criterion for both",
        )
    if estimate.kept.weights:
        raise EstimateError(
            "remaining regions cannot be estimated from weighted individuals",
            remedy="make the estimate without weights",
        )
    if estimate.unfinished:
        raise EstimateError("the estimate did not finish", remedy="let it finish, or sample")
    people, unfair, decided = _kept(estimate)
    half = max(1, len(people) // 2)
    tree = _tree(estimate, people[:half], unfair[:half], decided[:half])
    # If all individuals were judged, nothing is estimated and all findings count, unless some were not kept.
    whole = estimate.exact and not estimate.kept.forgotten
    start = 0 if whole else half
    found = Individuals.join([people[start:][np.flatnonzero(unfair[start:])], *estimate.kept.later])
    regions = tree.apply(_features(estimate, found.rows)) if len(found) else np.zeros(0, dtype=np.int64)
    known = None if run is None else _regions_of(tree, estimate, run)
    return _count(regions, int(tree.get_n_leaves()), known, estimate.confidence, whole)


def _kept(estimate: Estimate) -> tuple[Individuals, npt.NDArray[np.bool_], npt.NDArray[Any]]:
    kept = estimate.kept
    return Individuals.join(kept.people), kept.verdicts(), np.concatenate(kept.decided)


def _tree(estimate: Estimate, people: Individuals, unfair: npt.NDArray[np.bool_], decided: npt.NDArray[Any]) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    # The numbers of a regression are not classes, so the tree only predicts who is treated differently.
    does = np.zeros(len(decided), dtype=np.int64) if decided.dtype.kind == "f" else decided.astype(np.int64) + 1
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
    """Estimate the number of regions from how often each was found: Chao's lower bound, corrected for bias.

    Chao, "Nonparametric estimation of the number of classes in a population", Scandinavian Journal of Statistics 1984.
    The numbers of regions found once and twice show how many were not found at all.
    """
    once, twice = int((times == 1).sum()), int((times == 2).sum())
    return float(len(times) + once * (once - 1) / (2 * (twice + 1)))


def bounded(regions: npt.NDArray[np.int64], confidence: float) -> float:
    """Bound the share in regions not found: the second half of the findings shows what the first half missed.

    Both halves together have found more than the first, so the bound also holds for them.
    """
    half = len(regions) // 2
    new = int((~np.isin(regions[half:], regions[:half])).sum())
    return float(at_most(new, len(regions) - half, confidence))
