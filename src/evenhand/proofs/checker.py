"""Checks the certificate of a proof against a model, with none of the code that made it.

A certificate of trees is a tree of splits, which is why its boxes cover the space and do not overlap, and a verdict for
each box. The checker reads the model's trees itself, finds for every box which leaves can be reached, with one set of
protected values after the other, and counts who is valid. A certificate of a sum of terms is counted again, in another
way. Every figure of the certificate must follow.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import math
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import check_limit, parse_json
from evenhand.errors import RunError
from evenhand.models.base import Model
from evenhand.models.wrap import wrap
from evenhand.spaces.tabular import Space
from evenhand.spaces.toml import loads

FAIR, UNFAIR, UNDECIDED, UNTESTABLE, INVALID = range(5)
FIELDS = {"format", "version", "space", "model", "threshold", "status", "counts", "kind", "sha256"}
CELLS = 2**24
"""Cells of the grid for sums; more than those of the prover, so that the bounds are inside its bounds."""
CHUNK = 2_048
"""Boxes that are looked at together."""
FORESTS = {"RandomForestClassifier", "ExtraTreesClassifier"}
BOOSTERS = {"GradientBoostingClassifier", "HistGradientBoostingClassifier"}
WRITTEN = "name a file that proof.save, or evenhand prove --save, wrote"
KINDS = {"trees": {"splits", "boxes", "groups"}, "additive": {"exact", "base", "cut", "error", "terms"}}


@dataclass(frozen=True)
class ProofCheck:
    """What a certificate proves: numbers of valid individuals, by boxes."""

    fair: int
    unfair: int
    undecided: int
    untestable: int
    boxes: int

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        total = self.fair + self.unfair + self.undecided
        return (
            f"confirmed: {self.unfair:,} of {total:,} valid individuals are certainly treated differently, and "
            f"{self.undecided:,} are undecided"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers."""
        return asdict(self)

    def __repr__(self) -> str:
        return f"ProofCheck: {self.sentence}"


def refused(why: str) -> RunError:
    """Return the error for a certificate that does not hold."""
    return RunError(
        f"the certificate is refused: {why}",
        remedy="make the proof again, and save it: proof.save(file), or evenhand prove --save FILE",
    )


def check_proof(path: str | Path, model: Any) -> ProofCheck:
    """Check a certificate against a model; raise RunError if anything in it does not hold.

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> space = eh.Space([eh.Integer("age", 1, 4), eh.Boolean("member")], protected="member")
    >>> model = DecisionTreeClassifier().fit([[1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [4, 1]], [0, 0, 0, 1, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     eh.prove(model, space).save(f"{folder}/proof.json.gz")
    ...     eh.check_proof(f"{folder}/proof.json.gz", model)
    ProofCheck: confirmed: 2 of 8 valid individuals are certainly treated differently, and 0 are undecided
    """
    try:
        with gzip.open(path) as file:
            raw = file.read(2**30 + 1)
    except FileNotFoundError:
        raise RunError("there is no such file", parameter="path", value=str(path), remedy="check the path") from None
    except (OSError, EOFError, zlib.error) as error:
        raise RunError(f"{path} is not a certificate: {error}", remedy=WRITTEN) from None
    check_limit("json_bytes", len(raw), path, most=2**30)
    try:
        content = parse_json(raw, path, values=2**28)
    except ValueError as error:
        raise RunError(f"{path} is not a certificate: {error}", remedy=WRITTEN) from None
    _check_shape(content)
    space, wrapped = loads(content["space"], str(path)), wrap(model)
    if wrapped.threshold != content["threshold"]:
        wrapped = wrapped.with_options(threshold=content["threshold"])
    world = World(space, wrapped)
    try:
        found = _boxes(content, world) if content["kind"] == "trees" else _sum(content, world)
    except (KeyError, IndexError, TypeError, OverflowError) as error:
        raise refused(f"it is damaged ({type(error).__name__})") from None
    claimed = [content["counts"][name] for name in ("fair", "unfair", "undecided", "untestable")]
    if claimed != list(found[:4]):
        raise refused(
            f"it claims {claimed} individuals that are fair, unfair, undecided and untestable, not {found[:4]}"
        )
    expected = {"exact", "fair"} if not claimed[2] else {"bracket", "stopped"}
    if content["status"] not in expected or (content["status"] == "fair") != (claimed[1] == claimed[2] == 0):
        raise refused(f"its status is {content['status']!r}")
    return ProofCheck(*found)


