"""Symbolic generation by the questions of its paper, and what its neighbourhoods cost.

Equal tests against random individuals and the data rows alone, equal time, phase by phase against AEQUITAS, the
ablations, the threshold, the order of the seeds, how clusters and findings are scattered, path coverage; then time, by
the number of neighbours, on a six-layer net.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import evenhand as eh
from benchmarks.adf import FromData, patient, spread
from benchmarks.machine import cpu, short
from benchmarks.subjects import DATA, fit
from benchmarks.tasks import Task
from evenhand.spaces.individuals import Individuals
from evenhand.strategies import symbolic
from evenhand.strategies.symbolic import Negations, Queue

FULL: dict[str, Any] = {
    "runs": 10,
    "tests": 1_000,
    "seconds": [1, 2, 4, 8],
    "starts": 50,
    "local_tests": 2_000,
    "points": [50, 100, 200, 400, 600],
    "neighbours": 1_000,
    "block": eh.Symbolic().block,
    "within": 0.02,
}
"""Within: by how much the success rate may fall short of that with the most neighbours."""
QUICK: dict[str, Any] = FULL | {
    "runs": 1,
    "tests": 30,
    "seconds": [0.1],
    "starts": 5,
    "local_tests": 50,
    "points": [10, 20],
    "neighbours": 100,
}
CODED = ("credit/sex", "credit/age", "census/race", "census/sex", "bank/age")
"""In the integer coding that the papers share; SG's paper calls those of credit and census modified."""
MODELS = ("tree", "forest", "MLP")
ABLATED = ("credit/age", "census/sex", "census/race")
GLOBAL = eh.Symbolic(phase="global", first="global")
"""The global search alone; seeds are taken only when it has nothing left, or it would not have its turn for long."""
ABLATIONS = {
    "as it is": eh.Symbolic(),
    "no local search": eh.Symbolic(phase="global"),
    "no local search, global first": GLOBAL,
    "no global search": eh.Symbolic(phase="local"),
    "data rows alone": eh.Symbolic(phase="seeds"),
    "random seeds": eh.Symbolic(seeds="random"),
    "random seeds, no local search": eh.Symbolic(seeds="random", phase="global"),
    "random seeds, no local search, global first": eh.Symbolic(seeds="random", phase="global", first="global"),
    "random seeds alone": eh.Symbolic(seeds="random", phase="seeds"),
}
THRESHOLDS = ("0.3", "0.5", "0.6", "0.7", "0.8", "0.9", "0.95", "1.0")
ORDERS = {"in turn": eh.Symbolic(), "cluster after cluster": eh.Symbolic(order="iterative")}
NEIGHBOURS = (5_000, 2_000, 1_000, 500, 250, 100)


@dataclass(frozen=True)
class Subject:
    """A model, the space of its data set by one protected attribute, and the rows."""

    model: Any
    space: eh.Space
    data: pd.DataFrame
    settings: dict[str, Any]

    def audit(
        self, search: Any, seed: int, budget: eh.Budget | int | None = None, data: pd.DataFrame | None = None,
        **more: Any,
    ) -> tuple[eh.Run, float]:  # fmt: skip
        """Run a search, by default with the usual tests; return also its CPU seconds."""
        rows = (self.data if data is None else data) if getattr(search, "uses_data", True) else None
        limit = budget if isinstance(budget, eh.Budget) else eh.Budget(tests=budget or self.settings["tests"])
        if isinstance(search, eh.Symbolic) and search.neighbours == eh.Symbolic().neighbours:
            search = replace(search, neighbours=self.settings["neighbours"])
        return cpu(lambda: eh.audit(self.model, self.space, search, limit, seed=seed, data=rows, **more))


def subject(row: str, model: str, settings: dict[str, Any]) -> Subject:
    """Fit a model of a row, or of a network by its number."""
    return Subject(*_loaded(row, model), settings)


@lru_cache(maxsize=2)
def _loaded(row: str, model: str) -> tuple[Any, eh.Space, pd.DataFrame]:
    data, protected = row.split("/")
    dataset = eh.datasets.load(DATA[data][0])
    frame, space = dataset.paper_frame(), dataset.paper_space(protected=[protected])
    rows = frame.iloc[:, :-1]
    if model.startswith("net "):
        import torch

        from benchmarks import nets

        torch.set_num_threads(1)
        return eh.wrap(nets.net(data, int(model.removeprefix("net "))), input="array"), space, rows
    table = rows.to_numpy(float), frame.iloc[:, -1].to_numpy(int)
    return eh.wrap(fit(model, table), input="array"), space, rows


