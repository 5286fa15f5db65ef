"""ADF by the protocol of its paper, on its authors' networks: six pairs of data set and protected attribute.

One question a table, each named after what it asks: how common discrimination is, what both phases find (table 4), what
the global phase finds and in how many iterations (tables 6 and 9), what the local phase finds from the same starts
(table 7), how long 1,000 findings take (table 8), how findings grow with the seeds (figure 3), and what symbolic
generation does in each phase and in equal time (tables 5 to 7).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

import pandas as pd

import evenhand as eh
from benchmarks import authors
from benchmarks.machine import cpu, short
from benchmarks.tasks import Task
from evenhand.search import Problem, Search
from evenhand.spaces.individuals import Individuals

FULL: dict[str, Any] = {
    "repeats": 3,
    "runs": 1,
    "seeds": {"census": 1_000, "bank": 1_000, "credit": 600},
    "iterations": 10,
    "trials": 1_000,
    "starts": 100,
    "symbolic_starts": 10,
    "equal_seconds": 5.0,
    "findings": 1_000,
    "patience": 10.0,
    "uniform": 100_000,
    "growth": [50, 100, 200, 300],
    "neighbours": 1_000,
}
"""Repeats have other random numbers; symbolic generation, table 5 and figure 3, which take longest, have fewer runs.
Seeds: individuals that the global phase starts from, or that AEQUITAS draws; starts: findings of ADF's global phase
that all local phases start from, fewer for symbolic generation. Patience is the CPU seconds after which a search is not
waited for any longer."""
USES = {
    **dict.fromkeys(("both", "led", "local"), ("repeats",)),
    "until": ("repeats", "findings", "patience"),
    "timed": ("runs", "equal_seconds"),
    "symbolic": ("runs", "symbolic_starts"),
    "growth": ("growth",),
}
"""Settings of some questions only."""
QUICK: dict[str, Any] = FULL | {
    "repeats": 1,
    "runs": 1,
    "seeds": dict.fromkeys(FULL["seeds"], 30),
    "iterations": 3,
    "trials": 10,
    "starts": 5,
    "symbolic_starts": 1,
    "equal_seconds": 0.1,
    "findings": 20,
    "patience": 0.1,
    "uniform": 1_000,
    "growth": [2, 4],
    "neighbours": 100,
}
UNLIMITED = eh.Budget(tests=10**9)


@dataclass(frozen=True)
class Subject:
    """A network, the space and rows of its data set, and the protocol."""

    row: str
    model: Any
    space: eh.Space
    data: pd.DataFrame
    settings: dict[str, Any]

    @property
    def seeds(self) -> int:
        """The number of seeds that the paper takes from the rows."""
        return int(self.settings["seeds"][self.row.split("/")[0]])

    @property
    def runs(self) -> range:
        """The seeds of the runs of what takes longest."""
        return range(self.settings["runs"])

    @property
    def repeats(self) -> range:
        """The seeds of all others."""
        return range(self.settings["repeats"])

    def audit(
        self, search: Any, seed: int, budget: eh.Budget = UNLIMITED, data: pd.DataFrame | None = None, **more: Any
    ) -> tuple[eh.Run, float]:
        """Run a search from the data set's rows or others; return also its CPU seconds."""
        rows = (self.data if data is None else data) if getattr(search, "uses_data", True) else None
        return cpu(lambda: eh.audit(self.model, self.space, search, budget, seed=seed, data=rows, **more))


@lru_cache(maxsize=2)
def _loaded(row: str) -> tuple[Any, eh.Space, pd.DataFrame]:
    import torch

    torch.set_num_threads(1)
    data, space = row.split("/")[0], authors.space(row)
    return eh.wrap(authors.net(data)), space, pd.DataFrame(authors.table(data)[0], columns=list(space.names))


def subject(row: str, settings: dict[str, Any]) -> Subject:
    """Load what one row of the paper's tables is about."""
    return Subject(row, *_loaded(row), settings)


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


STRAYS = {"adf": 0.0, "adf, program": eh.Adf.PROGRAM, "adf, printed": eh.Adf.PRINTED}
"""ADF's walks: evenhand's default, as the authors' program walks, and as their Algorithm 3 is printed."""
WALKS = {"aequitas": eh.Aequitas.PRINTED, "aequitas, program": eh.Aequitas.PROGRAM}


