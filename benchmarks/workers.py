"""How much faster an audit of a forest of 500 trees is on several workers, and whether its bytes are the same.

All ways take turns, several times; the median counts. Workers are started, and have the model, before the clock starts:
a short audit is not counted. What the machine allows is how much faster the bare model answers the same number of rows
in two processes than in one. Then workers, and whole runs, are killed at random moments; the bytes must be the same.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import evenhand as eh
from benchmarks.machine import facts, parser, save, short
from benchmarks.subjects import load
from benchmarks.throughput import bare
from evenhand._rng import Stream
from evenhand.engine.store import ANSWERS
from evenhand.models.executors import connect, local

TREES, ROWS, ROUNDS = 500, 5_000, 5
KILLED_TREES, KILLED_TESTS, KILLED_CHUNK = 20, 10_000, 512
"""The audits of which workers are killed: many small blocks, each of which may lose a worker."""
WANTED, WANTED_DASK = 1.7, 0.85
"""How many times as fast two workers should be as one; the share of that which Dask should reach."""


@contextmanager
def scheduler(workers: int) -> Iterator[str]:
    """Start a scheduler and workers, each a process of one thread, as one would by hand."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
        first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
        assert first.stderr is not None
        address = next(m[1] for line in first.stderr if (m := re.search(r"Scheduler at:\s+(tcp://\S+)", line)))
        drain = threading.Thread(target=first.stderr.read, daemon=True)
        drain.start()
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
        others = [
            subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment, cwd=folder) for _ in range(workers)
        ]
        try:
            yield address
        finally:
            for process in (*others, first):
                process.terminate()
                process.wait()
            drain.join()
            first.stderr.close()


def ways(most: int, stack: ExitStack) -> dict[str, Callable[[], Any]]:
    """Name the ways to call the model; each makes its executor when it is called."""

    def cluster() -> Any:
        import distributed

        made = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        return stack.enter_context(distributed.Client(stack.enter_context(made), set_as_default=False))

    def by_hand() -> Any:
        executor: Any = connect(stack.enter_context(scheduler(2)))
        executor._client.wait_for_workers(2)
        return executor

    numbers = [n for n in (1, 2, 4, 8, 16, 32) if n <= most]
    return {
        "this process": lambda: None,
        **{f"{n} process{'es' * (n > 1)}": lambda n=n: local(n) for n in numbers},
        **{f"{n} threads": lambda n=n: stack.enter_context(ThreadPoolExecutor(n)) for n in numbers[1:]},
        "Dask LocalCluster of 2": cluster,
        "Dask, 2 workers started by hand": by_hand,
    }


def kept(
    forest: Any, strategy: str, tests: int, folder: Path, executor: Any, progress: Any = None
) -> tuple[float, str]:
    """Audit, and return the seconds that it took, and the digest of findings and log."""
    (space, _), budget, start = load("census"), eh.Budget(tests=tests), time.perf_counter()
    run = eh.audit(forest, space, strategy, budget, directory=folder, executor=executor, progress=progress)
    seconds = time.perf_counter() - start
    return seconds, sha256(run.findings.to_csv().encode() + (folder / ANSWERS).read_bytes()).hexdigest()


def fitted(trees: int, chunk: int | None = None) -> Any:
    """Fit a forest."""
    _, (X, y) = load("census")
    return eh.wrap(RandomForestClassifier(trees, random_state=0).fit(X[:ROWS], y[:ROWS]), chunk=chunk)


def alone(forest: RandomForestClassifier, rows: Any, processes: int) -> float:
    """Return the seconds that a model takes for rows, in equal parts in several processes, 16,384 at a time."""
    context = multiprocessing.get_context("fork")
    started = context.Barrier(processes + 1)

    def predict(part: Any) -> None:
        started.wait()
        bare(forest, part)

    parts = [context.Process(target=predict, args=(part,)) for part in np.array_split(rows, processes)]
    for process in parts:
        process.start()
    started.wait()
    start = time.perf_counter()
    for process in parts:
        process.join()
    return time.perf_counter() - start


