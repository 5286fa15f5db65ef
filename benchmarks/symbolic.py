"""Symbolic generation by the questions of its paper, and what its neighbourhoods cost.

Equal tests against random individuals and the data rows alone, equal time, phase by phase against AEQUITAS, the
ablations, the threshold, the order of the seeds, path coverage; then time, by the number of neighbours, on a six-layer
net. Results are kept after every configuration; a second call does only what is missing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import torch

import evenhand as eh
from benchmarks import nets
from benchmarks.adf import FromData, spread
from benchmarks.machine import Results, cpu, parser, short
from benchmarks.subjects import DATA, fit
from evenhand.spaces.individuals import Individuals
from evenhand.strategies import symbolic
from evenhand.strategies.symbolic import Negations, Queue

RUNS = 10
TESTS = 1_000
ROWS = ("credit/sex", "credit/age", "census/race", "census/sex", "bank/age")
SECONDS = (1, 2, 4, 8)
STARTS, LOCAL_TESTS = 50, 2_000
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
THRESHOLDS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
ORDERS = {"in turn": eh.Symbolic(), "cluster after cluster": eh.Symbolic(order="iterative")}
POINTS = (50, 100, 200, 400, 600)
NEIGHBOURS = (5_000, 2_000, 1_000, 500, 250, 100)
WITHIN = 0.02
"""By how much the success rate may fall short of that with the most neighbours."""


class Subject:
    """A model, the space of its data set by one protected attribute, and the rows."""

    def __init__(self, row: str, model: Any) -> None:
        data, protected = row.split("/")
        dataset = eh.datasets.load(DATA[data][0])
        frame = dataset.paper_frame()
        self.data, self.space = frame.iloc[:, :-1], dataset.paper_space(protected=[protected])
        table = self.data.to_numpy(float), frame.iloc[:, -1].to_numpy(int)
        self.model = eh.wrap(fit(model, table) if isinstance(model, str) else model, input="array")

    def audit(
        self, search: Any, seed: int, tests: int | None = TESTS, data: pd.DataFrame | None = None, **more: Any
    ) -> tuple[eh.Run, float]:
        """Run a search; return also its CPU seconds."""
        rows = (self.data if data is None else data) if getattr(search, "uses_data", True) else None
        budget = eh.Budget(tests=10**9 if tests is None else tests)
        return cpu(lambda: eh.audit(self.model, self.space, search, budget, seed=seed, data=rows, **more))


def repeated(make: Callable[[int], tuple[eh.Run, float]], runs: int) -> dict[str, Any]:
    """Make runs with several seeds; means and standard deviations."""
    made, seconds = zip(*(make(seed) for seed in range(runs)), strict=True)
    return {
        "tests": spread([run.tests for run in made]),
        "findings": spread([run.found for run in made]),
        "success": spread([run.success_rate for run in made]),
        "rows": spread([run.rows for run in made]),
        "cpu_seconds": spread(seconds),
        "stops": sorted({run.stop.value for run in made}),
    }


SEARCHES = {"themis": eh.Themis(), "data rows alone": eh.Symbolic(phase="seeds"), "symbolic": eh.Symbolic()}


def equal(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Compare with random individuals and with the data rows alone, at equal tests."""
    on = Subject(row, "logistic regression")
    for name, search in SEARCHES.items():
        yield f"{row}/{name}", repeated(partial(on.audit, search), runs)


