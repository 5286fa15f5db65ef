"""ADF by the protocol of its paper: six-layer networks, six pairs of data set and protected attribute, ten seeds.

One question a table, each named after what it asks: how common discrimination is, what both phases find (table 4), what
the global phase finds and in how many iterations (tables 6 and 9), what the local phase finds from the same starts
(table 7), how long 1,000 findings take (table 8), how findings grow with the seeds (figure 3), and what symbolic
generation does in each phase and in equal time (tables 5 to 7). Results are kept after every configuration; a second
call does only what is missing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import pandas as pd
import torch

import evenhand as eh
from benchmarks import nets
from benchmarks.machine import Results, cpu, parser, short
from benchmarks.subjects import DATA
from evenhand.search import Problem, Search
from evenhand.spaces.individuals import Individuals

ROWS = ("census/age", "census/race", "census/sex", "bank/age", "credit/age", "credit/sex")
RUNS = 10
"""Seeds of the runs, from 0 on."""
NETS = 5
"""Nets of each data set; runs take them in turn, because equally good nets discriminate up to eight times as often."""
SEEDS = {"census": 1_000, "bank": 1_000, "credit": 600}
"""Individuals that the global phase starts from, or that AEQUITAS's draws."""
ITERATIONS = 10
TRIALS = 1_000
STARTS = 100
"""Findings of ADF's global phase from which all local phases start."""
SYMBOLIC_STARTS, SYMBOLIC_RUNS = 10, 5
"""Starts and runs of symbolic generation, which takes far longer."""
EQUAL_SECONDS = 5.0
"""CPU seconds that symbolic generation and ADF are given."""
FINDINGS = 1_000
PATIENCE = 10.0
"""CPU seconds after which a search is not waited for any longer."""
UNIFORM = 20_000
GROWTH = tuple(range(200, 1_001, 200))
GROWTH_STARTS = (50, 100, 200, 300)
WIDTH = eh.Aequitas().width
"""AEQUITAS's walks that advance together; one at a time, as its paper has it, finds as many and takes far longer."""
UNLIMITED = eh.Budget(tests=10**9)


@dataclass(frozen=True)
class Subject:
    """Nets, the space and rows of their data set, and the number of seeds that the paper takes from them."""

    row: str
    models: Sequence[Any]
    space: eh.Space
    data: pd.DataFrame
    seeds: int

    def audit(
        self, search: Any, seed: int, budget: eh.Budget = UNLIMITED, data: pd.DataFrame | None = None, **more: Any
    ) -> tuple[eh.Run, float]:
        """Run a search on the net whose turn it is, from the data set's rows or others; return also its CPU seconds."""
        model = self.models[seed % len(self.models)]
        rows = (self.data if data is None else data) if getattr(search, "uses_data", True) else None
        return cpu(lambda: eh.audit(model, self.space, search, budget, seed=seed, data=rows, **more))


def subject(row: str, count: int = NETS) -> Subject:
    """Load what one row of the paper's tables is about."""
    data, protected = row.split("/")
    dataset = eh.datasets.load(DATA[data][0])
    rows = dataset.paper_frame().iloc[:, :-1]
    models = [eh.wrap(nets.net(data, number)) for number in range(count)]
    return Subject(row, models, dataset.paper_space(protected=[protected]), rows, SEEDS[data])


class Given(Problem):
    """A problem whose random individuals are its data rows."""

    def sample(self, n: int) -> Individuals:
        """Return the next data rows."""
        assert self.data is not None
        start, self._drawn = self._drawn, self._drawn + n
        return self.data[start : start + n]


@dataclass(frozen=True)
class FromData:
    """A search with its global phase replaced: it starts from the data rows instead of random individuals."""

    inner: Any

    uses_data: ClassVar[bool] = True

    def search(self, problem: Problem) -> Search:
        """Search as the inner one does."""
        found: Search = self.inner.search(Given(problem.space, problem.stream, problem.data))
        return found