def speed(tests: int, most: int, strategy: str, rounds: int) -> dict[str, Any]:
    """Let all ways take turns."""
    forest, digests, allowed = fitted(TREES), set(), list[float]()
    space, _ = load("census")
    people, _ = space.sampler.draw(Stream(0), 0, tests)
    rows = space.families(people, 0).array()
    times: dict[str, list[float]] = {name: [] for name in ways(most, ExitStack())}
    for turn in range(rounds):
        allowed.append(alone(forest.source, rows, 1) / alone(forest.source, rows, 2))
        print(f"{turn} the machine allows {allowed[-1]:.2f}", flush=True)
        for name in times:
            with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
                executor = ways(most, stack)[name]()
                kept(forest, strategy, 1_000, Path(folder) / "warm", executor)
                seconds, digest = kept(forest, strategy, tests, Path(folder) / "run", executor)
            times[name].append(seconds)
            digests.add(digest)
            print(f"{turn} {name:32} {seconds:7.2f} s", flush=True)
    table = []
    for name, taken in times.items():
        # Round by round, because other programs may slow down some rounds.
        ratios = [one / own for one, own in zip(times["1 process"], taken, strict=True)]
        table.append({
            "way": name, "seconds": short(statistics.median(taken)), "times": [short(s) for s in taken],
            "speedup": short(statistics.median(ratios)),
        })  # fmt: skip
        print(f"{name:32} {table[-1]['seconds']:7.2f} s  {table[-1]['speedup']:.2f} times as fast as 1 process")
    return {
        "trees": TREES,
        "tests": tests,
        "search": strategy,
        "allowed": short(statistics.median(allowed)),
        "ways": table,
        "same_bytes": len(digests) == 1,
    }


def alive() -> list[int]:
    """Return the workers that this process has started."""
    command = ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in lines if "popen_loky" in line]


def kills(wanted: int) -> dict[str, Any]:
    """Kill workers at random moments, until so many were killed; then whole runs, which go on."""
    forest, rng, killed, same, runs = fitted(KILLED_TREES, KILLED_CHUNK), np.random.default_rng(0), 0, True, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, alone = kept(forest, "kosei", KILLED_TESTS, folder / "alone", None)

        def kill() -> None:
            nonlocal killed
            if pids := alive():
                with suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGKILL)
                    killed += 1

        def follow(_: Any) -> None:
            # At a random moment after some of the blocks.
            if rng.random() < 0.2:
                threading.Timer(rng.exponential(0.03), kill).start()

        while killed < wanted:
            same &= kept(forest, "kosei", KILLED_TESTS, folder / str(runs), local(2), follow)[1] == alone
            runs += 1
        starts, ended, place = 0, False, folder / "resumed"
        while not ended:
            starts += 1
            sizes = map(str, (KILLED_TREES, KILLED_TESTS, KILLED_CHUNK))
            command = [sys.executable, "-m", "benchmarks.workers", "--child", str(place), *sizes]
            process = subprocess.Popen(command, start_new_session=True)
            with suppress(subprocess.TimeoutExpired):
                # Longer each time, so that it ends however slow the machine is.
                process.wait(rng.exponential(4.0) + 4 * starts)
                ended = True
            process.kill()
            process.wait()
        resumed = kept(forest, "kosei", KILLED_TESTS, place, None)[1] == alone
    print(f"{killed} workers killed in {runs} runs, the same bytes: {same}; {starts - 1} runs killed: {resumed}")
    return {"workers": killed, "runs": runs, "same_bytes": same, "runs_killed": starts - 1, "resumed_same": resumed}


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "workers.json")
    options.add_argument("--tests", type=int, default=300_000)
    options.add_argument("--strategy", default="themis")
    options.add_argument("--most", type=int, default=os.cpu_count(), help="the most workers")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--kills", type=int, default=50, help="how many workers are killed")
    options.add_argument(
        "--child",
        nargs=4,
        metavar=("DIRECTORY", "TREES", "TESTS", "CHUNK"),
        help="run the audit that is killed in this process",
    )
    given = options.parse_args(arguments)
    if given.child:
        trees, tests, chunk = map(int, given.child[1:])
        kept(fitted(trees, chunk), "kosei", tests, Path(given.child[0]), 2)
        return
    result: dict[str, Any] = {"machine": facts(), "wanted": WANTED, "wanted_dask": WANTED_DASK}
    result["kills"] = kills(given.kills)
    result |= speed(given.tests, given.most, given.strategy, given.rounds)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