def repeated(make: Callable[[int], tuple[eh.Run, float]], runs: int) -> dict[str, Any]:
    """Make runs with several seeds; means and standard deviations."""
    made, seconds = zip(*(make(seed) for seed in range(runs)), strict=True)
    return {
        "tests": spread([run.tests for run in made]),
        "findings": spread([run.found for run in made]),
        "success": spread([run.success_rate for run in made]),
        "rows": spread([run.rows for run in made]),
        "seconds": spread(seconds),
    }


LOGISTIC = "logistic regression"
SEARCHES = {"themis": eh.Themis(), "data rows alone": eh.Symbolic(phase="seeds"), "symbolic": eh.Symbolic()}


def equal(row: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Compare with random individuals and with the data rows alone, at equal tests."""
    return repeated(partial(subject(row, LOGISTIC, s).audit, SEARCHES[search]), s["runs"])


def in_time(row: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Compare with random individuals at equal CPU time."""
    on = subject(row, LOGISTIC, s)

    def limited(seconds: float, seed: int) -> tuple[eh.Run, float]:
        return patient(on, SEARCHES[search], seed, 10**9, seconds)

    return {"points": {f"{n:g}": repeated(partial(limited, n), s["runs"]) for n in s["seconds"]}}


def phases(model: str, phase: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Compare with AEQUITAS phase by phase: its global one draws individuals, local ones start from the same."""
    on = subject("census/sex", model, s)
    if phase == "global":
        far = GLOBAL if search == "symbolic" else eh.Themis(samples=s["tests"])
        return repeated(partial(on.audit, far), s["runs"])
    walk = FromData(eh.Aequitas("full", samples=s["starts"], steps=10**6, rounds=1, stray=eh.Aequitas.PRINTED))
    near = eh.Symbolic(phase="local") if search == "symbolic" else walk

    def local(seed: int) -> tuple[eh.Run, float]:
        found = on.audit(eh.Themis(), seed, 50 * s["tests"])[0].findings[list(on.space.names)]
        return on.audit(near, seed, s["local_tests"], found.iloc[: s["starts"]])

    return repeated(local, s["runs"])


def ablation(row: str, name: str, s: dict[str, Any]) -> dict[str, Any]:
    """Leave parts of the search out."""
    return repeated(partial(subject(row, LOGISTIC, s).audit, ABLATIONS[name]), s["runs"])


PARTS = {2.0: "local", 1.0: "seeds", 0.0: "global"}
"""What the ranks of the queue stand for."""
TAKE = Queue._take


def contribution(row: str, s: dict[str, Any]) -> dict[str, Any]:
    """Tell which tests and findings are seeds, and which the local and the global search led to."""
    on = subject(row, LOGISTIC, s)
    shares: dict[str, list[tuple[int, int]]] = {part: [] for part in PARTS.values()}
    for seed in range(s["runs"]):
        ranks: dict[int, float] = {}

        def noted(queue: Queue, most: int, rank: float, known: dict[int, float] = ranks) -> Individuals:
            taken = TAKE(queue, most, rank)
            for key in taken.keys.tolist():
                known.setdefault(key, rank)
            return taken

        with mock.patch.object(Queue, "_take", noted):
            run, _ = on.audit(eh.Symbolic(), seed)
        blocks = [block["individual"] for block in run.pairs.blocks]
        found = Individuals.from_stored(on.space, np.concatenate(blocks)).keys.tolist() if blocks else []
        # The last ones that were taken may be behind the end of the budget.
        tested = list(ranks)[: run.tests]
        for rank, part in PARTS.items():
            shares[part].append((sum(ranks[key] == rank for key in tested), sum(ranks[key] == rank for key in found)))
    return {
        part: dict(zip(("tests", "findings"), map(spread, zip(*pairs, strict=True)), strict=True))
        for part, pairs in shares.items()
    }


def threshold(row: str, value: str, s: dict[str, Any]) -> dict[str, Any]:
    """Change the confidence below which the global search goes no further."""
    return repeated(partial(subject(row, LOGISTIC, s).audit, replace(GLOBAL, threshold=float(value))), s["runs"])


def order(row: str, name: str, s: dict[str, Any]) -> dict[str, Any]:
    """Take seeds from the clusters in turn, or cluster after cluster: findings after so many tests."""
    on = subject(row, LOGISTIC, s)
    found = [[on.audit(ORDERS[name], seed, tests)[0].found for seed in range(s["runs"])] for tests in s["points"]]
    return {"found": [spread(values) for values in found]}


def scatter(row: str, s: dict[str, Any]) -> dict[str, Any]:
    """Say whether findings are scattered over the clusters of the seeds, and how much the clusters explain."""
    from sklearn.cluster import KMeans

    on = subject(row, LOGISTIC, s)
    codes = on.data.to_numpy(float)
    run, _ = on.audit(eh.Symbolic(), 0)
    clusters = KMeans(4, random_state=0, n_init=10).fit(codes)
    found = clusters.predict(run.findings[list(on.space.names)].to_numpy(float))
    spread_of = ((codes - codes.mean(axis=0)) ** 2).sum()
    return {
        "rows": np.bincount(clusters.labels_, minlength=4).tolist(),
        "findings": np.bincount(found, minlength=4).tolist(),
        "explained": short(1 - clusters.inertia_ / spread_of),
    }


def covered(row: str, search: str, s: dict[str, Any]) -> dict[str, Any]:
    """Count the leaves of a surrogate tree that the global search reaches, and that random tests do."""
    on = subject(row, LOGISTIC, s)
    chosen = eh.Themis() if search == "themis" else GLOBAL
    covers = [eh.coverage(on.audit(chosen, seed)[0], on.model) for seed in range(s["runs"])]
    return {
        "share": spread([cover.share for cover in covers]),
        "leaves": spread([cover.leaves for cover in covers]),
        "accuracy": spread([cover.accuracy for cover in covers]),
    }


class Watch:
    """CPU seconds spent in parts of a run."""

    def __init__(self) -> None:
        self.spent = {"model": 0.0, "trees": 0.0, "solver": 0.0}

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Make a call whose time is added up."""

        def timed(*given: Any, **named: Any) -> Any:
            start = time.process_time()
            try:
                return call(*given, **named)
            finally:
                self.spent[part] += time.process_time() - start

        return timed

    @contextmanager
    def looking(self, net: Any) -> Iterator[None]:
        """Watch the net, the trees and the solver for a while."""
        with (
            mock.patch.object(net, "forward", self.timed("model", net.forward)),
            mock.patch.object(symbolic, "paths", self.timed("trees", symbolic.paths)),
            mock.patch.object(Negations, "solve", self.timed("solver", Negations.solve)),
        ):
            yield


def neighbours(row: str, size: str, s: dict[str, Any]) -> dict[str, Any]:
    """Time the search with fewer and fewer neighbours, on six-layer nets."""
    watches, pops, rates, found = [], [], [], []
    for seed in range(s["runs"]):
        on, watch = subject(row, f"net {seed % 5}", s), Watch()
        with watch.looking(on.model.source):
            run, seconds = on.audit(eh.Symbolic(neighbours=int(size)), seed)
        watches.append({part: spent / seconds for part, spent in watch.spent.items()})
        pops.append(run.tests / seconds)
        rates.append(run.success_rate)
        found.append(run.found / seconds)
    shares = {part: short(statistics.fmean([watch[part] for watch in watches])) for part in watches[0]}
    return {
        "pops_per_second": spread(pops),
        "success": spread(rates),
        "findings_per_second": spread(found),
        "shares": shares,
    }


def fewer(row: str, size: str, s: dict[str, Any]) -> dict[str, Any]:
    """Search with fewer and fewer neighbours."""
    search = eh.Symbolic(neighbours=int(size))
    return repeated(partial(subject(row, LOGISTIC, s).audit, search), max(1, s["runs"] // 2))


Answer = Callable[..., dict[str, Any]]
SIZES = tuple(map(str, NEIGHBOURS))
QUESTIONS: dict[str, tuple[Answer, Sequence[str], Sequence[str], float]] = {
    "equal": (equal, CODED, tuple(SEARCHES), 30),
    "in_time": (in_time, ("credit/age",), ("themis", "symbolic"), 160),
    "phases": (phases, MODELS, tuple(f"{phase}/{search}" for phase in ("global", "local")
                                     for search in ("aequitas", "symbolic")), 30),
    "ablation": (ablation, ABLATED, tuple(ABLATIONS), 20),
    "contribution": (contribution, CODED, (), 30),
    "threshold": (threshold, ("credit/age", "census/sex"), THRESHOLDS, 30),
    "order": (order, ("credit/age",), tuple(ORDERS), 40),
    "scatter": (scatter, ("credit/age",), (), 5),
    "covered": (covered, ("credit/age", "census/sex"), ("themis", "symbolic global"), 30),
    "neighbours": (neighbours, ("census/sex",), SIZES, 60),
    "fewer": (fewer, ("credit/age", "census/race", "bank/age"), SIZES, 30),
}  # fmt: skip
"""Each with the rows and the names that it is asked of, and roughly the CPU seconds of an answer."""


def tasks(settings: dict[str, Any], quick: bool) -> Iterator[Task]:
    """List everything that is measured."""
    for question, (ask, rows, names, cost) in QUESTIONS.items():
        if quick and question == "neighbours":
            continue  # It would have to train a net.
        for row in rows[:1] if quick else rows:
            for name in names[-3:] if quick else names or [""]:
                if name:
                    call = partial(ask, row, *(name.split("/") if question == "phases" else [name]), settings)
                    yield Task("symbolic", question, f"{row}/{name}", call, cost)
            if not names:
                yield Task("symbolic", question, row, partial(ask, row, settings), cost)