BOTH: dict[str, Callable[[int], Any]] = {
    "aequitas full": lambda seeds: eh.Aequitas("full", samples=seeds, steps=TRIALS, rounds=1),
    "adf": lambda seeds: eh.Adf(seeds=seeds, max_iter=ITERATIONS, trials=TRIALS, rounds=1),
    "adf, stray=0": lambda seeds: eh.Adf(seeds=seeds, max_iter=ITERATIONS, trials=TRIALS, stray=0, rounds=1),
}
"""Searches with a global and a local phase, by the number of seeds."""
LOCAL: dict[str, Callable[[int], Any]] = {
    "aequitas full": lambda starts: FromData(eh.Aequitas("full", samples=starts, steps=TRIALS, rounds=1)),
    "kosei": lambda starts: FromData(eh.Kosei(samples=starts, per_seed=TRIALS, rounds=1)),
    "adf": lambda starts: eh.Adf(seeds=starts, trials=TRIALS, phase="local"),
    "adf, stray=0": lambda starts: eh.Adf(seeds=starts, trials=TRIALS, phase="local", stray=0),
}
"""Local phases that start from the data rows, by their number."""
UNTIL: dict[str, Callable[[int], Any]] = {
    "themis": lambda _: eh.Themis(),
    "aequitas full": BOTH["aequitas full"],
    "kosei": lambda seeds: eh.Kosei(samples=seeds, rounds=1),
    "symbolic": lambda _: eh.Symbolic(),
    "adf": BOTH["adf"],
    "adf, stray=0": BOTH["adf, stray=0"],
}
"""Searches that are timed."""


def spread(values: Sequence[float]) -> list[float]:
    """Return mean and standard deviation."""
    return [short(statistics.fmean(values)), short(statistics.stdev(values)) if len(values) > 1 else 0.0]


def prevalence(on: Subject) -> dict[str, Any]:
    """Say how common discrimination is with each net: among random individuals, and among the different data rows."""
    numbers = range(len(on.models))
    uniform = [on.audit(eh.Themis(samples=UNIFORM), number)[0] for number in numbers]
    rows = [on.audit(FromData(eh.Themis(samples=len(on.data))), number)[0] for number in numbers]
    return {
        "uniform": [short(run.success_rate) for run in uniform],
        "data": [short(run.success_rate) for run in rows],
        "data_tests": rows[0].tests,
    }


def both(on: Subject, search: str, runs: int) -> dict[str, Any]:
    """Run both phases (table 4)."""
    made, seconds = zip(*(on.audit(BOTH[search](on.seeds), seed) for seed in range(runs)), strict=True)
    repeats, tests = sum(run.counts["repeats"] for run in made), sum(run.tests for run in made)
    return {
        "tests": spread([run.tests for run in made]),
        "findings": spread([run.found for run in made]),
        "success": spread([run.success_rate for run in made]),
        "repeats": short(repeats / (repeats + tests)),
        "rows": spread([run.rows for run in made]),
        "cpu_seconds": spread(seconds),
        "per_second": short(sum(run.found for run in made) / sum(seconds)),
        "stops": sorted({run.stop.value for run in made}),
    }


def led(on: Subject, runs: int) -> dict[str, Any]:
    """Run the global phase with 1, 2, ... iterations: each adds the seeds that succeed at it (tables 6 and 9).

    Two seeds that come to the same individual are one finding: the second counts as a failure.
    """
    steps = range(1, ITERATIONS + 1)
    totals, succeeded, means, success_means, random = [], [], [], [], []
    for seed in range(runs):
        made = [on.audit(eh.Adf(seeds=on.seeds, max_iter=k, phase="global"), seed)[0] for k in steps]
        found = [run.found for run in made]
        at = [now - before for now, before in zip(found, [0, *found], strict=False)]
        # With one iteration only the seeds themselves are judged.
        seeds, spent = made[0].tests, sum(k * n for k, n in zip(steps, at, strict=True))
        totals.append(found[-1])
        succeeded.append(at)
        means.append((spent + ITERATIONS * (seeds - found[-1])) / seeds)
        success_means.append(spent / max(1, found[-1]))
        random.append(on.audit(eh.Themis(samples=on.seeds), seed)[0].found)
    return {
        "adf": spread(totals),
        "seeds_alone": spread([at[0] for at in succeeded]),
        "random": spread(random),
        "iterations": spread(means),
        "iterations_of_successes": spread(success_means),
        "succeed_at": [short(statistics.fmean(column)) for column in zip(*succeeded, strict=True)],
    }


