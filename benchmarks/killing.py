"""Kill a run with ``kill -9`` at random moments, resume it, and compare with a run that was left alone.

The model appends the ids of every row it is asked to a side file, call by call. The calls of a killed run and of its
resumption, put one after the other, must be those of the undisturbed run, and only the block that was in flight when
the run was killed may be asked twice. Rows that evenhand asks to check (64 fixed ones at each start, 256 of the first
block twice, the findings again at the end) are told apart by their place.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import evenhand as eh
from benchmarks.machine import facts, parser, save, short
from evenhand.check import MOST
from evenhand.log import frames

MOMENTS = 20
SEED = 20
TESTS = 60_000
CHUNK = 2_000
PAUSE = 0.01
"""Seconds that the model takes for a call, so that most of a run's time is spent waiting for it."""

Calls = list[npt.NDArray[np.int64]]


def child(directory: Path, asked: Path) -> None:
    """Run the audit in this process; say when it begins, and what came out."""
    space = eh.datasets.load("adult").paper_space(protected=["sex"])
    lows = np.array([attribute.low for attribute in space.attributes])  # type: ignore[attr-defined]
    file = os.open(asked, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def model(X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        ids = space.coding.ids((X - lows).astype(np.int32))
        os.write(file, np.concatenate([[len(ids)], ids]).astype(np.int64).tobytes())
        time.sleep(PAUSE)
        return (X[:, 8] > 0) & ((X @ np.arange(1.0, 14.0)) % 5 < 3)

    print("begins", flush=True)
    budget = eh.Budget(tests=TESTS)
    wrapped = eh.wrap(model, input="array")
    run = eh.audit(wrapped, space, "kosei", budget, seed=0, directory=directory, chunk=CHUNK)
    digest = hashlib.sha256(b"".join(array.tobytes() for _, array in sorted(run.pairs.joined().items())))
    print(run.found, digest.hexdigest(), flush=True)


def start(directory: Path, asked: Path) -> subprocess.Popen[str]:
    """Start a run in a process of its own, and wait until it begins."""
    command = [sys.executable, "-m", "benchmarks.killing", "--child", str(directory), str(asked)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "begins\n"
    return process


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a run; return how many findings it has, and their digest."""
    found, digest = process.communicate()[0].split()
    return int(found), digest


def calls(path: Path) -> Calls:
    """Read what the model was asked, call by call."""
    words = np.fromfile(path, dtype=np.int64) if path.exists() else np.zeros(0, dtype=np.int64)
    out, at = [], 0
    while at < len(words):
        out.append(words[at + 1 : at + 1 + words[at]])
        at += 1 + int(words[at])
    return out


def blocks(asked: Calls, first: bool, confirmed: int = 0) -> Calls:
    """Leave out what evenhand asks only to check."""
    asked = asked[1:]
    if first and len(asked) > 1:
        asked = asked[:1] + asked[3:]
    while confirmed > 0:
        confirmed -= len(asked.pop())
    return asked


@dataclass(frozen=True)
class Whole:
    """The undisturbed run."""

    found: int
    digest: str
    blocks: Calls
    log: bytes
    seconds: float

    @property
    def confirmed(self) -> int:
        """Rows that its confirmation asked."""
        return 2 * min(self.found, MOST)


def undisturbed(folder: Path) -> Whole:
    """Make the run that all others must equal."""
    process = start(folder / "whole", folder / "whole.asked")
    began = time.monotonic()
    found, digest = finish(process)
    seconds = time.monotonic() - began
    asked = blocks(calls(folder / "whole.asked"), True, 2 * min(found, MOST))
    return Whole(found, digest, asked, (folder / "whole" / "answers.log").read_bytes(), seconds)


def disturbed(folder: Path, whole: Whole, name: str, moment: float) -> dict[str, Any] | None:
    """Kill a run at a moment, resume it, and compare; None if it had ended by then."""
    directory, before, after = folder / name, folder / f"{name}.before", folder / f"{name}.after"
    process = start(directory, before)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if process.returncode != -signal.SIGKILL or (directory / "run.json").exists():
        return None
    log = directory / "answers.log"
    stored = sum(1 for _ in frames(log)) if log.exists() else 0
    found, digest = finish(start(directory, after))
    asked = blocks(calls(before), True)
    flying = asked[stored:] if stored < len(whole.blocks) else []
    resumed = blocks(calls(after), stored == 0, whole.confirmed)
    return {
        "after_seconds": short(moment),
        "blocks_stored": stored,
        "blocks_in_flight": len(flying),
        "rows_asked_twice": int(np.isin(_joined(asked), _joined(resumed)).sum()),
        "rows_in_flight": sum(map(len, flying)),
        "same_calls": _same(asked[:stored] + resumed, whole.blocks),
        "same_findings": (found, digest) == (whole.found, whole.digest),
        "same_log": log.read_bytes() == whole.log,
    }


def _joined(parts: Calls) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _same(one: Calls, other: Calls) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def holds(row: dict[str, Any]) -> bool:
    """Tell whether a killed run came out as it should."""
    same = row["same_calls"] and row["same_findings"] and row["same_log"]
    return bool(same and row["blocks_in_flight"] <= 1 and row["rows_asked_twice"] <= row["rows_in_flight"])


def measure(moments: int) -> dict[str, Any]:
    """Kill a run at that many moments."""
    result: dict[str, Any] = {"machine": facts(), "tests": TESTS, "chunk": CHUNK, "kills": []}
    draws = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = undisturbed(folder)
        rows = _joined(whole.blocks)
        result["whole"] = {
            "findings": whole.found,
            "blocks": len(whole.blocks),
            "rows": len(rows),
            "rows_asked_twice": len(rows) - len(np.unique(rows)),
            "seconds": short(whole.seconds),
        }
        print(result["whole"], flush=True)
        for number in range(2 * moments):
            row = disturbed(folder, whole, f"kill{number}", draws.uniform(0, whole.seconds))
            if row is None:
                continue
            row["holds"] = holds(row)
            result["kills"].append(row)
            print(row, flush=True)
            if len(result["kills"]) == moments:
                break
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "killing.json")
    options.add_argument("--child", type=Path, nargs=2, metavar=("DIRECTORY", "ASKED"), help="run in this process")
    options.add_argument("--moments", type=int, default=MOMENTS)
    given = options.parse_args(arguments)
    if given.child:
        child(*given.child)
        return
    save(given.out, measure(given.moments))


if __name__ == "__main__":
    main()
