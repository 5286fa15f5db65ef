"""``eh.prove``: from arguments to a `Proof`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenhand._interrupts import watched
from evenhand._validate import check_int, check_number
from evenhand.criteria import Flip
from evenhand.engine.judge import Judge, ModelProbe
from evenhand.errors import BudgetError, DataError, ModelError
from evenhand.models.base import Model, package_of
from evenhand.models.wrap import for_space, wrap
from evenhand.proofs import additive
from evenhand.proofs.additive import Additive, Counted
from evenhand.proofs.bounding import Boxes
from evenhand.proofs.boxes import Grid, Limits, Partition, Walk, run
from evenhand.proofs.crown import Inputs, bound
from evenhand.proofs.domain import INSTEAD, UNFAIR, Domain
from evenhand.proofs.ensembles import BestFirst, Ensemble
from evenhand.proofs.features import unpack
from evenhand.proofs.linear import additive_trees, read_linear, read_one_layer, sum_trees
from evenhand.proofs.networks import Network, read_network
from evenhand.proofs.pairs import pairs_of
from evenhand.proofs.people import Within, prove_people
from evenhand.proofs.proof import Counts, Proof, Status, counts_to_dict, weights_of
from evenhand.proofs.trees import Trees, read_trees
from evenhand.spaces.base import require
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space

BOXES = 2_000_000
"""Default maximum of boxes, which take about 100 bytes each per attribute."""
SECONDS = 60.0
"""Default limit for ensembles, whose bounds close more and more slowly."""
TRIED = 2_048
"""Individuals whose decisions are compared with the model as it was read."""


@dataclass(frozen=True, eq=False)
class _Case:
    """What is proved about."""

    model: Model
    domain: Domain
    judge: Judge
    rows: npt.NDArray[Any] | None
    """Rows of the data as codes."""

    def ask(self, free: npt.NDArray[Any], group: int) -> npt.NDArray[np.bool_]:
        """Ask about individuals of a group, by codes of the free attributes."""
        rows = self.domain.rows(free, self.domain.groups[group][0])
        return self.judge.unfair(Individuals(self.domain.space, rows=rows))


@watched()
def prove(
    model: Any,
    space: Space,
    *,
    data: Any = None,
    within: Within | None = None,
    seconds: float | None = None,
    boxes: int = BOXES,
) -> Proof:
    """Prove which share of all valid individuals a model treats differently.

    The model is read, not sampled: linear models, decision trees, forests, gradient boosting and networks, also behind
    pipelines that compute each column from one attribute. Where the share cannot be proved exactly, it lies between two
    certified bounds.

    Parameters
    ----------
    model
        A fitted estimator or pipeline, a native booster, a torch or Keras network, the path of a model file, or a
        `Model` that wraps one of them.
    space
        The valid inputs, and which attributes are protected.
    data
        Real rows. The proof then also says which share of them is treated differently, and which share of people with
        the data's values, each attribute drawn independently.
    within
        Prove for each row of the data that no individual within this distance is treated differently, or find the
        nearest one that is: ``proof.people``. A share, such as 0.05, of the range of every numeric attribute, or a
        mapping by attribute to shares, to numbers of steps, or to True for any value.
    seconds
        Stop after this time with the bounds reached; Ctrl-C does the same. By default no limit, but 60 for networks,
        and for forests and boosters whose trees read several attributes.
    boxes
        Stop at this number of boxes, which limits the memory.

    Examples
    --------
    >>> import evenhand as eh
    >>> from sklearn.linear_model import LogisticRegression
    >>> space = eh.Space([eh.Integer("age", 1, 8), eh.Boolean("member")], protected="member")
    >>> model = LogisticRegression().fit([[1, 0], [2, 1], [3, 1], [7, 0], [6, 1], [8, 1]], [0, 0, 0, 1, 1, 1])
    >>> eh.prove(model, space)
    Proof: none of all 16 valid individuals is treated differently
    """
    began = time.monotonic()
    require(space, "attributes")
    if seconds is not None:
        check_number("seconds", seconds, BudgetError, above=0, remedy="leave it out for no limit")
    check_int("boxes", boxes, BudgetError, 1)
    wrapped = for_space(wrap(model), texts=False)
    binding = space.bind(data, wrapped)
    reading = read(wrapped, space)
    domain = Domain(space)
    judge = Judge(ModelProbe(wrapped, space, Flip()), 0)
    rows = None if data is None else binding.people.rows
    case = _Case(wrapped, domain, judge, rows)
    _compare(case, reading)
    limits = Limits(seconds, boxes)
    ensemble = cache(lambda: _ensemble(case, reading))
    people = None
    if within is not None:
        if rows is None:
            raise DataError("is needed for within", parameter="data", remedy="give the rows whose neighbours matter")
        places = np.arange(len(rows)) if binding.positions is None else np.asarray(binding.positions)
        people = prove_people(ensemble(), judge, rows, places, within, limits)
    if isinstance(reading, Additive):
        facts = _by_sums(case, reading)
    elif isinstance(reading, Network):
        facts = _by_sums_in_boxes(case, reading, limits)
    else:
        facts = _by_walk(case, reading, limits) if reading.labels else _by_bounds(case, ensemble(), limits)
    return Proof(
        space, wrapped, seconds=time.monotonic() - began, rows=judge.rows, _domain=domain, _judge=judge,
        data=None if data is None else _data(judge, binding.people), people=people, _ensemble=ensemble, **facts,
    )  # fmt: skip


def read(model: Model, space: Space) -> Additive | Trees | Network:
    """Read a model; raise if it cannot be read."""
    linear = read_linear(model, space)
    if linear is not None:
        return linear
    network = read_network(model, space)
    if network is not None:
        return network if network.activations else read_one_layer(network, space)
    trees = read_trees(model, space)
    if trees is None:
        raise ModelError(f"{model.name} cannot be read, so nothing can be proved about it", remedy=INSTEAD)
    stumps = None if trees.labels else additive_trees(trees, space)
    return trees if stumps is None else stumps


def _compare(case: _Case, reading: Additive | Trees | Network) -> None:
    """Raise if the model decides otherwise than as it was read, for a few individuals."""
    people = case.domain.space.probes(None, TRIED)
    answers = case.judge.probe.labels(people.rows)
    classes = case.model.classes
    if isinstance(reading, Network):
        clear, above = _network_answers(case.domain, reading, people.rows)
        expected = above if classes is None else np.asarray(classes)[above]
        if (clear & (expected != answers)).any():
            raise ModelError(f"{case.model.name} decides otherwise than its parameters say", remedy=INSTEAD)
        return
    if isinstance(reading, Additive):
        values = [terms[people.rows[:, j]] for j, terms in enumerate(reading.terms)]
    else:
        values = [_leaf_values(reading, root, people.rows) for root in reading.roots.tolist()]
    scores = np.asarray(reading.base + np.sum(values, axis=0), dtype=np.float64)
    if isinstance(reading, Trees) and reading.labels:
        clear, above = np.ones(len(people), dtype=bool), scores.astype(np.int64)
    else:
        clear, above = np.abs(scores - reading.cut) > reading.error, (scores > reading.cut).astype(np.int64)
    expected = above if classes is None else np.asarray(classes)[above]
    if (clear & (expected != answers)).any():
        raise ModelError(f"{case.model.name} decides otherwise than its parameters say", remedy=INSTEAD)


def _network_answers(
    domain: Domain, network: Network, rows: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return whose decisions the bounds of a network give, and the decisions."""
    inputs, own = Inputs(network, domain), domain.own_of(rows)
    clear, above = np.zeros(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64)
    for start in range(0, len(rows), 64):
        free = rows[start : start + 64][:, domain.columns].astype(np.int64)
        bounds = bound(network, inputs, free, free)
        which = np.arange(len(free)), [inputs.kind_of[domain.own(int(one))] for one in own[start : start + 64]]
        low = (bounds.ends.least(bounds.lower) + bounds.lower_constant)[which]
        high = (bounds.upper_constant - bounds.ends.least(-bounds.upper))[which]
        clear[start : start + 64] = (low > network.cut) | (high <= network.cut)
        above[start : start + 64] = low > network.cut
    return clear, above


