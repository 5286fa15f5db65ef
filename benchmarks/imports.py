"""How long it takes to import evenhand, to show the command's help and to load the pytest plugin.

CPU seconds of fresh processes, the median of several rounds in turns, and how many modules each has imported. The
processes named ``python`` and ``import pytest`` are what to compare with.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from benchmarks.machine import facts, parser, save, short

ROUNDS = 7
PROCESSES = {
    "python": ["-c", "pass"],
    "import evenhand": ["-c", "import evenhand"],
    "evenhand --help": ["-m", "evenhand", "--help"],
    "import pytest": ["-c", "import pytest"],
    "pytest plugin": ["-c", "import pytest, evenhand.pytest_plugin"],
}


def seconds(arguments: list[str]) -> float:
    """Run Python once; return the CPU seconds of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def modules(arguments: list[str]) -> tuple[int, int]:
    """Run Python once; return how many modules it imported, and how many of them are evenhand's."""
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], check=True, capture_output=True, text=True)
    lines = [line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = set(lines) - {"imported package"}
    return len(names), sum(name.split(".")[0] == "evenhand" for name in names)


def main(argv: list[str] | None = None) -> None:
    made = parser(__doc__, "imports.json")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="fresh processes of each kind")
    made.add_argument("--only", choices=PROCESSES, help="one kind of process alone")
    options = made.parse_args(argv)
    chosen = {name: PROCESSES[name] for name in PROCESSES if options.only in (None, name)}
    imported = {name: modules(arguments) for name, arguments in chosen.items()}
    times: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(options.rounds):
        for name, arguments in chosen.items():
            times[name].append(seconds(arguments))
    rows = {
        name: {"cpu_seconds": short(statistics.median(taken)), "least": short(min(taken)),
               "modules": imported[name][0], "of_evenhand": imported[name][1]}
        for name, taken in times.items()
    }  # fmt: skip
    for name, row in rows.items():
        print(f"{name:18} {row['cpu_seconds']:.3f} CPU s, {row['modules']} modules, {row['of_evenhand']} of evenhand")
    save(options.out, {"machine": facts(), "rounds": options.rounds, "processes": rows})


if __name__ == "__main__":
    main()
