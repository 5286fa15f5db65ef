"""What hostile files cost: each is opened as users open files, in a process of its own, beside a harmless one.

CPU seconds and peak memory include child processes. What opening a .skops file costs is measured besides: most of it is
the import of skops and scikit-learn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.hostile.generator import CANARY, HOSTILE, NAMES, harmless
from tests.hostile.opener import BYTES, SECONDS, open_all

from benchmarks.machine import facts, parser, save, short

OPENING = """
import json, sys, time
start = time.process_time()
import evenhand
evenhand.load_model(sys.argv[1])
seconds = time.process_time() - start
from benchmarks.memory import peak
print(json.dumps([seconds, peak()]))
"""
"""The peak as /proc tells it: what getrusage tells of a new process begins with what its parent held."""


def measure(kind: str) -> dict[str, Any]:
    """Open all hostile files of a kind."""
    with tempfile.TemporaryDirectory() as name:
        folder, hostile = Path(name), [one for one in HOSTILE if one.kind == kind]
        paths = [harmless(kind, folder / "harmless")]
        paths += [one.write(folder / str(number)) for number, one in enumerate(hostile)]
        plain, *answers = open_all({kind: paths})[kind]
        ran = len(list(folder.rglob(CANARY)))
    rows = [
        {
            "name": one.name,
            "ended": answer["ended"],
            "seconds": short(max(0.0, answer["seconds"] - plain["seconds"])),
            "mb": short(max(0, answer["bytes"] - plain["bytes"]) / 1e6),
        }
        for one, answer in zip(hostile, answers, strict=True)
    ]
    return {"seconds": short(plain["seconds"]), "mb": short(plain["bytes"] / 1e6), "ran": ran, "files": rows}


def opening() -> dict[str, float]:
    """Open a harmless .skops file in a new process."""
    with tempfile.TemporaryDirectory() as name:
        path = harmless("skops", Path(name) / "harmless")
        done = subprocess.run([sys.executable, "-c", OPENING, str(path)], capture_output=True, text=True, check=True)
    seconds, mb = json.loads(done.stdout)
    return {"seconds": short(seconds), "mb": short(mb)}


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "hostile_files.json")
    options.add_argument("--kinds", nargs="*", choices=list(NAMES), default=list(NAMES))
    given = options.parse_args(arguments)
    result: dict[str, Any] = {"machine": facts(), "seconds": SECONDS, "mb": BYTES / 1e6, "kinds": {}}
    for kind in given.kinds:
        result["kinds"][kind] = measure(kind)
        print(kind, len(result["kinds"][kind]["files"]), flush=True)
    result["skops"] = opening()
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