def _check_shape(content: Any) -> None:
    known = isinstance(content, dict) and content.get("format") == "evenhand proof" and content.get("kind") in KINDS
    if not known or content.get("version") != 1 or set(content) != FIELDS | KINDS[content["kind"]]:
        raise refused("it has other fields than a proof")
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, separators=(",", ":"), sort_keys=True)
    if hashlib.sha256(text.encode()).hexdigest() != content["sha256"]:
        raise refused("its digest does not match its content")


class World:
    """The individuals of a space, and the columns of a model's final step."""

    def __init__(self, space: Space, model: Model) -> None:
        if space.sampled:
            raise refused("its families are samples")
        self.space, self.model = space, model
        self.free, self.protected = space.free_columns, space.protected_columns
        self.sizes = [space.coding.sizes[j] for j in self.free]
        self.owns = list(itertools.product(*(range(space.coding.sizes[j]) for j in self.protected)))
        tied = {name for rule in space.constraints for name in rule.names}
        self.tied = [i for i, j in enumerate(self.free) if space.names[j] in tied]
        linked = {j for ends in space.link_tables.values() for j in ends}
        varying = linked or tied & set(space.protected)
        self.groups = [[i] for i in range(len(self.owns))] if varying else [list(range(len(self.owns)))]
        self.columns, self.depends = self._columns()

    def combinations(self, places: list[int]) -> Any:
        """Return all combinations of codes of some free attributes; the others have their first value."""
        shape = [self.sizes[i] for i in places]
        free = np.zeros((math.prod(shape), len(self.sizes)), dtype=np.int64)
        free[:, places] = np.indices(shape).reshape(len(shape), math.prod(shape)).T
        return free

    def alike(self, j: int, first: Any, second: Any, terms: Any) -> Any:
        """Whether codes of a column of the space are the same to the model."""
        if not terms.any():
            return np.ones(len(first), dtype=bool)
        both = np.column_stack([one for one, at in zip(self.columns, self.depends, strict=True) if at == j])
        return (both[first] == both[second]).all(axis=1)

    def maps(self, own: int, other: int) -> dict[int, Any]:
        """Return new codes of linked attributes where one's protected values become others."""
        out: dict[int, Any] = {}
        for column, ends in self.space.link_tables.items():
            at = self.protected.index(column)
            if self.owns[own][at] != self.owns[other][at]:
                for j, table in ends.items():
                    i = self.free.index(j)
                    out[i] = table[self.owns[other][at]][out.get(i, np.arange(self.sizes[i]))]
        return out

    def rows(self, free: Any, own: int, other: int) -> Any:
        """Return rows of individuals, or of their counterparts."""
        rows = np.empty((len(free), len(self.space.names)), dtype=np.int32)
        for i, j in enumerate(self.free):
            rows[:, j] = free[:, i]
        for i, table in self.maps(own, other).items():
            rows[:, self.free[i]] = table[free[:, i]]
        rows[:, self.protected] = self.owns[other]
        return rows

    def _columns(self) -> tuple[list[Any], list[int]]:
        """Return the columns of the final step, by code of the attribute that each depends on."""
        steps, estimator = [], self.model.source
        while hasattr(estimator, "steps") or hasattr(estimator, "best_estimator_"):
            if hasattr(estimator, "steps"):
                steps += [step for _, step in estimator.steps[:-1] if hasattr(step, "transform")]
                estimator = estimator.steps[-1][1]
            else:
                estimator = estimator.best_estimator_
        self.final = estimator
        sizes = self.space.coding.sizes
        middle = [size // 2 for size in sizes]
        blocks = [np.tile(np.array(middle, dtype=np.int32), (size, 1)) for size in sizes]
        for j, block in enumerate(blocks):
            block[:, j] = np.arange(len(block))
        frame = self.space.inputs(np.concatenate(blocks), self.model.input, self.model.columns)
        try:
            table: Any = self.model.pick(frame)
            prepare = getattr(self.model, "_prepare", None)
            table = table if prepare is None else prepare(table)
            for step in steps:
                table = step.transform(table)
            table = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
            table = table if table.dtype.kind == "f" else table.astype(np.float64)
        except Exception as error:
            # Whatever the model's own code raises: the model does not fit the certificate's space.
            raise refused(f"the model cannot read individuals of its space ({type(error).__name__})") from None
        parts = np.split(table, np.cumsum(sizes)[:-1])
        out, depends = [], []
        for k in range(table.shape[1]):
            moving = [j for j, part in enumerate(parts) if len({value.tobytes() for value in part[:, k]}) > 1]
            if len(moving) > 1:
                raise refused(f"column {k} of the model's final step depends on several attributes")
            depends.append(moving[0] if moving else -1)
            out.append(parts[moving[0] if moving else 0][:, k])
        return out, depends


def _boxes(content: Any, world: World) -> tuple[int, int, int, int, int]:
    """Check every box of a certificate of trees."""
    low, high = _covering(content, world)
    reach = Reach(world, content["groups"], low, high)
    verdicts = np.array(content["boxes"]["verdicts"], dtype=np.int64)
    if verdicts.shape != (len(low), len(world.groups)) or not np.isin(verdicts, range(5)).all():
        raise refused("a box has no verdict")
    totals = [0] * 5
    for group, owns in enumerate(world.groups):
        own, verdict = owns[0], verdicts[:, group]
        inside = _valid(world, low, high, own, own)
        # The range of decisions of all members, and the least and largest decision that some member certainly gets.
        least, most = np.full(len(low), np.inf), np.full(len(low), -np.inf)
        sure_least, sure_most = least.copy(), most.copy()
        members, clear = np.zeros(len(low), dtype=np.int64), np.ones(len(low), dtype=bool)
        for other in range(len(world.owns)):
            both = _valid(world, low, high, own, other)
            there = both > 0
            clear &= ~there | (both == inside)
            members += there
            bottom, top = reach.decisions(own, other)
            least, most = (
                np.where(there, np.minimum(least, bottom), least),
                np.where(there, np.maximum(most, top), most),
            )
            sure_least = np.where(there, np.minimum(sure_least, top), sure_least)
            sure_most = np.where(there, np.maximum(sure_most, bottom), sure_most)
        several, absent = clear & (members > 1), inside == 0
        holds = (
            several & (reach.same | (least == most)),
            several & (sure_least < sure_most),
            ~absent,
            members < 2,
            absent,
        )
        for number, reason in enumerate(holds):
            if (wrong := (verdict == number) & ~(reason | absent)).any():
                raise refused(f"the verdict of box {int(np.flatnonzero(wrong)[0])} does not follow from the model")
            totals[number] += len(owns) * int(sum(inside[verdict == number].tolist()))
    return (totals[0], totals[1], totals[2], totals[3], len(low))


def _covering(content: Any, world: World) -> tuple[Any, Any]:
    """Follow the splits from the whole space; the boxes must be exactly the parts that are not split."""
    column, cut, lower = (np.array(content["splits"][name], dtype=np.int64) for name in ("column", "cut", "lower"))
    number = np.array(content["boxes"]["number"], dtype=np.int64)
    nodes, low = np.zeros(1, dtype=np.int64), np.zeros((1, len(world.sizes)), dtype=np.int64)
    high, found = low + np.array(world.sizes) - 1, []
    while len(nodes):
        ends = column[nodes] == -1
        found.append((nodes[ends], low[ends], high[ends]))
        nodes, low, high = nodes[~ends], low[~ends], high[~ends]
        i, at, rows = column[nodes], cut[nodes], np.arange(len(nodes))
        if not ((i >= 0) & (low[rows, i] < at) & (at <= high[rows, i]) & (lower[nodes] > nodes)).all():
            raise refused("a split does not divide its box")
        upper, under = low.copy(), high.copy()
        upper[rows, i], under[rows, i] = at, at - 1
        nodes = np.concatenate([lower[nodes], lower[nodes] + 1])
        low, high = np.concatenate([low, upper]), np.concatenate([under, high])
    numbers, low, high = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(numbers)
    if not np.array_equal(numbers[order], np.sort(number)) or len(np.unique(number)) < len(number):
        raise refused("its boxes do not cover the space, or overlap")
    place = order[np.searchsorted(numbers[order], number)]
    low, high = low[place], high[place]
    ends = np.ascontiguousarray(np.concatenate([low, high], axis=1), dtype="<i4")
    if hashlib.sha256(ends.tobytes()).hexdigest() != content["boxes"]["ends"]:
        raise refused("a box is not where its splits put it")
    return low, high


def _valid(world: World, low: Any, high: Any, own: int, other: int) -> Any:
    """Count the combinations of free values in boxes for which an individual and a counterpart are valid."""
    loose = [i for i in range(low.shape[1]) if i not in world.tied]
    small = math.prod(world.sizes) < 2**62
    out = (high - low + 1)[:, loose].astype(np.int64 if small else object).prod(axis=1)
    if not world.tied:
        return out
    free = world.combinations(world.tied)
    valid = world.space.valid(world.rows(free, own, own)) & world.space.valid(world.rows(free, own, other))
    valid = valid.reshape([world.sizes[i] for i in world.tied])
    counts: dict[Any, int] = {}
    for row, ends in enumerate(zip(low[:, world.tied].tolist(), high[:, world.tied].tolist(), strict=True)):
        key = tuple(map(tuple, ends))
        if key not in counts:
            counts[key] = int(valid[tuple(slice(x, y + 1) for x, y in zip(*ends, strict=True))].sum())
        out[row] *= counts[key]
    return out


class Reach:
    """Which leaves of trees boxes reach, one bit each, and the decisions that these allow.

    Trees that the certificate groups are taken together: their leaves are the intersections of the trees' leaves.
    """

    def __init__(self, world: World, groups: Any, low: Any, high: Any) -> None:
        self.world, model = world, _read(world)
        numbers = sorted(number for group in groups for number in group)
        if numbers != list(range(len(model.trees))) or not all(groups):
            raise refused("its groups are not the trees of the model")
        self.edges = np.concatenate([[0], np.cumsum(world.sizes)])
        self.views: dict[Any, int] = {}
        found: dict[Any, list[int]] = {}
        for own, other in itertools.product(range(len(world.owns)), repeat=2):
            if self._view(own, other) in self.views:
                continue
            at = self.views.setdefault(self._view(own, other), len(self.views))
            for number, group in enumerate(groups):
                for leaf in self._leaves([model.trees[tree] for tree in group], own, other):
                    found.setdefault((number, *leaf), []).append(at)
        keys = sorted(found)
        group_of = np.array([key[0] for key in keys])
        words = -(-np.bincount(group_of) // 64)
        self.starts = np.concatenate([[0], np.cumsum(words)[:-1]])
        rank = np.arange(len(keys)) - np.searchsorted(group_of, group_of)
        self.bits, self.size = 64 * self.starts[group_of] + rank, int(words.sum())
        self.values = np.zeros(64 * self.size)
        self.values[self.bits] = [key[1] for key in keys]
        packed = np.frombuffer(b"".join(key[2] for key in keys), dtype=np.uint8).reshape(len(keys), -1)
        cells = np.unpackbits(packed, axis=1, count=int(self.edges[-1]))
        present = np.zeros((len(keys), len(self.views)), dtype=np.uint8)
        for leaf, key in enumerate(keys):
            present[leaf, found[key]] = 1
        views, everything = self._pack(present), self._pack(np.ones((len(keys), 1), dtype=np.uint8))
        common = np.bitwise_and.reduce(views, axis=0)
        parts = [(i, cells[:, self.edges[i] : self.edges[i + 1]]) for i in range(len(world.sizes))]
        tables = [self._meets(part, low[:, i], high[:, i]) for i, part in parts if not part.all()]
        self.bottom, self.top = np.zeros((2, len(views), len(low)), dtype=np.int64)
        self.same = np.zeros(len(low), dtype=bool)
        for start in range(0, len(low), CHUNK):
            rows = slice(start, start + CHUNK)
            reached = np.repeat(everything, len(low[rows]), axis=0)
            for table, which in tables:
                reached &= table[which[rows]]
            self.same[rows] = ((reached & ~common) == 0).all(axis=1)
            for view, mask in enumerate(views):
                self.bottom[view, rows], self.top[view, rows] = model.decisions(*self._ends(reached & mask))

    def decisions(self, own: int, other: int) -> tuple[Any, Any]:
        """Return the least and the largest decision that a member of the families in boxes gets."""
        view = self.views[self._view(own, other)]
        return self.bottom[view], self.top[view]

    def _view(self, own: int, other: int) -> Any:
        maps = self.world.maps(own, other)
        return self.world.owns[other], tuple((i, maps[i].tobytes()) for i in sorted(maps))

    def _leaves(self, trees: list[Any], own: int, other: int) -> Any:
        """Return the value, the codes of all free attributes, and the nodes, of the leaves of trees together."""
        cells, values = np.ones((1, int(self.edges[-1])), dtype=bool), np.zeros(1)
        nodes: list[tuple[int, ...]] = [()]
        for tree in trees:
            ends, masks = self._one(tree, own, other)
            both = cells[:, None, :] & masks[None, :, :]
            first, second = np.nonzero(np.logical_or.reduceat(both, self.edges[:-1], axis=2).all(axis=2))
            cells, values = both[first, second], values[first] + tree[4][ends][second]
            nodes = [(*nodes[a], int(ends[b])) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
        return zip(values.tolist(), (one.tobytes() for one in np.packbits(cells, axis=1)), nodes, strict=True)

    def _one(self, tree: Any, own: int, other: int) -> tuple[Any, Any]:
        """Return the leaves of a tree, and the codes of all free attributes that reach each."""
        world, maps, (column, left, below, above, _) = self.world, self.world.maps(own, other), tree
        leaves, todo = [], [(0, np.ones(int(self.edges[-1]), dtype=bool))]
        while todo:
            node, mask = todo.pop()
            if below[node] < 0:
                leaves.append((node, mask))
                continue
            j, goes = world.depends[column[node]], left[node]
            if j not in world.free:
                code = world.owns[other][world.protected.index(j)] if j >= 0 else 0
                todo.append((below[node] if goes[code] else above[node], mask))
                continue
            i = world.free.index(j)
            goes = goes[maps[i]] if i in maps else goes
            part = slice(self.edges[i], self.edges[i + 1])
            for child, way in ((below[node], goes), (above[node], ~goes)):
                inside = mask.copy()
                inside[part] &= way
                if inside[part].any():
                    todo.append((child, inside))
        return np.array([node for node, _ in leaves]), np.array([mask for _, mask in leaves])

    def _pack(self, members: Any) -> Any:
        """Return the words of each column of members, which are leaves."""
        out = np.zeros((members.shape[1], 64 * self.size), dtype=np.uint8)
        out[:, self.bits] = members.T
        return np.packbits(out, axis=1, bitorder="little").view(np.uint64)

    def _meets(self, cells: Any, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the leaves that meet each interval of codes of an attribute, and which interval each box has."""
        width = cells.shape[1] + 1
        ends, which = np.unique(low * width + high, return_inverse=True)
        before = np.pad(np.cumsum(cells, axis=1, dtype=np.int64), ((0, 0), (1, 0)))
        inside = (before[:, ends % width + 1] > before[:, ends // width]).astype(np.uint8)
        return self._pack(inside), which

    def _ends(self, reached: Any) -> tuple[Any, Any]:
        """Return the sums of the least and of the largest values of each group's leaves, which are in order."""
        filled, offset = reached.copy(), 64 * np.arange(self.size)
        for shift in (1, 2, 4, 8, 16, 32):
            filled |= filled >> np.uint64(shift)
        first = np.bitwise_count(~reached & (reached - np.uint64(1))).astype(np.int64) + offset
        last = np.bitwise_count(filled).astype(np.int64) - 1 + offset
        first[reached == 0], last[reached == 0] = len(self.values), -1
        least, most = np.minimum.reduceat(first, self.starts, axis=1), np.maximum.reduceat(last, self.starts, axis=1)
        return self.values[least].sum(axis=1), self.values[most].sum(axis=1)


@dataclass(frozen=True)
class Ensemble:
    """Trees, read again: the column of each node, the codes that go left, the nodes below, and the values."""

    trees: list[Any]
    base: float = 0.0
    cut: float = 0.0
    error: float = 0.0
    labels: bool = False

    def decisions(self, least: Any, most: Any) -> tuple[Any, Any]:
        """Return the least and the largest decision that bounds of the score allow."""
        if self.labels:
            return least, most
        return self.base + least > self.cut + self.error, self.base + most > self.cut - self.error


def _read(world: World) -> Ensemble:
    """Read a tree, a forest or a booster of scikit-learn."""
    final, threshold, name = world.final, world.model.threshold, type(world.final).__name__
    if name in {"DecisionTreeClassifier", "ExtraTreeClassifier"}:
        shares = final.tree_.value[:, 0, :]
        value = shares.argmax(axis=1) if threshold is None else shares[:, -1] >= threshold
        return Ensemble([_nodes(world, final.tree_, value)], labels=True)
    if name not in {*FORESTS, *BOOSTERS} or len(final.classes_) != 2:
        raise refused(f"the model is a {name}, of which there are no certificates")
    base, cut, loose = 0.0, 0.0, 0.0
    if name in BOOSTERS and threshold is not None:
        cut, loose = math.log(threshold / (1 - threshold)), 1e-15 / (threshold * (1 - threshold))
    if name == "GradientBoostingClassifier":
        if final.loss == "exponential" or type(final.init_).__name__ not in ("DummyClassifier", "str"):
            raise refused("the model is a booster of another kind")
        base = float(np.ravel(final._raw_predict_init(np.zeros((1, final.n_features_in_), dtype=np.float32)))[0])
        rate = final.learning_rate
        trees = [_nodes(world, one.tree_, rate * one.tree_.value[:, 0, 0]) for one in final.estimators_[:, 0]]
    elif name == "HistGradientBoostingClassifier":
        base = float(np.ravel(final._baseline_prediction)[0])
        trees = [_hist_nodes(world, one.nodes) for (one,) in final._predictors]
    else:
        cut, count, minus = threshold or 0.0, len(final.estimators_), float(threshold is None)
        shares = [(one.tree_, one.tree_.value[:, 0, :]) for one in final.estimators_]
        trees = [_nodes(world, tree, (share[:, 1] - minus * share[:, 0]) / count) for tree, share in shares]
    largest = sum(float(np.abs(tree[4]).max()) for tree in trees) + abs(base) + abs(cut) + 1
    error = 2 * (len(trees) + 4) * float(np.finfo(np.float64).eps) * largest + 8 * loose
    return Ensemble(trees, base, cut, error)


def _nodes(world: World, tree: Any, value: Any) -> Any:
    """Return the columns, the codes that go left, the nodes below, and the values."""
    left = []
    absent = getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))
    for k, threshold, to_left in zip(tree.feature.tolist(), tree.threshold.tolist(), absent.tolist(), strict=True):
        values = world.columns[k].astype(np.float32)
        left.append(np.where(np.isnan(values), bool(to_left), values.astype(np.float64) <= threshold))
    inner = tree.children_left >= 0
    return tree.feature, left, tree.children_left, tree.children_right, np.where(inner, 0.0, value)


def _hist_nodes(world: World, nodes: Any) -> Any:
    """Return the same of a tree of HistGradientBoosting."""
    if nodes["is_categorical"].any() or getattr(world.final, "_preprocessor", None) is not None:
        raise refused("the model has splits by categories")
    left = []
    for one in nodes:
        values = world.columns[one["feature_idx"]].astype(np.float64)
        left.append(np.where(np.isnan(values), bool(one["missing_go_to_left"]), values <= one["num_threshold"]))
    leaf = nodes["is_leaf"].astype(bool)
    below, above = (np.where(leaf, -1, nodes[side].astype(np.int64)) for side in ("left", "right"))
    return nodes["feature_idx"], left, below, above, np.where(leaf, nodes["value"], 0.0)


def _terms(world: World) -> tuple[list[Any], float]:
    """Return the term of each code of each column of the space, and the number that they are added to."""
    sizes = world.space.coding.sizes
    terms, final = [np.zeros(size) for size in sizes], world.final
    if hasattr(final, "coef_"):
        weights = np.ravel(final.coef_.toarray() if hasattr(final.coef_, "toarray") else final.coef_)
        base = [float(np.ravel(final.intercept_)[0])]
        for weight, values, j in zip(weights.tolist(), world.columns, world.depends, strict=True):
            if j < 0:
                base.append(weight * float(values[0]))
            else:
                terms[j] += weight * values.astype(np.float64)
        return terms, math.fsum(base)
    raise refused(f"the model is a {type(final).__name__}, not linear")


def _sum(content: Any, world: World) -> tuple[int, int, int, int, int]:
    """Check a certificate of a sum of terms: compare the terms with the model's, and count again."""
    terms, base = _terms(world)
    error, cut = float(content["error"]), float(content["cut"])
    claimed = [np.array(one, dtype=np.float64) for one in content["terms"]]
    size = sum(float(np.abs(one).max()) for one in terms) + abs(base) + 1
    least = np.finfo(np.float64).eps * size
    threshold = world.model.threshold
    wanted = 0.0 if threshold is None else threshold
    if threshold is not None and hasattr(world.final, "predict_proba"):
        wanted = math.log(threshold / (1 - threshold))
    near = least <= error <= 1e-2 * size and abs(cut - wanted) <= error and abs(base - content["base"]) <= error
    if not near or any(
        np.shape(a) != b.shape or (np.abs(a - b) > error).any() for a, b in zip(claimed, terms, strict=True)
    ):
        raise refused("its terms are not those of the model")
    fair, unfair, undecided, untestable = _count(world, terms, base, cut, error, bool(content["exact"]))
    said = [content["counts"][name] for name in ("fair", "unfair", "undecided", "untestable")]
    # Counted on a grid twice as fine, the bounds must be inside those of the certificate.
    holds = 0 <= said[0] <= fair and 0 <= said[1] <= unfair and said[3] == untestable
    if not holds or sum(said[:3]) != fair + unfair + undecided:
        raise refused("counted again, other individuals are treated differently")
    return (said[0], said[1], said[2], said[3], 0)


def _count(world: World, terms: list[Any], base: float, cut: float, error: float, exact: bool) -> list[int]:
    """Count who is treated differently by a sum of terms: fair, unfair, undecided and untestable individuals."""
    linked = {world.free.index(j) for ends in world.space.link_tables.values() for j in ends}
    heads = sorted({*world.tied, *linked})
    tails = [i for i in range(len(world.sizes)) if i not in heads]
    free, everyone = world.combinations(heads), math.prod(world.sizes[i] for i in tails)
    changing = [*world.protected, *(world.free[i] for i in heads)]
    spans = [float(terms[j].max() - terms[j].min()) for j in world.free]
    grid = CELLS if math.prod(world.space.coding.sizes) < 2**62 else CELLS // 64
    count = _Sums([terms[world.free[i]] for i in tails], error, exact, math.fsum(spans) / grid or 1.0, grid)
    totals = [0, 0, 0, 0]
    for own in range(len(world.owns)):
        mine = world.rows(free, own, own)
        here = world.space.valid(mine)
        low, high, members = (
            np.full(len(free), np.inf),
            np.full(len(free), -np.inf),
            np.zeros(len(free), dtype=np.int64),
        )
        equal = here.copy()
        for other in range(len(world.owns)):
            rows = world.rows(free, own, other)
            valid = world.space.valid(rows) & here
            score = base + sum(terms[j][rows[:, j]] for j in changing)
            low, high = np.where(valid, np.minimum(low, score), low), np.where(valid, np.maximum(high, score), high)
            members += valid
            equal &= ~valid | np.all([world.alike(j, rows[:, j], mine[:, j], terms[j]) for j in changing], axis=0)
        totals[3] += int((here & (members < 2)).sum()) * everyone
        tested = here & (members > 1)
        totals[0] += int((tested & equal).sum()) * everyone
        for at in np.flatnonzero(tested & ~equal).tolist():
            sure, may = count.between(cut - float(high[at]), cut - float(low[at]))
            totals = [totals[0] + everyone - may, totals[1] + sure, totals[2] + may - sure, totals[3]]
    return totals


class _Sums:
    """All sums of one term of each attribute, in two lists, or their running totals on a grid."""

    def __init__(self, terms: list[Any], error: float, exact: bool, step: float, grid: int) -> None:
        self.error, self.exact, self.step = error, exact, step
        halves: list[list[Any]] = [[], []]
        for one in sorted(terms, key=len, reverse=True):
            smaller = math.prod(map(len, halves[1])) < math.prod(map(len, halves[0]))
            halves[smaller].append(np.asarray(one))
        self.base = math.fsum(float(one.min()) for one in terms)
        if exact:
            self.lists = [self._listed(half) for half in halves]
            return
        (self.left, first), (right, second) = (self._grid(half, grid // 2) for half in halves)
        self.totals, self.rounded = np.concatenate([[0], np.cumsum(right)]), first + second
        self.used = np.flatnonzero(self.left)

    def _listed(self, terms: list[Any]) -> Any:
        out = np.zeros(1)
        for one in terms:
            out = (out[:, None] + one).ravel()
        return np.sort(out)

    def _grid(self, terms: list[Any], most: int) -> tuple[Any, int]:
        terms = [one - one.min() for one in terms]
        listed = [one for at, one in enumerate(terms) if math.prod(map(len, terms[: at + 1])) <= most]
        cells = (self._listed(listed) / self.step).astype(np.int64)
        out = np.bincount(cells).astype(np.int64 if most == CELLS // 2 else object)
        for one in terms[len(listed) :]:
            shifts = (one / self.step).astype(np.int64)
            grown = np.zeros(len(out) + int(shifts.max()), dtype=out.dtype)
            for shift in shifts.tolist():
                grown[shift : shift + len(out)] += out
            out = grown
        return out, 1 + len(terms) - len(listed)

    def between(self, above: float, most: float) -> tuple[int, int]:
        """Count the sums that are certainly above one number and at most another, and those that may be."""
        if not self.exact:
            loose = 2 + math.ceil(self.error / self.step)
            first, last = (math.floor((end - self.base) / self.step) for end in (above, most))
            sure = self._between(first + loose, last - self.rounded - loose)
            return sure, self._between(first - self.rounded - loose, last + loose)
        left, right = self.lists
        at = [np.searchsorted(right, end - left[::-1], "right") for end in
              (above - self.error, above + self.error, most - self.error, most + self.error)]  # fmt: skip
        return int(np.maximum(at[2] - at[1], 0).sum()), int((at[3] - at[0]).sum())

    def _between(self, first: int, last: int) -> int:
        top = len(self.totals) - 1
        ends = [self.totals[np.clip(float(end) - self.used, 0, top).astype(np.int64)] for end in (first, last + 1)]
        counts = self.left[self.used].astype(object) if last >= first else np.zeros(0, dtype=object)
        return int(np.dot(counts, (ends[1] - ends[0]).astype(object))) if len(counts) else 0
