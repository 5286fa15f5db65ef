"""How much of a net's own speed is left when ADF walks: the local phase on the papers' six-layer nets.

What a net itself allows is measured bare, at the same call sizes: for every step of all walkers together one call with
the rows of all counterparts of all of them, and one that differentiates the loss by two input rows each. Efficiency is
the CPU time of that over the CPU time of the whole run. The two are measured in turns, and the median of three pairs
counts.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

import evenhand as eh
from benchmarks import nets
from benchmarks.machine import cpu, facts, parser, save, short
from benchmarks.subjects import DATA
from evenhand.search import Problem, Query, Search, watched

ROUNDS = 3
WANTED, WANTED_FINDINGS = 0.5, 15_000
ROWS = ("census/sex", "census/race", "census/age", "credit/sex", "credit/age", "bank/age")
SEEDS = 1000


@dataclass(frozen=True)
class Watched:
    """A search whose steps are kept: the families of its walkers, the rows that it wants differentiated, and how."""

    inner: eh.Adf
    forward: list[npt.NDArray[np.float32]] = field(default_factory=list)
    backward: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = field(default_factory=list)

    uses_gradient: ClassVar[bool] = True

    def search(self, problem: Problem) -> Search:
        """Search as the inner one does."""
        return watched(self.inner.search(problem), partial(self._look, problem.space))

    def _look(self, space: eh.Space, query: Query) -> None:
        if query.kind == "contrast":
            self.forward.append(space.families(query.individuals, 0).array().astype(np.float32))
        elif query.kind == "gradient":
            self.backward.append((space.array(query.individuals.rows).astype(np.float32), query.classes))


def bare(net: torch.nn.Module, watched: Watched) -> None:
    """Let the net itself answer: decisions of all counterparts, and input gradients of the loss."""
    for X in watched.forward:
        with torch.inference_mode():
            net(torch.from_numpy(X)).argmax(dim=1).numpy()
    for X, classes in watched.backward:
        rows = torch.from_numpy(X).requires_grad_()
        loss = torch.nn.functional.cross_entropy(net(rows), torch.from_numpy(classes), reduction="sum")
        torch.autograd.grad(loss, rows)[0].numpy()


def measure(row: str, number: int, trials: int, stray: float) -> dict[str, Any]:
    """Walk from all seeds that the global phase leads to discrimination."""
    data, protected = row.split("/")
    dataset = eh.datasets.load(DATA[data][0])
    space, frame = dataset.paper_space(protected=[protected]), dataset.paper_frame().iloc[:, :-1]
    net = nets.net(data, number)
    budget = eh.Budget(tests=10**9)
    led = eh.audit(net, space, eh.Adf(seeds=SEEDS, phase="global"), budget, data=frame)
    start = led.findings[list(space.names)]
    walk = eh.Adf(seeds=len(start), trials=trials, refresh=1, phase="local", stray=stray)
    watched = Watched(walk)
    recorded = eh.audit(net, space, watched, budget, data=start)
    pairs = []
    for _ in range(ROUNDS):
        run, seconds = cpu(lambda: eh.audit(net, space, walk, budget, data=start))
        assert (run.tests, run.found, run.rows) == (recorded.tests, recorded.found, recorded.rows)
        pairs.append((seconds, cpu(lambda: bare(net, watched))[1]))
    ratios = [alone / seconds for seconds, alone in pairs]
    run_seconds, bare_seconds = (statistics.median(times) for times in zip(*pairs, strict=True))
    made = led.found * trials
    return {
        "row": row,
        "net": number,
        "stray": stray,
        "walkers": led.found,
        "trials": made,
        "tests": recorded.tests,
        "findings": recorded.found,
        "asked": recorded.asked,
        "cpu_seconds": short(run_seconds),
        "trials_per_second": short(made / run_seconds),
        "bare_trials_per_second": short(made / bare_seconds),
        "findings_per_second": short(recorded.found / run_seconds),
        "ratios": [short(ratio) for ratio in ratios],
        "efficiency": short(statistics.median(ratios)),
    }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "walking.json")
    options.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    options.add_argument("--nets", type=int, default=1, help="how many nets of each data set")
    options.add_argument("--trials", type=int, default=1000)
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    result: dict[str, Any] = {"machine": facts(), "wanted": WANTED, "wanted_findings": WANTED_FINDINGS, "rows": []}
    for row in given.rows:
        for number in range(given.nets):
            for stray in (1.0, 0.0):
                measured = measure(row, number, given.trials, stray)
                result["rows"].append(measured)
                print(measured, flush=True)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
