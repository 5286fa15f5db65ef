"""What the searches reach with equal model rows: ``python -m benchmarks.quality --output DIR --jobs 16``.

24 cases: three data sets, in the papers' integer coding and as a user has them; trees, forests, boosting, networks and
linear models; one and several protected attributes; strong, weak and tiny effects. Regions are counted on a partition
that no search sees. Held-out real people show who the findings stand for: one is reached if a realistic finding
is as near as realistic findings are to the data. Each run is a file of its own in DIR, so that a second call does only
what is missing; ``--collect`` puts them together.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import evenhand as eh
from benchmarks.machine import RESULTS, cpu, facts
from evenhand._rng import Stream
from evenhand.models.base import Model
from evenhand.spaces.individuals import Individuals, Rows
from evenhand.spaces.realism import Distance, Realism, Tree
from evenhand.strategies.archive import Partition

MARKS = (20_000, 100_000, 400_000)
HELD_OUT = 1000
PAIRS = 2000
"""Pairs of findings by which diversity is measured."""
ENUMERATED = 300_000
"""The most tests of a space whose discriminatory individuals are all listed."""
SEED = 12_345
"""The stream of the held-out people."""
SEARCHES: dict[str, tuple[Callable[[], Any], int]] = {
    "auto": (eh.Auto, 10),
    "nearby": (lambda: eh.Auto(share=0.0, arms="nearby"), 3),
    "archive of realistic": (lambda: eh.Auto(share=0.0, arms="nearby,archive-real"), 3),
    "archive": (eh.Archive, 10),
    "boundary": (eh.Boundary, 10),
    "kosei": (eh.Kosei, 10),
    "adf": (eh.Adf, 3),
    "aequitas": (eh.Aequitas, 3),
    "symbolic": (eh.Symbolic, 3),
    "themis": (eh.Themis, 3),
}
"""Each search, and with how many seeds it runs."""
SINGLE = [name for name in SEARCHES if name != "auto"]
PAPERS = ("kosei", "adf", "aequitas", "symbolic", "themis")


@dataclass(frozen=True)
class Case:
    """A model to audit: of a data set, in a coding, by some protected attributes."""

    data: str
    coding: str
    kind: str
    protected: tuple[str, ...]
    effect: float = 1.0
    """What the weights of the protected attributes are multiplied by; of linear models."""
    attributes: tuple[str, ...] = ()
    """The only attributes; all if empty."""

    @property
    def name(self) -> str:
        """A name for files and tables."""
        effect = {1.0: "", 0.03: " weak", 0.002: " tiny"}[self.effect]
        small = " small" if self.attributes else ""
        return f"{self.data} {self.coding} {self.kind} {'+'.join(self.protected)}{effect}{small}"


SMALL = ("age", "workclass", "education", "marital_status", "race", "sex")
CASES = {
    case.name: case
    for case in (
        Case("adult", "paper", "tree", ("sex",)),
        Case("adult", "paper", "forest", ("sex",)),
        Case("adult", "paper", "boosting", ("race",)),
        Case("adult", "paper", "logistic", ("sex",)),
        Case("adult", "paper", "net", ("sex",)),
        Case("adult", "paper", "net", ("age",)),
        Case("adult", "paper", "mlp", ("sex", "race")),
        Case("adult", "paper", "tree", ("sex",), attributes=SMALL),
        Case("adult", "own", "logistic", ("sex",)),
        Case("adult", "own", "logistic", ("sex",), 0.03),
        Case("adult", "own", "logistic", ("sex",), 0.002),
        Case("adult", "own", "forest", ("sex",)),
        Case("adult", "own", "boosting", ("sex",)),
        Case("adult", "own", "mlp", ("sex", "race")),
        Case("german", "paper", "forest", ("sex",)),
        Case("german", "paper", "net", ("age",)),
        Case("german", "own", "tree", ("sex",)),
        Case("german", "own", "logistic", ("sex",)),
        Case("german", "own", "boosting", ("sex", "foreign_worker")),
        Case("bank", "paper", "boosting", ("age",)),
        Case("bank", "paper", "net", ("age",)),
        Case("bank", "own", "forest", ("marital",)),
        Case("bank", "own", "logistic", ("marital",), 0.03),
        Case("bank", "own", "tree", ("marital",)),
    )
}


class Coded(Model):
    """A model of individuals in codes: one-hot or plain features, which an estimator or a sum of weights decides."""

    name, input, has_scores, decides = "coded", "array", True, True
    classes = np.array([0, 1])

    def __init__(self, space: eh.Space, kind: str) -> None:
        self.kind, self._sizes, self._ordered = kind, space.sizes.tolist(), space.ordered.tolist()
        self._one_hot = kind in ("logistic", "mlp", "net")
        self._columns = np.repeat(np.arange(len(self._sizes)), self._widths)
        self.estimator: Any = None
        self._weights: list[Any] = []

    @property
    def _widths(self) -> list[int]:
        pairs = zip(self._sizes, self._ordered, strict=True)
        return [1 if ordered or not self._one_hot else size for size, ordered in pairs]

    def fit(self, rows: Rows, y: npt.NDArray[np.int64], effect: float, protected: list[int]) -> Coded:
        """Train, and weaken what the protected attributes do; the mean of the scores stays."""
        features = self._features(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.estimator = estimators()[self.kind]().fit(features, y)
        if self.kind == "logistic":
            weights, constant = self.estimator.coef_[0].copy(), float(self.estimator.intercept_[0])
            some = np.isin(self._columns, protected)
            constant += (1 - effect) * float((features[:, some] @ weights[some]).mean())
            weights[some] *= effect
            self._weights = [(weights[:, None].astype(np.float32), np.float32(constant))]
        elif self.kind in ("mlp", "net"):
            pairs = zip(self.estimator.coefs_, self.estimator.intercepts_, strict=True)
            self._weights = [(w.astype(np.float32), b.astype(np.float32)) for w, b in pairs]
        return self

    def scores(self, X: Any) -> Any:
        """Return the score of each class."""
        features = self._features(X.astype(np.int32))
        if not self._weights:
            return self.estimator.predict_proba(features)
        for number, (weights, constant) in enumerate(self._weights):
            features = features @ weights + constant
            if number + 1 < len(self._weights):
                features = np.maximum(features, 0)
        return np.concatenate([-features, features], axis=1).astype(np.float64)

    def labels(self, X: Any) -> Any:
        """Decide by the higher score."""
        return self.scores(X).argmax(axis=1)

    def _features(self, rows: Rows) -> npt.NDArray[np.float32]:
        if not self._one_hot:
            return rows.astype(np.float32)
        parts = []
        for j, (size, ordered) in enumerate(zip(self._sizes, self._ordered, strict=True)):
            if ordered:
                parts.append(((rows[:, [j]] - size / 2) / max(size / 4, 1)).astype(np.float32))
            else:
                parts.append((rows[:, [j]] == np.arange(size)).astype(np.float32))
        return np.hstack(parts)


def estimators() -> dict[str, Callable[[], Any]]:
    """Make the kinds of models; a net has six layers of weights."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.tree import DecisionTreeClassifier

    return {
        "tree": lambda: DecisionTreeClassifier(random_state=0),
        "forest": lambda: RandomForestClassifier(20, random_state=0),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
        "logistic": lambda: LogisticRegression(max_iter=300),
        "mlp": lambda: MLPClassifier((32, 16), max_iter=20, random_state=0),
        "net": lambda: MLPClassifier((64, 32, 16, 8, 4), max_iter=20, random_state=0),
    }


