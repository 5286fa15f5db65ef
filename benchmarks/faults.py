"""Disturb runs at random moments, resume them, and compare with runs that were left alone.

Eight searches, of rows and of texts, are killed with ``kill -9`` (forked from a process that has imported everything,
and as fresh interpreters, so that start-up and shut-down count), interrupted with SIGINT and SIGTERM, and run on a disk
that is full from the n-th write on, for every n. Whatever happened, the same call must go on and end with the same log,
byte for byte, the same findings and no other file in the directory; no answer that was stored may be asked again.
"""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.machine import facts, parser, save
from evenhand import _files
from evenhand.engine.store import frames
from evenhand.errors import RunError

SEED = 20
KILLS, FRESH, SIGNALS = 160, 40, 60
"""Kills of forked processes, kills of fresh interpreters, and signals."""
CHUNK = 64
TEAMS = ["reds", "blues", "greens"]
WORDS = [a + b for a in "bdfklmnprt" for b in "aeiou"]

SPACE = eh.Space([*(eh.Integer(f"a{j}", 0, 9) for j in range(6)), eh.Integer("sex", 0, 1)], protected="sex")
VECTORS = dict(zip(WORDS, np.random.default_rng(0).normal(size=(len(WORDS), 4)), strict=True))
TEXTS = eh.TextSpace.paper({"team": TEAMS}, (WORDS, np.array(list(VECTORS.values()))), k=5)


def sentences(count: int) -> list[str]:
    """Make random sentences with a team in each."""
    rng = np.random.default_rng(1)
    return [" ".join([*rng.choice(WORDS, 6), str(rng.choice(TEAMS))]) for _ in range(count)]


SENTENCES = sentences(80)


class Rows(eh.Model):
    """Scores rows of the table; now and then it runs code of its own when an object goes, as any model may."""

    name, input, has_scores, decides, classes = "rows", "array", True, True, np.array([False, True])

    def scores(self, X: Any) -> Any:
        """Score rows."""
        Finaliser()
        raw = np.sin(X @ np.arange(1.0, 8.0)) + 0.4 * X[:, 6] * (X[:, 0] > 4)
        return np.stack([-raw, raw], axis=1)

    def labels(self, X: Any) -> Any:
        """Decide about rows."""
        return self.decide(self.scores(X))


class Texts(eh.Model):
    """Scores texts, with slopes of words that are made up."""

    name, input, has_scores, decides, classes = "texts", "text", True, True, np.array(["bad", "good"])
    has_words, gradient_source = True, "made up"

    def scores(self, X: Any) -> Any:
        """Score texts."""
        Finaliser()
        raw = np.array([zlib.crc32(text.encode()) % 1000 / 500 - 0.4 for text in X])
        return np.stack([-raw, raw], axis=1)

    def labels(self, X: Any) -> Any:
        """Decide about texts."""
        return self.decide(self.scores(X))

    def word_vectors(self, words: Any) -> Any:
        """Give vectors."""
        return np.array([VECTORS.get(word.lower(), np.zeros(4)) for word in words])

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Give slopes."""
        known = np.array([zlib.crc32(word.encode()) % 97 for word in texts.vocabulary.words])
        return np.sin((known[texts.words] + classes[texts.rows])[:, None] * np.arange(1, 5))


class Finaliser:
    """Takes a while to go; Python swallows an interrupt that arrives meanwhile."""

    def __del__(self) -> None:
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass


ROWS = Rows()
"""The model by the name that the command calls it."""


Search = Callable[[Path, int], eh.Run]


def _search(strategy: Any, texts: bool = False) -> Search:
    model, space, data = (Texts(), TEXTS, SENTENCES) if texts else (ROWS, SPACE, None)
    return lambda directory, tests: eh.audit(
        eh.wrap(model, chunk=CHUNK), space, strategy, eh.Budget(tests=tests), data=data, directory=directory
    )


SEARCHES = {
    "themis": _search("themis"),
    "aequitas": _search("aequitas"),
    "kosei": _search(eh.Kosei(samples=50, wave=32)),
    "symbolic": _search(eh.Symbolic(neighbours=50)),
    "adf": _search("adf"),
    "text-random": _search("text-random", texts=True),
    "text-adf": _search("text-adf", texts=True),
    "text-importance": _search("text-importance", texts=True),
}


def outcome(directory: Path, run: eh.Run) -> dict[str, Any]:
    """Say what a run came to, and what is in its directory."""
    findings = hashlib.sha256(run.findings.to_csv().encode()).hexdigest()
    log = hashlib.sha256((directory / "answers.log").read_bytes()).hexdigest()
    files = sorted(path.name for path in directory.iterdir())
    return {"stop": run.stop.value, "tests": run.tests, "rows": run.rows, "found": run.found, "curve": run.points,
            "findings": findings, "log": log, "files": files}  # fmt: skip


class Whole:
    """A search that was left alone: what all others must come to, and how long it takes."""

    def __init__(self, name: str, folder: Path, tests: int) -> None:
        self.name, self.tests, directory = name, tests, folder / f"{name}-whole"
        # The first one imports what it needs; a forked run has that already.
        SEARCHES[name](folder / f"{name}-first", tests)
        start = time.monotonic()
        run = SEARCHES[name](directory, tests)
        self.seconds = time.monotonic() - start
        self.outcome = outcome(directory, run)

    def fault_after(self, directory: Path) -> str | None:
        """Go on with a run that was disturbed; say what is wrong with what comes out, if anything is."""
        log = directory / "answers.log"
        try:
            stored = sum(frame.header.get("rows", 0) for frame, _ in frames(log)) if log.exists() else 0
            if (directory / "identity.json").exists():
                eh.Run.load(directory)
            run = SEARCHES[self.name](directory, self.tests)
        except RunError as error:
            return f"it does not go on: {error}"
        now = outcome(directory, run)
        if run.counts["rows_from_log"] < stored and stored < run.rows:
            return f"{stored - run.counts['rows_from_log']} stored rows were asked again"
        return next(
            (f"{key}: {now[key]}, not {value}" for key, value in self.outcome.items() if now[key] != value), None
        )


# Processes that are disturbed


OUTSIDE = 71
"""Exit status of a child that a signal met before the command began."""


def forked(work: Callable[[], int], told: Path | None = None) -> int:
    """Begin some work in a child of this process, which has imported all there is; return its id.

    What the child says goes into a file, if one is given.
    """
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        return child
    status = 70
    try:
        # A run in the background may have been told to ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if told is not None:
            sys.stdout = sys.stderr = told.open("w", buffering=1)
            os.dup2(sys.stderr.fileno(), 2)
        os.write(writing, b"1")
        status = work()
    except KeyboardInterrupt:
        status = 130
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """Wait for a child; return its exit status, negative where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_forked(whole: Whole, directory: Path, moment: float) -> bool:
    """Kill a forked run; return whether it still ran."""

    def work() -> int:
        SEARCHES[whole.name](directory, whole.tests)
        return 0

    child = forked(work)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    return ended(child) == -signal.SIGKILL