def starts(on: Subject, seed: int, most: int) -> pd.DataFrame:
    """Draw some of what ADF's global phase finds, for every local phase to start from."""
    run, _ = on.audit(eh.Adf(seeds=on.seeds, max_iter=ITERATIONS, phase="global"), seed)
    found = run.findings[list(on.space.names)]
    return found.sample(min(most, len(found)), random_state=seed)


def local(on: Subject, runs: int) -> dict[str, dict[str, Any]]:
    """Run every local phase from the same starts (table 7); findings and tests for each start, without itself."""
    findings: dict[str, list[float]] = {search: [] for search in LOCAL}
    tests: dict[str, list[float]] = {search: [] for search in LOCAL}
    seconds: dict[str, list[float]] = {search: [] for search in LOCAL}
    for seed in range(runs):
        data = starts(on, seed, STARTS)
        for search, make in LOCAL.items():
            run, spent = on.audit(make(len(data)), seed, data=data)
            findings[search].append(run.found / len(data) - 1)
            tests[search].append(run.tests / len(data) - 1)
            seconds[search].append(spent)
    return {
        search: {
            "findings": spread(findings[search]),
            "tests": spread(tests[search]),
            "cpu_seconds": spread(seconds[search]),
        }
        for search in LOCAL
    }


def until(on: Subject, search: str, runs: int) -> dict[str, Any]:
    """Run a search until it has found enough (table 8), or for as long as anyone would wait."""
    made, seconds = zip(*(_patient(on, UNTIL[search](on.seeds), seed) for seed in range(runs)), strict=True)
    enough = [spent for run, spent in zip(made, seconds, strict=True) if run.found >= FINDINGS]
    return {
        "reached": len(enough),
        "cpu_seconds": spread(enough) if enough else None,
        "findings": spread([run.found for run in made]),
        "tests": spread([run.tests for run in made]),
        "rows": spread([run.rows for run in made]),
        "stops": sorted({run.stop.value for run in made}),
    }


def _patient(
    on: Subject, search: Any, seed: int, findings: int = FINDINGS, seconds: float = PATIENCE
) -> tuple[eh.Run, float]:
    start = time.process_time()

    def watch(_: eh.results.Status) -> None:
        if time.process_time() - start > seconds:
            raise KeyboardInterrupt  # What was found until then is kept, as with Ctrl-C.

    return on.audit(search, seed, eh.Budget(findings=findings), progress=watch)


def symbolic(on: Subject, runs: int) -> dict[str, Any]:
    """Run symbolic generation: its global search (table 6), its local search (table 7), and both in time (table 5)."""
    runs = min(runs, SYMBOLIC_RUNS)
    search = eh.Symbolic(phase="global", first="global")
    far = [on.audit(search, seed, eh.Budget(tests=on.seeds))[0] for seed in range(runs)]
    near = []
    for seed in range(runs):
        data = starts(on, seed, SYMBOLIC_STARTS)
        run, _ = on.audit(eh.Symbolic(phase="local"), seed, eh.Budget(tests=len(data) * (TRIALS + 1)), data)
        near.append((run.found / len(data) - 1, run.tests / len(data) - 1))
    searches = {"symbolic": eh.Symbolic(), "adf": eh.Adf(seeds=on.seeds, trials=10**6, rounds=1)}
    timed = {
        name: [_patient(on, search, seed, 10**9, EQUAL_SECONDS)[0] for seed in range(runs)]
        for name, search in searches.items()
    }
    return {
        "global": spread([run.found for run in far]),
        "global_rows": spread([run.rows for run in far]),
        "local": {"findings": spread([found for found, _ in near]), "tests": spread([tests for _, tests in near])},
        "timed": {
            name: {
                "tests": spread([run.tests for run in made]),
                "findings": spread([run.found for run in made]),
                "rows": spread([run.rows for run in made]),
            }
            for name, made in timed.items()
        },
    }


