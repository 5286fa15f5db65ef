"""Where a benchmark ran, its clock, and where its results go."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("evenhand", "numpy", "scipy", "scikit-learn", "pandas")


def facts() -> dict[str, Any]:
    """Say what the machine is and how busy it is, without naming it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cpu(call: Callable[[], T]) -> tuple[T, float]:
    """Make a call; return its result and the CPU seconds that it took."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def parser(description: str | None, result: str) -> argparse.ArgumentParser:
    """Make a benchmark's argument parser: every one can write its result elsewhere."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--out", type=Path, default=RESULTS / result, help="the JSON file to write")
    return made


def save(path: Path, result: dict[str, Any]) -> None:
    """Write a result so that a crash leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    text = json.dumps(result, indent=0, separators=(",", ":"))
    # One line for each record: half of the file would be indents otherwise.
    text = re.sub(r"[\[{][^\[\]{}]*[\]}]", lambda leaf: re.sub(r"\n *", "", leaf[0]), text)
    temporary.write_text(text + "\n")
    temporary.replace(path)


def short(value: float) -> float:
    """Round to four significant digits: more are noise."""
    return float(f"{value:.4g}")


class Results:
    """What is known so far of several questions, on disk after every answer."""

    def __init__(self, path: Path, fresh: bool, settings: dict[str, Any], questions: Sequence[str]) -> None:
        self.path = path
        self.all: dict[str, Any] = {"machine": facts(), "settings": settings, **{name: {} for name in questions}}
        if path.exists() and not fresh:
            stored = json.loads(path.read_text())
            if stored["settings"] != settings:
                raise SystemExit(f"{path.name} has other settings; start again with --fresh")
            self.all |= stored

    def lacks(self, question: str, key: str) -> bool:
        """Tell whether an answer is missing."""
        return key not in self.all[question]

    def add(self, question: str, key: str, answer: Any) -> None:
        """Keep an answer."""
        self.all[question][key] = answer
        self.all["load_after"] = facts()["load"]
        save(self.path, self.all)
        print(question, key, answer, flush=True)
