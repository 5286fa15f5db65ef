"""Whether tokens of a million random strings join to the same strings, and how long that takes.

The strings mix characters of all of Unicode, halves of surrogate pairs too, with those that the rules for words know:
letters and marks of several scripts, apostrophes, points, joiners, emoji. ``--texts`` adds every text of a table; by
default that of the folder that EVENHAND_TEXT_DATA names, where it is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import cpu, facts, parser, save, short
from evenhand.spaces.text.tokens import Texts

STRINGS = 1_000_000
BLOCK = 20_000
LONGEST = 60
COMMON = "abcXYZ 019 '\u2019.,-_/:\n\t\u0301\u093f\u064e\u200c\u200d\ufe0fßéİΣشםमि中😀👩 's 'll U.S. www. http://"


def strings(count: int, seed: int) -> list[str]:
    """Draw random strings of up to ``LONGEST`` characters."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(rng.integers(0, LONGEST + 1, count))
    common = np.array([ord(c) for c in COMMON])
    points = np.where(rng.random(ends[-1]) < 0.5, rng.choice(common, ends[-1]), rng.integers(0, 0x110000, ends[-1]))
    text = points.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    return [text[a:b] for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]


def measure(blocks: Iterable[list[str]]) -> dict[str, Any]:
    """Cut and join block after block; count the strings that do not come back."""
    total = {"strings": 0, "characters": 0, "words": 0, "different": 0, "cut_seconds": 0.0, "join_seconds": 0.0}
    for block in blocks:
        texts, cut = cpu(partial(Texts.of, block))
        back, join = cpu(texts.strings)
        total["strings"] += len(block)
        total["characters"] += sum(map(len, block))
        total["words"] += len(texts.words)
        total["different"] += sum(a != b for a, b in zip(block, back, strict=True))
        total["cut_seconds"], total["join_seconds"] = total["cut_seconds"] + cut, total["join_seconds"] + join
    return {name: short(value) if isinstance(value, float) else value for name, value in total.items()}


def texts_of(path: Path, column: str) -> list[list[str]]:
    """Read the texts of a table."""
    import pandas as pd

    return [pd.read_csv(path, keep_default_na=False)[column].astype(str).tolist()]


def _comments() -> Path | None:
    """Find the table of the data folder, if there is one."""
    named = os.environ.get("EVENHAND_TEXT_DATA", "")
    return next(iter(sorted(Path(named).glob("*.csv*"))), None) if named else None


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "round_trip.json")
    options.add_argument("--strings", type=int, default=STRINGS)
    options.add_argument("--texts", type=Path, default=_comments(), help="a table of texts, as .csv or .csv.xz")
    options.add_argument("--column", default="text", help="its column")
    given = options.parse_args(arguments)
    sizes = [min(BLOCK, given.strings - begin) for begin in range(0, given.strings, BLOCK)]
    result: dict[str, Any] = {"machine": facts()}
    result["random"] = measure(strings(size, seed) for seed, size in enumerate(sizes))
    print("random", result["random"], flush=True)
    if given.texts:
        result["texts"] = measure(texts_of(given.texts, given.column))
        print(given.texts.name, result["texts"], flush=True)
    if any(result[name]["different"] for name in ("random", "texts") if name in result):
        raise SystemExit("some strings did not come back; nothing is written")
    save(given.out, result)


if __name__ == "__main__":
    main()