def growth(on: Subject, search: str) -> list[list[int]]:
    """Run both phases from more and more seeds: their number, tests and findings."""
    runs = [(n, on.audit(BOTH[search](n), 0)[0]) for n in GROWTH if n <= on.seeds]
    return [[n, run.tests, run.found] for n, run in runs]


def growth_from(on: Subject, search: str) -> list[list[int]]:
    """Run a local phase from more and more of the same starts (figure 3): their number, tests and findings."""
    data = starts(on, 0, GROWTH_STARTS[-1])
    sizes = [n for n in GROWTH_STARTS if n <= len(data)] or [len(data)]
    runs = [(n, on.audit(LOCAL[search](n), 0, data=data[:n])[0]) for n in sizes]
    return [[n, run.tests, run.found] for n, run in runs]


QUESTIONS = ("prevalence", "led", "both", "local", "until", "growth_from", "growth", "symbolic")
ONCE: dict[str, Callable[[Subject, int], Any]] = {"led": led, "symbolic": symbolic}
"""Questions with one answer for all searches of a row."""


def describe_nets(results: Results, data: str, count: int) -> None:
    """Keep how good the nets are; answers about others would not belong to those that are stored."""
    said = [nets.facts(data, number) for number in range(count)]
    if results.lacks("nets", data):
        results.add("nets", data, said)
    elif [net["weights"] for net in results.all["nets"][data]] != [net["weights"] for net in said]:
        raise SystemExit(f"{results.path.name} is about other nets for {data}; start again with --fresh")


def measure(results: Results, row: str, questions: Sequence[str], runs: int, count: int) -> None:
    """Answer the questions for one row of the tables."""
    describe_nets(results, row.split("/")[0], count)
    on = subject(row, count)
    for question in questions:
        if question == "prevalence" or question in ONCE:
            if results.lacks(question, row):
                results.add(question, row, ONCE[question](on, runs) if question in ONCE else prevalence(on))
        elif question == "local":
            # All of them start from the same findings, which are made once.
            if any(results.lacks(question, f"{row}/{search}") for search in LOCAL):
                for search, answer in local(on, runs).items():
                    results.add(question, f"{row}/{search}", answer)
        else:
            _measure_searches(results, on, question, runs)


def _measure_searches(results: Results, on: Subject, question: str, runs: int) -> None:
    """Answer a question that is put to each search alone."""
    ask: dict[str, tuple[dict[str, Callable[[int], Any]], Callable[[str], Any]]] = {
        "both": (BOTH, lambda search: both(on, search, runs)),
        "until": (UNTIL, lambda search: until(on, search, runs)),
        "growth": (BOTH, lambda search: growth(on, search)),
        "growth_from": (BOTH, lambda search: growth_from(on, search)),
    }
    searches, answer = ask[question]
    for search in searches:
        if results.lacks(question, f"{on.row}/{search}"):
            results.add(question, f"{on.row}/{search}", answer(search))


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "adf.json")
    options.add_argument("--fresh", action="store_true", help="forget what is stored")
    options.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    options.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=QUESTIONS)
    options.add_argument("--seeds", type=int, default=RUNS, help="runs of each search, with other random numbers")
    options.add_argument("--nets", type=int, default=NETS, help="how many nets of each data set")
    given = options.parse_args(arguments)
    settings = {
        "runs": given.seeds,
        "nets": given.nets,
        "seeds": SEEDS,
        "iterations": ITERATIONS,
        "trials": TRIALS,
        "starts": STARTS,
        "findings": FINDINGS,
        "patience": PATIENCE,
        "symbolic_starts": SYMBOLIC_STARTS,
        "symbolic_runs": SYMBOLIC_RUNS,
        "equal_seconds": EQUAL_SECONDS,
        "uniform": UNIFORM,
        "width": WIDTH,
        "layers": list(nets.LAYERS),
        "torch": version("torch"),
    }
    torch.set_num_threads(1)
    results = Results(given.out, given.fresh, settings, ("nets", *QUESTIONS))
    for row in given.rows:
        measure(results, row, given.questions, given.seeds, given.nets)


if __name__ == "__main__":
    main()
