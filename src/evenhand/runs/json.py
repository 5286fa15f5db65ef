"""A whole run as one JSON document, by a schema that has a version."""

from __future__ import annotations

import json
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.estimates.result import (plain)
from evenhand.words import (telling)

if TYPE_CHECKING:
    from evenhand.runs.run import (Run)

VERSION = 1
"""Of the schema; it grows when a key changes its meaning or goes, not when one is added."""
SHOWN = 10


def to_json(run: Run) -> str:
    """Give a run and all its findings as JSON, pure ASCII: whatever a name holds is written as its escape.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> json.loads(to_json(eh.audit(lambda f: f["member"], space, strategy="themis")))["findings"]["rows"][0]
    [6, False, True, False, True, 1.0, True]
    """
    return json.dumps(document(run), allow_nan=False) + "\n"


def document(run: Run) -> dict[str, Any]:
    """Give a run in the values that JSON has."""
    told = run.to_dict()
    del told["findings"]
    return {
        "format": "evenhand-run",
        "version": VERSION,
        **plain(told),
        "found": run.found,
        "pairs": [pair.to_dict() for pair in telling(run, SHOWN)],
        "findings": table(run),
    }


def table(run: Run) -> dict[str, Any]:
    """Give all findings as columns' names and rows of values."""
    frame = run.findings
    columns = [_values(frame[name]) for name in frame.columns]
    return {"columns": [str(name) for name in frame.columns], "rows": [list(row) for row in zip(*columns, strict=True)]}


def schema() -> dict[str, Any]:
    """Read the JSON Schema that every document follows.

    >>> schema()["properties"]["version"]
    {'const': 1}
    """
    text = resources.files("evenhand.runs").joinpath("run.schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _values(column: Any) -> list[Any]:
    values = column.to_numpy()
    if values.dtype.kind in "biu":
        return list(values.tolist())
    if values.dtype.kind == "f" and np.isfinite(values).all():
        return list(values.tolist())
    return [plain(value) for value in column.astype(object).where(column.notna(), None).tolist()]