def fresh(name: str, directory: Path, tests: int) -> subprocess.Popen[bytes]:
    """Start a run in an interpreter of its own."""
    command = [sys.executable, "-m", "benchmarks.faults", "--child", name, str(directory), str(tests)]
    return subprocess.Popen(command)


def kill_fresh(whole: Whole, directory: Path, moment: float) -> bool:
    """Kill a run in an interpreter of its own; return whether it still ran."""
    process = fresh(whole.name, directory, whole.tests)
    time.sleep(moment)
    process.kill()
    return process.wait() == -signal.SIGKILL


def interrupt(whole: Whole, directory: Path, moment: float) -> tuple[bool, str | None]:
    """Press Ctrl-C once in a forked run; return whether it came in time, and what is wrong."""
    seen = mmap.mmap(-1, 16)

    def work() -> int:
        try:
            run = SEARCHES[whole.name](directory, whole.tests)
            if run.stop.value == "interrupted":
                return 130
            struct.pack_into("d", seen, 0, time.monotonic())
            time.sleep(0.1)
        except KeyboardInterrupt:
            return 130
        return 0

    child = forked(work)
    time.sleep(moment)
    sent = time.monotonic()
    os.kill(child, signal.SIGINT)
    status, finished = ended(child), struct.unpack_from("d", seen)[0]
    if status == 0:
        # Ctrl-C that comes before the run has ended is never without effect.
        swallowed = sent < finished
        return swallowed, "the interrupt was swallowed" if swallowed else None
    return True, None if status == 130 else f"exit status {status}"


def command(whole: Whole, directory: Path, moment: float) -> tuple[bool, str | None]:
    """Send SIGTERM or SIGINT to ``evenhand audit``, forked; return whether it came in time, and what is wrong."""
    from evenhand.cli import main

    number = signal.SIGTERM if int(moment * 1e6) % 2 else signal.SIGINT

    directory.parent.mkdir()
    told, space = directory.with_suffix(".stderr"), directory.with_suffix(".space.toml")
    SPACE.save(space)

    def work() -> int:
        sys.argv = [
            "evenhand",
            "audit",
            "--quiet",
            "--model",
            "benchmarks.faults:ROWS",
            "--space",
            str(space),
            "--strategy",
        ]
        sys.argv += ["themis", "--budget-tests", str(whole.tests), "--chunk", str(CHUNK)]
        sys.argv += ["--directory", str(directory), "--findings", str(directory.with_suffix(".csv"))]
        try:
            main()
        except SystemExit as end:
            sys.stderr.flush()
            return int(end.code or 0)
        except KeyboardInterrupt:
            return OUTSIDE
        return 70

    child = forked(work, told)
    time.sleep(moment)
    os.kill(child, number)
    status, lines = ended(child), told.read_text().splitlines() if told.exists() else []
    if directory.exists():
        # The command notes where the model came from; a run in Python does not.
        (directory / "source.json").unlink(missing_ok=True)
    in_time = status not in (0, -number, OUTSIDE)
    expected = 128 + number
    fault = None
    if in_time and (status != expected or len(lines) != 1 or not lines[0].startswith("evenhand: ")):
        fault = f"exit status {status}, {lines[-3:]}"
    if any(path.suffix == ".tmp" for path in directory.parent.rglob("*")):
        fault = "it left temporary files"
    return in_time, fault