def _leaf_values(trees: Trees, root: int, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the value of the leaf of a tree that each row reaches."""
    node = np.full(len(rows), root)
    flat = np.concatenate([np.asarray(table) for table in trees.tables] or [np.zeros(0, dtype=bool)])
    offset = np.concatenate([[0], np.cumsum([len(table) for table in trees.tables])]).astype(np.int64)
    todo = np.flatnonzero(trees.test[node] >= 0)
    while len(todo):
        test = trees.test[node[todo]]
        code = np.where(trees.attribute[test] < 0, 0, rows[todo, trees.attribute[test]])
        node[todo] = np.where(flat[offset[test] + code], trees.left[node[todo]], trees.right[node[todo]])
        todo = todo[trees.test[node[todo]] >= 0]
    return np.asarray(trees.value[node])


def _status(counts: Counts, complete: bool) -> Status:
    if not counts.undecided:
        return Status.EXACT if counts.unfair else Status.FAIR
    return Status.BRACKET if complete else Status.STOPPED


def _by_sums(case: _Case, reading: Additive) -> dict[str, Any]:
    """Count sums of terms."""
    domain = case.domain
    found = additive.count(reading, domain, domain.uniform, case.ask)
    counts = Counts(found.fair, found.unfair, found.undecided)
    marginals = None
    if case.rows is not None:
        weighted = additive.count(reading, domain, weights_of(domain, case.rows), case.ask, 2**18)
        marginals = Counts(weighted.fair, weighted.unfair, weighted.undecided)
    alike, apart = found.asked
    bare = Counts(found.fair - alike, found.unfair - apart, found.undecided + alike + apart)
    claim = {} if not hasattr(unpack(case.model.source)[1], "coef_") else {
        "kind": "additive",
        **counts_to_dict(bare, found.untestable),
        "exact": found.exact,
        "base": reading.base, "cut": reading.cut, "error": reading.error,
        "terms": [terms.tolist() for terms in reading.terms],
    }  # fmt: skip
    how = "the sums themselves" if found.exact else f"sums on a grid of {additive.CELLS:,} cells"
    return {
        "counts": counts, "status": _status(counts, True), "untestable": found.untestable, "marginals": marginals,
        "method": f"counting {how}", "_claim": claim,
        "counterexample": _pair(case, found.example if found.example is not None else _searched(case, reading, found)),
        "_verdict": lambda free, group: additive.verdicts(reading, domain, free, group),
    }  # fmt: skip


def _searched(case: _Case, reading: Additive, found: Counted) -> npt.NDArray[Any] | None:
    """Draw individuals until one is treated differently; None if there is hardly any."""
    from evenhand._rng import Stream

    if not found.unfair:
        return None
    for start in range(0, 2**20, 2**16):
        people, _ = case.domain.space.sampler.draw(Stream(0), start, 2**16, repeats=True)
        if not len(people):
            break
        own = case.domain.own_of(people.rows)
        for group, owns in enumerate(case.domain.groups):
            mine = np.flatnonzero(np.isin(own, owns))
            free = people.rows[mine][:, case.domain.columns]
            hits = mine[additive.verdicts(reading, case.domain, free, group) == UNFAIR]
            if len(hits):
                return np.asarray(people.rows[hits[:1]])
    return None


def _ensemble(case: _Case, reading: Additive | Trees | Network) -> Ensemble:
    """Return the leaves of trees; a sum is one tree for each attribute."""
    if isinstance(reading, Network):
        raise ModelError(
            f"{case.model.name} is a network; within= and the largest gap are for trees and linear models",
            remedy="leave out within, or search near the rows with eh.audit(model, space, data=rows)",
        )
    trees = reading if isinstance(reading, Trees) else read_trees(case.model, case.domain.space)
    return Ensemble(Grid(trees or sum_trees(reading), case.domain))  # type: ignore[arg-type]


def _by_walk(case: _Case, trees: Trees, limits: Limits) -> dict[str, Any]:
    """Walk one tree in all views."""
    parts = Partition(case.domain.sizes)
    complete = run(Walk(Grid(trees, case.domain), parts), limits)
    return _facts(case, parts, complete) | {
        "method": "product walk of a tree",
        "_claim": {"kind": "trees", "groups": [[0]]},
    }


def _by_bounds(case: _Case, ensemble: Ensemble, limits: Limits) -> dict[str, Any]:
    """Bound boxes of several trees."""
    parts = Partition(case.domain.sizes)
    limits.seconds = SECONDS if limits.seconds is None else limits.seconds
    search = BestFirst(ensemble, parts, case.ask)
    complete = run(search, limits)
    claim = {
        "kind": "trees", "groups": ensemble.groups,
        "asked": np.concatenate(search.asked) if search.asked else np.zeros(0, dtype=np.int64),
    }  # fmt: skip
    certified = package_of(unpack(case.model.source)[1]) == "sklearn"
    return _facts(case, parts, complete) | {
        "method": f"bounds of {len(ensemble.trees.roots):,} trees in boxes", "_claim": claim if certified else {},
    }  # fmt: skip


def _by_sums_in_boxes(case: _Case, network: Network, limits: Limits) -> dict[str, Any]:
    """Bound a network in boxes, and count sums in those that are left."""
    domain, parts = case.domain, Partition(case.domain.sizes)
    limits.seconds = SECONDS if limits.seconds is None else limits.seconds
    measures = [domain.uniform] + ([] if case.rows is None else [weights_of(domain, case.rows)])
    search = Boxes(network, domain, parts, case.ask, limits, measures)
    complete = run(search, limits) and search.complete
    facts = _facts(case, parts, complete)
    counts = [facts["counts"], facts["marginals"]]
    for at, (fair, unfair) in enumerate(search.totals):
        one = counts[at]
        counts[at] = Counts(one.fair + fair, one.unfair + unfair, one.undecided - fair - unfair)
    if facts["counterexample"] is None and (found := search.example()) is not None:
        facts["counterexample"] = _pair(case, domain.rows(found[0][None], domain.groups[found[1]][0]))
    return facts | {
        "counts": counts[0], "marginals": counts[1], "status": _status(counts[0], complete), "_inside": search,
        "method": f"bounds of a network with {len(network.layers)} layers in boxes, and sums counted in them",
    }  # fmt: skip


def _facts(case: _Case, parts: Partition, complete: bool) -> dict[str, Any]:
    """Sum up decided boxes."""
    domain = case.domain
    fair, unfair, undecided, untestable = domain.uniform.shares(parts.low, parts.high, parts.verdicts)
    counts = Counts(fair, unfair, undecided)
    marginals = None
    if case.rows is not None:
        weighted = weights_of(domain, case.rows).shares(parts.low, parts.high, parts.verdicts)
        marginals = Counts(*weighted[:3])
    return {
        "counts": counts, "status": _status(counts, complete), "untestable": untestable, "marginals": marginals,
        "counterexample": _pair(case, _first_unfair(domain, parts)), "_parts": parts,
    }  # fmt: skip


def _first_unfair(domain: Domain, parts: Partition) -> npt.NDArray[Any] | None:
    """Return the codes of an individual in the largest box that is treated differently."""
    leaf, group = np.nonzero(parts.verdicts == UNFAIR)
    counts = domain.uniform.count(parts.low[leaf], parts.high[leaf])
    if not len(leaf) or not counts.max():
        return None
    best = int(np.argmax(counts))
    free = domain.first_valid(parts.low[leaf[best]], parts.high[leaf[best]])
    return domain.rows(free[None], domain.groups[int(group[best])][0])


def _pair(case: _Case, row: npt.NDArray[Any] | None) -> Any:
    """Ask about an individual that is treated differently, and return the pair in the columns of findings."""
    if row is None:
        return None
    people = Individuals(case.domain.space, rows=row)
    if not case.judge.unfair(people)[0]:
        raise ModelError(
            f"{case.model.name} treats an individual alike that its parameters say is treated differently",
            remedy=INSTEAD,
        )
    return pairs_of(case.judge, people)


def _data(judge: Judge, people: Individuals) -> Counts:
    """Ask about every row of the data."""
    testable, unfair = judge.judged(people)
    return Counts(int((testable & ~unfair).sum()), int((testable & unfair).sum()))