def in_time(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Compare with random individuals at equal CPU time."""
    on = Subject(row, "logistic regression")
    for name in ("themis", "symbolic"):
        for limit in SECONDS:
            yield (
                f"{row}/{name}/{limit}",
                repeated(partial(_for, on, SEARCHES[name], limit), runs),
            )


def _for(on: Subject, search: Any, seconds: float, seed: int) -> tuple[eh.Run, float]:
    start = time.process_time()

    def watch(_: eh.results.Status) -> None:
        if time.process_time() - start > seconds:
            raise KeyboardInterrupt  # What was found until then is kept, as with Ctrl-C.

    return on.audit(search, seed, None, progress=watch)


def phases(model: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Compare with AEQUITAS phase by phase: its global one draws individuals, local ones start from the same."""
    on = Subject("census/sex", model)
    found = [on.audit(eh.Themis(), seed, 50 * TESTS)[0].findings[list(on.space.names)] for seed in range(runs)]
    starts = [frame.iloc[:STARTS] for frame in found]
    yield f"{model}/global/aequitas", repeated(partial(on.audit, eh.Themis(samples=TESTS)), runs)
    yield f"{model}/global/symbolic", repeated(partial(on.audit, GLOBAL), runs)
    walk = FromData(eh.Aequitas("full", samples=STARTS, steps=10**6, rounds=1))
    near = eh.Symbolic(phase="local")
    for name, search in (("aequitas", walk), ("symbolic", near)):
        yield (
            f"{model}/local/{name}",
            repeated(partial(_from, on, search, starts), runs),
        )


def _from(on: Subject, search: Any, starts: Sequence[pd.DataFrame], seed: int) -> tuple[eh.Run, float]:
    return on.audit(search, seed, LOCAL_TESTS, starts[seed])


def ablation(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Leave parts of the search out."""
    on = Subject(row, "logistic regression")
    for name, search in ABLATIONS.items():
        yield f"{row}/{name}", repeated(partial(on.audit, search), runs)


PARTS = {2.0: "local", 1.0: "seeds", 0.0: "global"}
"""What the ranks of the queue stand for."""
TAKE = Queue._take


def contribution(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Tell which tests and findings are seeds, and which the local and the global search led to."""
    on = Subject(row, "logistic regression")
    shares: dict[str, list[tuple[int, int]]] = {part: [] for part in PARTS.values()}
    for seed in range(runs):
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
    for part, pairs in shares.items():
        tests, findings = zip(*pairs, strict=True)
        yield f"{row}/{part}", {"tests": spread(tests), "findings": spread(findings)}


def threshold(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Change the confidence below which the global search goes no further."""
    on = Subject(row, "logistic regression")
    for value in THRESHOLDS:
        search = replace(GLOBAL, threshold=value)
        yield f"{row}/{value}", repeated(partial(on.audit, search), runs)


def order(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Take seeds from the clusters in turn, or cluster after cluster: findings after so many tests."""
    on = Subject(row, "logistic regression")
    for name, search in ORDERS.items():
        found = [[on.audit(search, seed, tests)[0].found for seed in range(runs)] for tests in POINTS]
        yield f"{row}/{name}", [spread(values) for values in found]


def covered(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Count the leaves of a surrogate tree that the global search reaches, and that random tests do."""
    on = Subject(row, "logistic regression")
    for name, search in (("themis", eh.Themis()), ("symbolic global", GLOBAL)):
        covers = [eh.coverage(on.audit(search, seed)[0], on.model) for seed in range(runs)]
        yield (
            f"{row}/{name}",
            {
                "share": spread([cover.share for cover in covers]),
                "leaves": spread([cover.leaves for cover in covers]),
                "accuracy": spread([cover.accuracy for cover in covers]),
            },
        )


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


def neighbours(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Time the search with fewer and fewer neighbours, on six-layer nets."""
    chosen = [nets.net(row.split("/")[0], number) for number in range(min(runs, 5))]
    subjects = [Subject(row, net) for net in chosen]
    for size in NEIGHBOURS:
        watches, pops, rates, found = [], [], [], []
        for seed in range(runs):
            watch, net = Watch(), chosen[seed % len(chosen)]
            with watch.looking(net):
                run, seconds = subjects[seed % len(chosen)].audit(eh.Symbolic(neighbours=size), seed)
            watches.append({part: spent / seconds for part, spent in watch.spent.items()})
            pops.append(run.tests / seconds)
            rates.append(run.success_rate)
            found.append(run.found / seconds)
        shares = {part: short(statistics.fmean([watch[part] for watch in watches])) for part in watches[0]}
        yield (
            f"{row}/{size}",
            {
                "pops_per_second": spread(pops),
                "success": spread(rates),
                "findings_per_second": spread(found),
                "shares": shares,
            },
        )


def fewer(row: str, runs: int) -> Iterator[tuple[str, Any]]:
    """Search with fewer and fewer neighbours."""
    on = Subject(row, "logistic regression")
    for size in NEIGHBOURS:
        search = eh.Symbolic(neighbours=size)
        yield f"{row}/{size}", repeated(partial(on.audit, search), runs // 2)


QUESTIONS: dict[str, tuple[Callable[[str, int], Iterator[tuple[str, Any]]], Sequence[str], int]] = {
    "equal": (equal, ROWS, len(SEARCHES)),
    "in_time": (in_time, ("credit/age",), 2 * len(SECONDS)),
    "phases": (phases, MODELS, 4),
    "ablation": (ablation, ABLATED, len(ABLATIONS)),
    "contribution": (contribution, ROWS, len(PARTS)),
    "threshold": (threshold, ("credit/age", "census/sex"), len(THRESHOLDS)),
    "order": (order, ("credit/age",), len(ORDERS)),
    "covered": (covered, ("credit/age", "census/sex"), 2),
    "neighbours": (neighbours, ("census/sex",), len(NEIGHBOURS)),
    "fewer": (fewer, ("credit/age", "census/race", "bank/age"), len(NEIGHBOURS)),
}
"""Each with what it is asked of, and how many answers that gives."""


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "symbolic.json")
    options.add_argument("--fresh", action="store_true", help="forget what is stored")
    options.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=list(QUESTIONS))
    options.add_argument("--seeds", type=int, default=RUNS, help="runs of each search, with other random numbers")
    given = options.parse_args(arguments)
    settings = {
        "runs": given.seeds,
        "tests": TESTS,
        "starts": STARTS,
        "local_tests": LOCAL_TESTS,
        "neighbours": eh.Symbolic().neighbours,
        "block": eh.Symbolic().block,
        "points": list(POINTS),
        "within": WITHIN,
    }
    torch.set_num_threads(1)
    results = Results(given.out, given.fresh, settings, tuple(QUESTIONS))
    for question in given.questions:
        ask, subjects, answers = QUESTIONS[question]
        for subject in subjects:
            known = sum(key.startswith(f"{subject}/") for key in results.all[question])
            if known < answers:
                for key, answer in ask(subject, given.seeds):
                    results.add(question, key, answer)


if __name__ == "__main__":
    main()
