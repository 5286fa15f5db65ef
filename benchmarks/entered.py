"""How many files of evenhand an audit, an estimate, a repair and a report enter: what a reader has to open.

A file counts as entered if one of its functions is called; imports alone do not count. Each operation runs in a fresh
process that has imported every module before, on the German credit data and a forest of scikit-learn.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.machine import facts, parser, save

MOST = {"audit": 25, "estimate": 28, "repair": 45, "report": 45}
"""The files that each operation may enter."""


def prepare(operation: str, folder: str) -> Callable[[], object]:
    """Load data, train a model and return the operation, ready to be called."""
    import evenhand as eh
    from evenhand.demo import train

    data = eh.datasets.load("german")
    model, space, budget = train(data), data.space(), eh.Budget(tests=2000)
    if operation == "audit":
        return lambda: eh.audit(model, space, "kosei", budget, data=data.train, directory=f"{folder}/run")
    if operation == "estimate":
        return lambda: eh.estimate(model, space, samples=2000)
    if operation == "repair":
        X, y = data.frame[list(data.features)], data.frame[data.target]
        return lambda: eh.repair(model, X, y, space, "augment", budget=budget)
    run = eh.audit(model, space, "kosei", budget, data=data.train)
    return lambda: eh.report(run, f"{folder}/report.html", model=model, data=data.train)


def trace(call: Callable[[], object]) -> Counter[str]:
    """Call a function; return how often functions of each file of evenhand were called."""
    import evenhand

    root = str(Path(evenhand.__file__).parent) + "/"
    calls: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # Bodies of modules and classes are not optimised code; they run when they are imported.
        if event == "call" and code.co_filename.startswith(root) and code.co_flags & inspect.CO_OPTIMIZED:
            calls[code.co_filename.removeprefix(root)] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return calls


def import_all() -> None:
    """Import every module whose libraries are installed, and every public name of the package."""
    import evenhand

    for name in evenhand.__all__:
        getattr(evenhand, name)

    for module in pkgutil.walk_packages(evenhand.__path__, "evenhand.", onerror=lambda _: None):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ImportError, evenhand.errors.MissingExtra):
                continue


def entered(operation: str) -> dict[str, int]:
    """Trace an operation in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.entered", "--only", operation]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def main(argv: list[str] | None = None) -> None:
    made = parser(__doc__, "entered.json")
    made.add_argument("--only", choices=MOST, help="trace one operation here, and print its files as JSON")
    options = made.parse_args(argv)
    if options.only:
        import_all()
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(trace(prepare(options.only, folder))))
        return
    found = {operation: entered(operation) for operation in MOST}
    for operation, files in found.items():
        print(f"{operation}: {len(files)} files, {MOST[operation]} at most")
        for name, calls in sorted(files.items()):
            print(f"  {name:36} {calls:,} calls")
    rows = {
        operation: {"files": len(files), "most": MOST[operation], "entered": sorted(files)}
        for operation, files in found.items()
    }
    save(options.out, {"machine": facts(), "operations": rows})


if __name__ == "__main__":
    main()