def both_phases(search: str, seeds: int, s: dict[str, Any], trials: int | None = None) -> Any:
    """Make a search with a global and a local phase, as the papers set it."""
    trials = s["trials"] if trials is None else trials
    if search in WALKS:
        return eh.Aequitas("full", samples=seeds, steps=trials, rounds=1, stray=WALKS[search])
    if search == "kosei":
        return eh.Kosei(samples=seeds, rounds=1)
    if search in STRAYS:
        stray, iterations = STRAYS[search], s["iterations"]
        return eh.Adf(seeds=seeds, max_iter=iterations, trials=trials, refresh=1, rounds=1, stray=stray)
    return eh.Themis() if search == "themis" else eh.Symbolic(neighbours=s["neighbours"])


def local_phase(search: str, starts: int, s: dict[str, Any]) -> Any:
    """Make a search that starts from all of so many data rows."""
    if search in WALKS:
        return FromData(both_phases(search, starts, s))
    if search == "kosei":
        return FromData(eh.Kosei(samples=starts, per_seed=s["trials"], rounds=1))
    return eh.Adf(seeds=starts, trials=s["trials"], refresh=1, phase="local", stray=STRAYS[search])


TWO_PHASES = (*WALKS, *STRAYS)
LOCAL = (*TWO_PHASES, "kosei")
UNTIL = ("themis", "kosei", "symbolic", *TWO_PHASES)


def spread(values: Sequence[float]) -> list[float]:
    """Return mean and standard deviation."""
    return [short(statistics.fmean(values)), short(statistics.stdev(values)) if len(values) > 1 else 0.0]


def prevalence(on: Subject) -> dict[str, Any]:
    """Say how common discrimination is: among random individuals, and among the different data rows."""
    uniform = on.audit(eh.Themis(samples=on.settings["uniform"]), 0)[0]
    rows = on.audit(FromData(eh.Themis(samples=len(on.data))), 0)[0]
    said = eh.wrap(on.model).labels(on.data.to_numpy())
    right = float((said == authors.table(on.row.split("/")[0])[1]).mean())
    return {
        "accuracy": short(right),
        "uniform": short(uniform.success_rate),
        "data": short(rows.success_rate),
        "data_tests": rows.tests,
    }


def both(on: Subject, search: str) -> dict[str, Any]:
    """Run both phases (table 4)."""
    chosen = both_phases(search, on.seeds, on.settings)
    made, seconds = zip(*(on.audit(chosen, seed) for seed in on.repeats), strict=True)
    repeats, tests = sum(run.counts["repeats"] for run in made), sum(run.tests for run in made)
    return {
        "tests": spread([run.tests for run in made]),
        "findings": spread([run.found for run in made]),
        "success": spread([run.success_rate for run in made]),
        "repeats": short(repeats / max(1, repeats + tests)),
        "rows": spread([run.rows for run in made]),
        "seconds": spread(seconds),
    }


def led(on: Subject) -> dict[str, Any]:
    """Run the global phase with 1, 2, ... iterations: each adds the seeds that succeed at it (tables 6 and 9).

    Two seeds that come to the same individual are one finding: the second counts as a failure.
    """
    most = on.settings["iterations"]
    steps = range(1, most + 1)
    totals, alone, means, success_means, random = [], [], [], [], []
    for seed in on.repeats:
        made = [on.audit(eh.Adf(seeds=on.seeds, max_iter=k, phase="global"), seed)[0] for k in steps]
        found = [run.found for run in made]
        at = [now - before for now, before in zip(found, [0, *found], strict=False)]
        # With one iteration only the seeds themselves are judged.
        seeds, spent = made[0].tests, sum(k * n for k, n in zip(steps, at, strict=True))
        totals.append(found[-1])
        alone.append(at[0])
        means.append((spent + most * (seeds - found[-1])) / seeds)
        success_means.append(spent / max(1, found[-1]))
        random.append(on.audit(eh.Themis(samples=on.seeds), seed)[0].found)
    return {
        "adf": spread(totals),
        "seeds_alone": spread(alone),
        "random": spread(random),
        "iterations": spread(means),
        "iterations_of_successes": spread(success_means),
    }


def starts(on: Subject, seed: int, most: int) -> pd.DataFrame:
    """Draw some of what ADF's global phase finds, for every local phase to start from."""
    run, _ = on.audit(eh.Adf(seeds=on.seeds, max_iter=on.settings["iterations"], phase="global"), seed)
    found = run.findings[list(on.space.names)]
    return found.sample(min(most, len(found)), random_state=seed)


def local(on: Subject, search: str) -> dict[str, Any]:
    """Run a local phase from the starts that all have (table 7); findings and tests for each, without itself."""
    findings, tests = [], []
    for seed in on.repeats:
        data = starts(on, seed, on.settings["starts"])
        run, _ = on.audit(local_phase(search, len(data), on.settings), seed, data=data)
        findings.append(run.found / len(data) - 1)
        tests.append(run.tests / len(data) - 1)
    return {"findings": spread(findings), "tests": spread(tests)}


