"""The networks that ADF's authors published, and the rows that they were trained on.

The folder that EVENHAND_PAPER_DATA names, or a folder in it, has ``adf.npz``, the weights of the three networks as
arrays (``census/w0``, ``census/b0``, ...), and ``credit.csv``: the 600 of the 1,000 rows of German credit that the
papers use, half of them good. The other data sets are those of evenhand, row by row.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import evenhand as eh
from benchmarks.subjects import DATA, Table

WEIGHTS, CREDIT = "adf.npz", "credit.csv"
PAIRS = ("census/age", "census/race", "census/sex", "bank/age", "credit/age", "credit/sex")
"""The rows of ADF's tables: a data set and a protected attribute."""


def there() -> bool:
    """Whether the folder has the networks."""
    return bool(_found(WEIGHTS))


def _found(name: str) -> list[Path]:
    named = os.environ.get("EVENHAND_PAPER_DATA", "")
    return sorted(Path(named).rglob(name)) if named else []


def _file(name: str) -> Path:
    found = _found(name)
    if not found:
        raise SystemExit(f"set EVENHAND_PAPER_DATA to a folder with {name}")
    return found[0]


@lru_cache(maxsize=3)
def net(data: str) -> Any:
    """Return the network of a data set: ReLU between its layers, two outputs, raw codes as inputs."""
    import torch

    from benchmarks.nets import untrained

    with np.load(_file(WEIGHTS)) as weights:
        made = untrained(len(weights[f"{data}/w0"]))
        for number, layer in enumerate(module for module in made if isinstance(module, torch.nn.Linear)):
            layer.weight.data = torch.tensor(weights[f"{data}/w{number}"].T.astype(np.float32))
            layer.bias.data = torch.tensor(weights[f"{data}/b{number}"].astype(np.float32))
    return made.eval()


def table(data: str) -> Table:
    """Return the rows that the network was trained on, and their labels."""
    if data == "credit":
        frame = pd.read_csv(_file(CREDIT))
    else:
        frame = eh.datasets.load(DATA[data][0]).paper_frame()
    return frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy(np.int64)


def space(pair: str) -> eh.Space:
    """Return the space of a row of the tables, with the domains that the papers declare."""
    data, protected = pair.split("/")
    return eh.datasets.load(DATA[data][0]).paper_space(protected=[protected])