# A full disk


STARTING = 2
"""Writes before a run asks its first test, ``identity.json`` and ``about.json``: nothing is lost with them."""


class Full(io.FileIO):
    """A file on a disk that is full from a write on: half of that write is done, and nothing more."""

    left = 0

    def write(self, data: Any) -> int:
        """Write, or fail."""
        Full.left -= 1
        if Full.left == 0:
            super().write(bytes(data)[: len(data) // 2])
        if Full.left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@contextmanager
def full_after(writes: int) -> Iterator[None]:
    """Let the disk be full from a write on."""
    Full.left, before = writes, _files.FileIO
    _files.FileIO = Full  # type: ignore[misc]
    try:
        yield
    finally:
        _files.FileIO = before  # type: ignore[misc]


def fill(whole: Whole, folder: Path) -> tuple[int, list[str]]:
    """Run with the disk full from each write on; return how many writes there are, and what is wrong."""
    faults, n = [], 0
    while True:
        n += 1
        directory = folder / f"{whole.name}-full{n}"
        try:
            with full_after(n):
                SEARCHES[whole.name](directory, whole.tests)
        except RunError as error:
            if "No space left on device" not in str(error) or "free some space" not in str(error):
                faults.append(f"write {n}: {error}")
            if n > STARTING and error.partial is None:
                faults.append(f"write {n}: the run is lost")
        else:
            return n - 1, faults
        if fault := whole.fault_after(directory):
            faults.append(f"write {n}: {fault}")


# The table


class Row:
    """What was done to one search, and what went wrong."""

    def __init__(self, whole: Whole, folder: Path, draws: random.Random) -> None:
        self.whole, self.folder, self.draws = whole, folder, draws
        self.counts: dict[str, int] = {}
        self.faults: list[str] = []
        self._tries = 0

    def disturb(self, kind: str, wanted: int, life: float, act: Callable[[Whole, Path, float], Any]) -> None:
        """Disturb so many runs, each at a moment of its life; what comes too late does not count."""
        self.counts[kind] = 0
        for _ in range(4 * wanted):
            if self.counts[kind] == wanted:
                return
            self._tries += 1
            directory = self.folder / f"{self.whole.name}{self._tries}" / "run"
            moment = self.draws.uniform(0, life)
            answer = act(self.whole, directory, moment)
            in_time, fault = answer if isinstance(answer, tuple) else (answer, None)
            fault = fault or self.whole.fault_after(directory)
            self.counts[kind] += bool(in_time)
            if fault:
                self.faults.append(f"{kind} after {moment:.3f} s: {fault}")


def measure(kills: int, fresh_kills: int, signals: int, tests: int, full_tests: int) -> dict[str, Any]:
    """Disturb every search in every way; the numbers are of all searches together."""
    draws, rows = random.Random(SEED), {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.monotonic()
        fresh("themis", folder / "start", 1).wait()
        start_up = time.monotonic() - start
        for number, each in enumerate(SEARCHES):
            whole = Whole(each, folder, tests)
            row = Row(whole, folder, draws)
            row.disturb("kills", share(kills, number), whole.seconds, kill_forked)
            row.disturb("fresh", share(fresh_kills, number), start_up + whole.seconds, kill_fresh)
            if each == "themis":
                row.disturb("signals", share(signals, number), 2 * whole.seconds, command)
            else:
                row.disturb("signals", share(signals, number), whole.seconds, interrupt)
            row.counts["writes"], faults = fill(Whole(each, folder / "small", full_tests), folder)
            told = {**row.counts, "blocks": len(whole.outcome["curve"]), "faults": row.faults + faults}
            rows[each] = told
            print(each, told, flush=True)
    return {"tests": tests, "full_tests": full_tests, "chunk": CHUNK, "searches": rows}


def share(total: int, number: int) -> int:
    """Give the number-th of eight shares."""
    return total // len(SEARCHES) + (number < total % len(SEARCHES))


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "faults.json")
    options.add_argument("--child", nargs=3, metavar=("SEARCH", "DIRECTORY", "TESTS"), help="run in this process")
    given = options.parse_args(arguments)
    if given.child:
        SEARCHES[given.child[0]](Path(given.child[1]), int(given.child[2]))
        return
    machine = facts()
    result = {"machine": machine, **measure(KILLS, FRESH, SIGNALS, 1_000, 100), "load_after": facts()["load"]}
    save(given.out, result)


if __name__ == "__main__":
    main()
