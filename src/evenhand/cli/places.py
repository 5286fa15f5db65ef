"""Which key of the file says what an option says: every option has one, or a reason to have none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MODEL = {"model": "model.path"}
_ASKED = {"threshold": "model.threshold", "timeout": "model.timeout"}
_ROWS = {
    "data": "data.path",
    "target": "data.target",
    "space": "space.path",
    "protected": "space.protected",
    "exclude": "space.exclude",
    "missing": "space.missing",
}
_JUDGED = {"seed": "audit.seed", "gamma": "audit.criterion"}


def _named(table: str, *names: str) -> dict[str, str]:
    return {name: f"{table}.{name}" for name in names}


_TEXTS = {"texts": "text.path", **_named("text", "column", "encoding", "occurrences", "ambiguous")}

PLACES: dict[str, dict[str, str]] = {
    "audit": {
        **_MODEL,
        **_ASKED,
        **_ROWS,
        **_JUDGED,
        **_TEXTS,
        **_named("text", "similar", "k"),
        **_named("audit", "strategy", "settings", "directory", "chunk", "confirm", "fail_above", "coverage"),
        **_named("audit", "findings", "page"),
        **_named("report", "no_rows"),
        **_named("estimate", "favourable", "order"),
        **{f"budget_{name}": f"budget.{name}" for name in ("tests", "rows", "seconds", "findings")},
    },
    "estimate": {
        **_MODEL,
        **_ASKED,
        **_ROWS,
        **_JUDGED,
        **_TEXTS,
        "chunk": "audit.chunk",
        **_named("estimate", "population", "samples", "half_width", "seconds", "confidence", "interval"),
        **_named("estimate", "experiments", "exact", "about", "steps", "weights", "favourable", "order"),
        **_named("estimate", "tolerance", "repeats", "groups", "plots", "fail_above"),
    },
    "repair": {
        **_MODEL,
        **_ROWS,
        **_JUDGED,
        "method": "repair.methods",
        **_named("repair", "strategy", "check", "watch", "held_out", "samples", "confidence", "favourable"),
        **_named("repair", "order", "tolerate", "save", "plot"),
        **{f"budget_{name}": f"budget.{name}" for name in ("tests", "seconds")},
    },
    "compare": {
        "seed": "audit.seed",
        "timeout": "model.timeout",
        **_named("compare", "model_a", "model_b", "threshold_a", "threshold_b", "samples", "confidence", "fail_on_new"),
    },
    "export": _named("export", "format", "most", "raw", "artifact"),
    "bundle": _named("bundle", "output", "model", "data", "no_rows"),
    "report": {
        **_MODEL,
        "threshold": "model.threshold",
        "data": "data.path",
        "target": "data.target",
        "texts": "text.path",
        **_named("text", "column", "encoding"),
        "seed": "audit.seed",
        "favourable": "estimate.favourable",
        "order": "estimate.order",
        "confidence": "estimate.confidence",
        **_named("report", "title", "cases", "samples", "no_rows", "output"),
    },
    "replay": {
        **_MODEL,
        **_ASKED,
        "data": "data.path",
        "digest": "replay.digest",
        "listed": "replay.list",
    },
}
"""For each command that reads a file, the key of each option."""

OWN = {
    "config": "it names the file",
    "run": "what this call is about",
    "run_a": "what this call is about",
    "run_b": "what this call is about",
    "out": "what this call is about",
    "trust_pickle": "a file that somebody sent must not be able to run code",
    "trust": "a file that somebody sent must not be able to run code",
    "resume": "a run goes on by itself; this asks that there be one now",
    "as_json": "how this call speaks",
    "quiet": "how this call speaks",
}
"""Options that have no key, and why."""

NO_FILE = {
    "init": "it writes the file",
    "demo": "it has data and models of its own",
    "strategies": "it has no options",
    "datasets": "it has no options",
}
"""Commands that read no file, and why."""


def option(place: str) -> str:
    """Name the option that says what a key says; the key itself where there is none.

    >>> option("model.path"), option("replay.list"), option("space.limit")
    ('--model', '--list', 'space.limit')
    """
    names = {at: name for places in PLACES.values() for name, at in places.items()}
    names |= {"text.protected": "protected", "audit.settings": "set", "replay.list": "list"}
    return "--" + names[place].replace("_", "-") if place in names else place


def said(command: str, values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Sort what was said on the command line into the tables of the file; a switch that is off says nothing.

    >>> said("export", {"format": None, "most": 5, "raw": False, "artifact": None})
    {'export': {'most': 5}}
    """
    tables: dict[str, dict[str, Any]] = {}
    for name, place in PLACES[command].items():
        value = values[name]
        # --sample is the other side of --exact, and so says something.
        if value is None or value == [] or (value is False and name != "exact"):
            continue
        table, key = place.split(".")
        tables.setdefault(table, {})[key] = str(value) if isinstance(value, Path) else value
    return tables
