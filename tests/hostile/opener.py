"""Opens files as users do, each in a process of its own, and measures what that takes."""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError

SECONDS, BYTES = 2, 512 * 2**20
"""What a hostile file may take more than a harmless one of its kind."""
SAFETY = 4 * 2**30
"""Memory that not even a file that is let through may take: a machine has others to serve."""
REFUSED, OPENED, BROKEN = "refused", "opened", "broken"
IMPORTS = {
    "space": "evenhand.spaces.tabular", "config": "evenhand.config.file", "lexicon": "evenhand.spaces.text.space",
    "csv": "pandas", "json": "pandas", "jsonl": "pandas", "parquet": "pyarrow.parquet", "texts": "pandas",
    "vectors": "evenhand.spaces.text.similar", "skops": "evenhand.models.files", "onnx": "evenhand.models.onnx",
    "pickle": "joblib", "folder": "transformers.models.bert.modeling_bert", "run": "pandas", "bundle": "pandas",
    "cases": "evenhand.regression_corpus",
}  # fmt: skip
"""What is imported before anything is measured; what a file's own reader imports belongs to opening it."""


def open_file(kind: str, path: Path) -> None:
    """Open a file of a kind as a user would."""
    import evenhand as eh
    from evenhand.spaces.frames import read_frame

    if kind == "space":
        eh.Space.load(path)
    elif kind == "config":
        from evenhand.config.file import read

        read(path, {})
    elif kind == "lexicon":
        eh.TextSpace(str(path))
    elif kind in ("csv", "json", "jsonl", "parquet"):
        read_frame(path)
    elif kind == "texts":
        eh.datasets.read_texts(path)
    elif kind == "vectors":
        from evenhand.spaces.text.similar import load

        load(path)
    elif kind in ("skops", "onnx", "pickle", "folder"):
        eh.load_model(path)
    elif kind == "run":
        len(eh.Run.load(path).findings)
    elif kind == "bundle":
        checked = eh.check_bundle(path)
        if not checked.whole:
            raise EvenhandError("; ".join(checked.lines))
    elif kind == "cases":
        from evenhand.regression_corpus import Corpus

        Corpus(path, "test").load()


def measured(kind: str, path: Path, seconds: float, safety: int = SAFETY) -> dict[str, Any]:
    """Open a file in a fork of this process: how it ended, the CPU seconds, and the most memory that was held."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        os.close(receive)
        _report(kind, path, seconds, safety, send)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        content = stream.read()
    _, status, _ = os.wait4(child, 0)
    if not content:
        return {"ended": BROKEN, "told": f"the process ended with status {status}", "seconds": seconds, "bytes": safety}
    return dict(json.loads(content))


def _report(kind: str, path: Path, seconds: float, safety: int, send: int) -> None:
    """Open a file in this process, say how that went, and end."""
    most = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + safety, size + safety))
    # Fork leaves it at what is in use now.
    before, start = _peak(resource.RUSAGE_SELF), time.process_time()
    try:
        open_file(kind, path)
        ended, told = OPENED, ""
    except EvenhandError as error:
        ended, told = REFUSED, str(error)
    except BaseException as error:
        ended, told = BROKEN, f"{type(error).__name__}: {str(error)[:300]}"
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = time.process_time() - start + children.ru_utime + children.ru_stime
    held = _peak(resource.RUSAGE_SELF) - before + _peak(resource.RUSAGE_CHILDREN)
    answer = {"ended": ended, "told": told, "seconds": spent, "bytes": held}
    os.write(send, json.dumps(answer).encode()[:60_000])
    os._exit(0)


def _peak(who: int) -> int:
    return resource.getrusage(who).ru_maxrss * 1024


def open_all(paths: dict[str, list[Path]]) -> dict[str, list[dict[str, Any]]]:
    """For each kind open a harmless file and hostile ones, in another process that has imported what they need."""
    command = [sys.executable, "-m", "tests.hostile.opener"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # A path with NUL cannot be an argument.
    done = subprocess.run(
        command, input=json.dumps(paths, default=str), capture_output=True, text=True, env=environment,
        cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure the files that standard input names by kind."""
    paths = json.load(sys.stdin)
    for kind in paths:
        importlib.import_module(IMPORTS[kind])
    print(json.dumps({kind: _of_a_kind(kind, *some) for kind, some in paths.items()}))


def _of_a_kind(kind: str, first: str, *rest: str) -> list[dict[str, Any]]:
    """Measure the files of a kind, the harmless one first."""
    plain = measured(kind, Path(first), 60)
    answers = [measured(kind, Path(path), plain["seconds"] + SECONDS) for path in rest]
    # On a busy machine the import of a large library takes more or less; so the harmless file is opened at both ends.
    plain["seconds"] = max(plain["seconds"], measured(kind, Path(first), 60)["seconds"])
    return [plain, *answers]


if __name__ == "__main__":
    main()
