"""What tests cost as a run grows beyond memory: time per test, and the most memory, up to a billion tests.

Each size is a process of its own. A decision tree is asked; findings and keys that do not fit into memory go to files.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from benchmarks.machine import facts, parser, save, short
from benchmarks.memory import peak
from benchmarks.subjects import load

SIZES = (10**6, 10**7, 10**8)
WANTED_MB = 2000
"""The most memory that a run may take."""


def child(search: str, tests: int) -> None:
    """Run one search in this process and print what it took."""
    space, (X, y) = load("census")
    tree = DecisionTreeClassifier(max_depth=8, random_state=0).fit(X, y)
    eh.audit(tree, space, search, eh.Budget(tests=1000), seed=1)
    wall, cpu = time.perf_counter(), time.process_time()
    run = eh.audit(tree, space, search, eh.Budget(tests=tests), seed=0, confirm=10_000)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    page = run.page(run.found // 2, 100)
    print(json.dumps({
        "tests": run.tests, "findings": run.found, "repeats": run.counts["repeats"], "seconds": short(wall),
        "ns_per_test": short(1e9 * wall / run.tests), "cpu_ns_per_test": short(1e9 * cpu / run.tests),
        "peak_mb": short(peak()), "page_rows": len(page),
    }))  # fmt: skip


def measure(search: str, sizes: list[int]) -> dict[str, Any]:
    """Run every size."""
    result: dict[str, Any] = {"machine": facts(), "search": search, "sizes": []}
    for tests in sizes:
        command = [sys.executable, "-m", "benchmarks.larger", "--child", str(tests), "--search", search]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(done.stdout.splitlines()[-1])
        result["sizes"].append(row)
        print(
            f"{row['tests']:>13,} tests  {row['ns_per_test']:6.0f} ns a test  {row['peak_mb']:6.0f} MB  "
            f"{row['findings']:>12,} findings  {row['repeats']:,} repeats",
            flush=True,
        )
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "larger.json")
    options.add_argument("--search", default="themis")
    options.add_argument("--sizes", type=float, nargs="+", default=list(SIZES))
    options.add_argument("--child", type=int)
    given = options.parse_args(arguments)
    if given.child is not None:
        child(given.search, given.child)
        return
    save(given.out, measure(given.search, [int(size) for size in given.sizes]))


if __name__ == "__main__":
    main()
