"""What ten million judged tests add to the memory of a process, and what it costs to start evenhand.

Each search runs in a process of its own, on a model that costs next to nothing and treats three individuals of five
differently. Its peak memory is read before the run (libraries loaded, a tiny run done) and after.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short

TESTS = 10_000_000
SEARCHES = ("themis", "kosei")
WANTED_MB = 300
WANTED_SECONDS = 0.5
ROUNDS = 5


def unfair(X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Decide by sex for three of five, in no pattern that a search could follow."""
    return (X[:, 8] > 0) & ((X @ np.arange(1.0, 14.0)) % 5 < 3)


def peak() -> float:
    """Return the most memory that this process ever held, in MB."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024 / 1e6


def child(search: str, tests: int) -> None:
    """Run one search in this process and print what it took."""
    space = eh.datasets.load("adult").paper_space(protected=["sex"])
    model = eh.wrap(unfair, input="array")
    eh.audit(model, space, search, eh.Budget(tests=100), seed=1)
    before = peak()
    run, seconds = cpu(lambda: eh.audit(model, space, search, eh.Budget(tests=tests), seed=0))
    measured = {"before_mb": before, "after_mb": peak(), "tests": run.tests, "findings": run.found}
    print(json.dumps({**measured, "cpu_seconds": seconds}))


def judged(search: str, tests: int) -> dict[str, Any]:
    """Measure one search in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", "--child", search, "--tests", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    return {
        "search": search,
        "wanted_mb": WANTED_MB,
        "added_mb": short(measured["after_mb"] - measured["before_mb"]),
        **{name: value if isinstance(value, int) else short(value) for name, value in measured.items()},
    }


def starting(command: list[str]) -> float | None:
    """Return the median CPU seconds of a command that has run before, or None if it fails."""
    spent = []
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(ROUNDS + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        if subprocess.run(command, capture_output=True, env=environment, check=False).returncode:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return short(statistics.median(spent[1:]))


def commands() -> dict[str, list[str]]:
    """Return what is started."""
    beside = Path(sys.executable).with_name("evenhand")
    program = str(beside) if beside.exists() else shutil.which("evenhand") or "evenhand"
    return {
        "import evenhand": [sys.executable, "-c", "import evenhand"],
        "evenhand --help": [program, "--help"],
        "python (nothing imported)": [sys.executable, "-c", "pass"],
    }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "memory.json")
    options.add_argument("--child", choices=SEARCHES, help="run one search in this process")
    options.add_argument("--tests", type=int, default=TESTS)
    given = options.parse_args(arguments)
    if given.child:
        child(given.child, given.tests)
        return
    result: dict[str, Any] = {"machine": facts(), "wanted_seconds": WANTED_SECONDS, "memory": [], "start": {}}
    for search in SEARCHES:
        result["memory"].append(judged(search, given.tests))
        print(result["memory"][-1], flush=True)
    for name, command in commands().items():
        result["start"][name] = starting(command)
        print(f"{name}: {result['start'][name]} CPU seconds", flush=True)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
