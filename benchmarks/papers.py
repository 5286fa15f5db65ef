"""What the papers report, measured again: ``python -m benchmarks.papers``.

Hundreds of measurements that are independent of each other, ``--jobs`` at a time, each kept in a JSON file under
``--output`` as soon as it is there; a second call does only what is missing or has other settings. ``--quick`` is a
try of everything in a minute. ``--only adf repairs/own`` chooses by names, as ``--list`` shows them. ``--gather`` puts
the files of other folders together with those of ``--output``.

The networks of ADF's authors and the comments are not part of evenhand: EVENHAND_PAPER_DATA and EVENHAND_TEXT_DATA name
their folders, and what needs them is left out otherwise.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import adf, aequitas, repairs, symbolic, texts
from benchmarks.machine import RESULTS, Results
from benchmarks.tasks import Task, chosen, gather, measure

MODULES: dict[str, Any] = {
    "aequitas": aequitas,
    "symbolic": symbolic,
    "adf": adf,
    "texts": texts,
    "repairs": repairs,
}
"""What has ``tasks``, ``QUESTIONS``, the settings ``FULL`` and ``QUICK``, and ``USES`` where questions have settings of
their own."""


def tasks(quick: bool) -> Iterator[Task]:
    """List all measurements."""
    for module in MODULES.values():
        make: Callable[..., Iterator[Task]] = module.tasks
        yield from make(module.QUICK if quick else module.FULL, quick)


def files(folder: Path, quick: bool, names: Iterable[str] = MODULES) -> dict[str, Results]:
    """Open the files of results."""
    opened = {}
    for name in names:
        module = MODULES[name]
        settings = module.QUICK if quick else module.FULL
        uses = getattr(module, "USES", None)
        opened[name] = Results(folder / f"{name}.json", False, settings, module.QUESTIONS, uses)
    return opened


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="a try: few seeds, tests and samples")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="measurements at the same time")
    options.add_argument("--seconds", type=float, help="end after so long; a later call goes on")
    options.add_argument("--output", type=Path, default=RESULTS, help="the folder of the JSON files")
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help="measure what has these names")
    options.add_argument("--again", action="store_true", help="measure also what is there already")
    options.add_argument("--list", action="store_true", help="show the names and their CPU seconds, measure nothing")
    options.add_argument("--gather", nargs="+", type=Path, metavar="DIR", help="take over the results of these folders")
    given = options.parse_args(arguments)
    asked = chosen(tasks(given.quick), given.only)
    if given.list:
        print("\n".join(f"{task.cost:6.0f}  {task.name}" for task in asked))
        print(f"{sum(task.cost for task in asked):6.0f}  in all, {len(asked)} measurements")
        return
    into = files(given.output, given.quick, dict.fromkeys(task.file for task in asked))
    for task in asked if given.again else ():
        into[task.file].drop(task.question, task.key)
    for name, file in into.items():
        gather([part for folder in given.gather or [] if (part := folder / f"{name}.json").exists()], file)
    missing = [] if given.gather else measure(asked, into, given.jobs, given.seconds)
    if missing:
        raise SystemExit(f"{len(missing)} measurements are missing: {', '.join(missing[:20])}")


if __name__ == "__main__":
    main()