@dataclass
class World:
    """A case that is ready to be searched and measured."""

    space: eh.Space
    """The attributes of the case in codes, so that building values takes no time."""
    model: Coded
    people: Rows
    """The data that searches get."""
    held: Rows
    """Other real people."""

    @cached_property
    def partition(self) -> Partition:
        """The regions that are counted."""
        return Partition(self.space, Individuals(self.space, rows=self.people))

    @cached_property
    def realism(self) -> Realism:
        """Who could be real."""
        return Realism(self.space, Individuals(self.space, rows=self.people))

    @cached_property
    def enumerated(self) -> dict[str, float] | None:
        """What is discriminatory at all, where everyone can be asked; realistic if any member of a family is."""
        space = self.space
        if space.tests > ENUMERATED:
            return None
        every, unfair = Individuals(space, ids=np.arange(space.tests) * space.combinations), list[Rows]()
        for start in range(0, len(every), 10_000):
            part = every[start : start + 10_000]
            members = space.families(part, 0).asked.reshape(len(part), -1, len(space.names))
            answers = self.model.labels(members.reshape(-1, len(space.names))).reshape(len(part), -1)
            unfair.append(members[(answers != answers[:, :1]).any(axis=1)])
        families = np.concatenate(unfair)
        real = self.realism.realistic(families.reshape(-1, len(space.names))).reshape(families.shape[:2])
        regions = self.partition.of(families[:, 0])
        return {
            "tests": space.tests,
            "found": len(families),
            "realistic": int(real.any(axis=1).sum()),
            "regions": len(np.unique(regions)),
            "realistic_regions": len(np.unique(regions[real.any(axis=1)])),
            "people": reached(self, families[real]),
        }


