"""Where a benchmark ran, its clock, and where its results go."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
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

    def __init__(
        self,
        path: Path,
        fresh: bool,
        settings: dict[str, Any],
        questions: Sequence[str],
        uses: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Open the file; ``uses`` names the settings of some questions that no other question depends on.

        Answers to a question whose settings have changed since are dropped, to be measured again.
        """
        self.path = path
        self.all: dict[str, Any] = {
            "machine": facts(), "machines": {}, "settings": settings, **{name: {} for name in questions}
        }  # fmt: skip
        if path.exists() and not fresh:
            stored = json.loads(path.read_text())
            changed = {name for name in {**settings, **stored["settings"]}
                       if settings.get(name) != stored["settings"].get(name)}  # fmt: skip
            if changed - {name for own in (uses or {}).values() for name in own}:
                raise SystemExit(f"{path.name} has other settings; start again with --fresh")
            out = {question for question, own in (uses or {}).items() if changed & {*own}}
            stored["machines"] = {q: one for q, one in stored.get("machines", {}).items() if q not in out}
            known = {"machine", "machines", "load_after", *questions} - out
            self.all |= {name: value for name, value in stored.items() if name in known}

    def lacks(self, question: str, key: str) -> bool:
        """Tell whether an answer is missing."""
        return key not in self.all[question]

    def place(self, question: str, machine: dict[str, Any]) -> None:
        """Note where answers to a question were measured, unless where the first answers were."""
        if (where := _where(machine)) != _where(self.all["machine"]):
            places = self.all["machines"].setdefault(question, [])
            places += [where] * (where not in places)

    def drop(self, question: str, key: str) -> None:
        """Forget an answer."""
        self.all[question].pop(key, None)

    def add(self, question: str, key: str, answer: Any) -> None:
        """Keep an answer, and the machine where it is another one than that of the first answers."""
        self.all[question][key] = answer
        here = facts()
        self.all["load_after"] = here["load"]
        self.place(question, here)
        self.write()
        print(question, key, answer, flush=True)

    def write(self) -> None:
        """Write the file: the keys of each question in order, whatever came first."""
        for name, value in self.all.items():
            if isinstance(value, dict) and name not in ("machine", "settings"):
                self.all[name] = dict(
                    sorted(value.items(), key=lambda item: [_natural(part) for part in item[0].split("/")])
                )
        save(self.path, self.all)


def _where(machine: dict[str, Any]) -> dict[str, Any]:
    return {name: machine[name] for name in ("processor", "cores", "python")}


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (-1, part)