def until(on: Subject, search: str) -> dict[str, Any]:
    """Run a search until it has found enough (table 8), or for as long as anyone would wait."""
    s = on.settings
    made, seconds = zip(
        *(
            patient(on, both_phases(search, on.seeds, s), seed, s["findings"], s["patience"])
            for seed in on.repeats
        ),
        strict=True,
    )  # fmt: skip
    enough = [spent for run, spent in zip(made, seconds, strict=True) if run.found >= s["findings"]]
    return {
        "reached": len(enough),
        "seconds": spread(enough) if enough else None,
        "findings": spread([run.found for run in made]),
        "tests": spread([run.tests for run in made]),
    }


def patient(on: Any, search: Any, seed: int, findings: int, seconds: float) -> tuple[eh.Run, float]:
    """Search until so much is found, or for so many CPU seconds."""
    start = time.process_time()

    def watch(_: eh.results.Status) -> None:
        if time.process_time() - start > seconds:
            raise KeyboardInterrupt  # What was found until then is kept, as with Ctrl-C.

    made: tuple[eh.Run, float] = on.audit(search, seed, eh.Budget(findings=findings), progress=watch)
    return made


def symbolic(on: Subject) -> dict[str, Any]:
    """Run symbolic generation's global search (table 6) and its local search (table 7)."""
    s = on.settings
    search = eh.Symbolic(phase="global", first="global", neighbours=s["neighbours"])
    far = [on.audit(search, seed, eh.Budget(tests=on.seeds))[0] for seed in on.runs]
    near, tests = [], []
    for seed in on.runs:
        data = starts(on, seed, s["symbolic_starts"])
        beside = eh.Symbolic(phase="local", neighbours=s["neighbours"])
        run, _ = on.audit(beside, seed, eh.Budget(tests=len(data) * (s["trials"] + 1)), data)
        near.append(run.found / len(data) - 1)
        tests.append(run.tests / len(data) - 1)
    return {
        "global": spread([run.found for run in far]),
        "local": spread(near),
        "local_tests": spread(tests),
    }


def timed(on: Subject, search: str) -> dict[str, Any]:
    """Run a search for some CPU seconds (table 5); walks go on until the time is up."""
    s = on.settings
    chosen = both_phases(search, on.seeds, s, trials=10**6)
    made = [patient(on, chosen, seed, 10**9, s["equal_seconds"])[0] for seed in on.runs]
    return {
        "tests": spread([run.tests for run in made]),
        "findings": spread([run.found for run in made]),
        "success": spread([run.success_rate for run in made]),
    }


def growth(on: Subject, search: str) -> dict[str, Any]:
    """Run a local phase from more and more of the same starts (figure 3): their number, tests and findings."""
    wanted = on.settings["growth"]
    data = starts(on, 0, wanted[-1])
    sizes = [n for n in wanted if n <= len(data)] or [len(data)]
    runs = [(n, on.audit(local_phase(search, n, on.settings), 0, data=data[:n])[0]) for n in sizes]
    return {"points": [[n, run.tests, run.found] for n, run in runs]}


ALL: dict[str, tuple[Callable[[Subject], dict[str, Any]], float]] = {
    "prevalence": (prevalence, 5),
    "led": (led, 5),
    "symbolic": (symbolic, 30),
}
"""Questions with one answer a row, and roughly the CPU seconds that it takes."""
EACH: dict[str, tuple[Callable[[Subject, str], dict[str, Any]], Sequence[str], float]] = {
    "both": (both, TWO_PHASES, 10),
    "local": (local, LOCAL, 6),
    "until": (until, UNTIL, 3),
    "timed": (timed, ("symbolic", *STRAYS), 10),
    "growth": (growth, TWO_PHASES, 10),
}
"""Questions with an answer for each search."""
QUESTIONS = (*ALL, *EACH)


def answer(question: str, row: str, search: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Answer one question about one row of the tables."""
    on = subject(row, settings)
    return EACH[question][0](on, search) if search else ALL[question][0](on)


def tasks(settings: dict[str, Any], quick: bool) -> Iterator[Task]:
    """List everything that is measured on the authors' networks."""
    if not authors.there():
        return
    for row in authors.PAIRS[-1:] if quick else authors.PAIRS:
        for question, (_, cost) in ALL.items():
            yield Task("adf", question, row, partial(answer, question, row, "", settings), cost)
        for question, (_, searches, cost) in EACH.items():
            for search in searches:
                call = partial(answer, question, row, search, settings)
                yield Task("adf", question, f"{row}/{search}", call, cost)