def build(case: Case) -> World:
    """Load the data, recode them, and train the model on them."""
    data = eh.datasets.load(case.data)
    if case.coding == "paper":
        frame = data.paper_frame()
        y, X = frame.iloc[:, -1].to_numpy(np.int64), frame.iloc[:, :-1]
        space = data.paper_space(protected=list(case.protected))
    else:
        frame = data.train
        y, X = (frame[data.target] == data.favourable).to_numpy(np.int64), frame[list(data.features)]
        space = eh.Space.infer(X, protected=list(case.protected))
    if case.attributes:
        space = eh.Space([a for a in space.attributes if a.name in case.attributes], list(case.protected))
    encoded = space.encode(X[list(space.names)])
    rows, y = encoded.individuals.rows, y[encoded.positions]
    pairs = zip(space.names, space.sizes.tolist(), space.ordered.tolist(), strict=True)
    attributes = [eh.Integer(n, 0, size - 1) if ordered else eh.Nominal(n, range(size)) for n, size, ordered in pairs]
    coded = eh.Space(attributes, list(case.protected))
    model = Coded(coded, case.kind).fit(rows, y, case.effect, coded.protected_columns)
    order = Stream(SEED).shuffled(np.arange(len(rows)), len(rows), "held")
    held = min(HELD_OUT, len(rows) // 3)
    return World(coded, model, rows[order[held:]], rows[order[:held]])


def run(world: World, search: str, seed: int, rows: int, data: bool) -> dict[str, Any]:
    """Run one search with one seed, and measure it at each mark."""
    frame = world.space.frame(world.people) if data else None
    strategy = SEARCHES[search][0]()
    budget = eh.Budget(rows=rows)
    found, seconds = cpu(lambda: eh.audit(world.model, world.space, strategy, budget, seed, data=frame, confirm=0))
    return {
        "seconds": round(seconds, 2),
        "arms": found.arms,
        "estimate": {name: one.to_dict() for name, one in found.estimate.items()},
        "marks": {str(mark): measure(world, found, mark) for mark in MARKS if mark <= rows},
    }


def measure(world: World, found: Any, mark: int) -> dict[str, Any]:
    """Measure what a run had found after so many model rows."""
    points = [point for point in found.points if point[1] <= mark] or [(0, 0, 0)]
    tests, _, findings = points[-1]
    rows = found.pairs.individuals().rows[:findings]
    first = next((point[1] for point in found.points if point[2]), None)
    regions, real = world.partition.of(rows), world.realism.realistic(rows)
    every = world.enumerated
    return {
        "tests": tests,
        "found": findings,
        "success": findings / max(tests, 1),
        "regions": len(np.unique(regions)),
        "share_of_regions": None if every is None else len(np.unique(regions)) / max(every["regions"], 1),
        "realistic": int(real.sum()),
        "realistic_regions": len(np.unique(regions[real])),
        "people": reached(world, rows[real]),
        "diversity": diversity(world, rows),
        "first": first,
    }


def reached(world: World, rows: Rows) -> float:
    """Return the share of the held-out people near a realistic finding, by their free attributes."""
    if not len(rows):
        return 0.0
    tree = Tree(world.space, np.unique(rows, axis=0), world.space.free_columns)
    return float(tree.within(world.held, world.realism.radius).mean())


def diversity(world: World, rows: Rows) -> float:
    """Return the mean distance between two findings."""
    if len(rows) < 2:
        return 0.0
    one, other = (Stream(SEED).below(len(rows), name, np.arange(PAIRS), 0) for name in ("one", "other"))
    return float(Distance(world.space).far(rows[one], rows[other]).mean())


@cache
def _world(folder: Path, name: str) -> World:
    path = folder / f"{name}.case"
    if not path.exists():
        path.with_suffix(f".{os.getpid()}").write_bytes(pickle.dumps(build(CASES[name])))
        path.with_suffix(f".{os.getpid()}").replace(path)
    world: World = pickle.loads(path.read_bytes())
    return world


def _task(folder: Path, name: str, search: str, seed: int, rows: int, data: bool) -> str:
    path = folder / f"{name}--{search}--{seed}--{rows}{'' if data else '--no-data'}.json"
    if not path.exists():
        try:
            result = run(_world(folder, name), search, seed, rows, data)
        except eh.errors.EvenhandError as error:
            result = {"error": str(error)}
        path.with_suffix(".part").write_text(json.dumps(result))
        path.with_suffix(".part").replace(path)
    return path.name


def collect(folder: Path, rows: int) -> dict[str, Any]:
    """Put all runs of a budget together: means over seeds, with the spread of the realistic regions."""
    out: dict[str, Any] = {}
    for path in sorted(folder.glob(f"*--{rows}*.json")):
        name, search, _, *rest = path.stem.split("--")
        result = json.loads(path.read_text())
        if "error" not in result:
            key = f"{name}{' (no data)' if 'no-data' in rest else ''}"
            out.setdefault(key, {}).setdefault(search, []).append(result)
    return {name: {search: _mean(runs) for search, runs in searches.items()} for name, searches in out.items()}


def _mean(runs: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {"seeds": len(runs), "seconds": round(statistics.mean(r["seconds"] for r in runs), 2)}
    for mark in runs[0]["marks"]:
        values = [one["marks"][mark] for one in runs]
        out[mark] = {}
        for name in values[0]:
            known = [value[name] for value in values if value[name] is not None]
            out[mark][name] = float(f"{statistics.mean(known):.5g}") if known else None
        spread = [value["realistic_regions"] for value in values]
        out[mark]["realistic_regions_spread"] = [min(spread), max(spread)]
        out[mark]["none_found"] = sum(value["found"] == 0 for value in values)
    return out


def summary(results: dict[str, Any], mark: str) -> str:
    """Compare Auto with the best other search of each case, in a table."""
    lines = [
        f"{'case':44} {'real':>5} {'rregions':>8} {'best':>16} {'ratio':>5} {'people':>6} {'ratio':>5} {'first':>6}"
    ]
    for name, searches in results.items():
        auto = searches.get("auto", {}).get(mark)
        others = {search: searches[search][mark] for search in SINGLE if mark in searches.get(search, {})}
        if not auto or not others:
            continue
        best = max(others, key=lambda search: others[search]["realistic_regions"])
        reach = max(one["people"] for one in others.values())
        ratio = auto["realistic_regions"] / max(others[best]["realistic_regions"], 1)
        lines.append(
            f"{name:44} {auto['realistic'] / max(auto['found'], 1):5.2f} {auto['realistic_regions']:8.0f} "
            f"{others[best]['realistic_regions']:7.0f} {best[:8]:8} {ratio:5.2f} {auto['people']:6.2f} "
            f"{auto['people'] / max(reach, 1e-9):5.2f} {auto['first'] or 0:6.0f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write what there is."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--output", type=Path, required=True, help="folder for one file per run")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--seeds", type=int, default=10, help="the most seeds of any search")
    options.add_argument("--cases", default="", help="only cases whose name contains this")
    options.add_argument("--searches", default="", help="names, separated by commas")
    options.add_argument("--no-data", action="store_true", help="searches get no data")
    options.add_argument("--collect", action="store_true", help="run nothing; write the results")
    given = options.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    searches = given.searches.split(",") if given.searches else list(SEARCHES)
    names = [name for name in CASES if given.cases in name]
    if not given.collect:
        # Seed by seed, so that a run that is cut short has every case.
        tasks = [
            (given.output, name, search, seed, given.rows, not given.no_data)
            for seed in range(given.seeds)
            for search in searches
            for name in names
            if seed < SEARCHES[search][1]
        ]
        with ProcessPoolExecutor(given.jobs) as pool:
            list(pool.map(_world_exists, [given.output] * len(names), names))
            for done, _ in enumerate(pool.map(_task, *zip(*tasks, strict=True)), 1):
                if done % 50 == 0:
                    print(f"{done} of {len(tasks)} runs", flush=True)
    results = collect(given.output, given.rows)
    if given.collect:
        path = RESULTS / "quality.json"
        known = json.loads(path.read_text()) if path.exists() else {"machine": facts()}
        stored = known.setdefault(str(given.rows), {})
        for name, measured in results.items():
            # Searches that were not measured again stay as they are.
            stored[name] = stored.get(name, {}) | measured
        worlds = {name: _world(given.output, name).enumerated for name in names}
        known["enumerated"] = known.get("enumerated", {}) | {name: every for name, every in worlds.items() if every}
        path.write_text(json.dumps(known, indent=1) + "\n")
    print(summary(results, str(given.rows)))


def _world_exists(folder: Path, name: str) -> None:
    _world(folder, name)


if __name__ == "__main__":
    main()
