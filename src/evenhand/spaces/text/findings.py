"""Findings of texts: both texts, the decisions, and the free edits."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._files import inflate, parse_json
from evenhand._validate import COUNT, TEXT, check_fields
from evenhand.criteria import Places
from evenhand.errors import RunError
from evenhand.spaces.findings import Findings, array_of, decision_column

if TYPE_CHECKING:
    import pandas as pd

_WHERE = "texts of answers.log"
RECORDS = [(TEXT, TEXT, COUNT, [(COUNT, TEXT, TEXT)])]
Record = tuple[str, str, int, list[tuple[int, str, str]]]
"""The text, its counterpart, the row of the seed, and (position, old word, new word) of each free edit."""


@dataclass
class TextFindings(Findings):
    """Pairs of texts, which are kept themselves, packed: neither seeds nor lexicons are needed to read them."""

    texts: list[tuple[npt.NDArray[np.uint8], int]] = field(default_factory=list)
    """Packed records, and how many of each pack count."""

    kept: ClassVar[tuple[str, ...]] = ("decision", "counterpart_decision", "gap")

    def pack(self, families: Any, found: Places, first: Places, second: Places) -> dict[str, npt.NDArray[Any]]:
        """Write down the pairs of some families, as places in them."""
        return {"texts": _pack(list(_records(families, found, first, second)))}

    def add(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Add the first pairs of an answer."""
        super().add(answer, count)
        if count:
            self.texts.append((answer["texts"], count))

    def check_sides(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Raise a ``ValueError`` where there is no pack of texts; its content is checked when it is opened."""
        pack = answer.get("texts", np.zeros(0))
        if count and (pack.dtype != np.uint8 or pack.ndim != 1):
            raise ValueError("texts must be packed bytes")

    def check_members(self, answer: dict[str, npt.NDArray[Any]], name: str, count: int) -> None:
        """Raise a ``ValueError`` where a column does not have so many counterparts, as they are stored."""
        array_of(answer, name, "i", count)

    def cut(self, count: int) -> None:
        """Keep the first pairs only."""
        super().cut(count)
        kept, left = [], count
        for pack, size in self.texts:
            if left > 0:
                kept.append((pack, min(size, left)))
            left -= size
        self.texts = kept

    def drop(self, positions: npt.NDArray[np.int64]) -> None:
        """Take pairs out; only the packs that have some are opened."""
        super().drop(positions)
        kept, start = [], 0
        for pack, size in self.texts:
            gone = {int(i) - start for i in positions if start <= i < start + size}
            if gone:
                left = [record for i, record in enumerate(_unpack(pack, size)) if i not in gone]
                pack, left_over = _pack(left), len(left)
            else:
                left_over = size
            if left_over:
                kept.append((pack, left_over))
            start += size
        self.texts = kept

    def records(self, at: Any = slice(None)) -> list[Record]:
        """Return pairs, all or those at some sorted positions; only the packs that have some are opened."""
        wanted = np.arange(self.count)[at]
        out, start = [], 0
        for pack, size in self.texts:
            here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + size)] - start
            if len(here):
                records = _unpack(pack, size)
                out += [records[i] for i in here.tolist()]
            start += size
        return out

    def rows(self, which: str = "individual", at: Any = slice(None)) -> list[str]:
        """Return one side of the pairs as texts."""
        return [record[which != "individual"] for record in self.records(at)]  # type: ignore[misc]

    def frame(self, at: Any = slice(None)) -> pd.DataFrame:
        """Lay findings out as a frame."""
        import pandas as pd

        records = self.records(at)
        # As objects: other columns of texts cannot hold half characters.
        text, other, seed, changed = (pd.Series([r[i] for r in records], dtype=object) for i in range(4))
        columns: dict[str, Any] = {"text": text, "counterpart_text": other}
        for name in ("decision", "counterpart_decision"):
            columns[name] = decision_column(self.decisions(name, at)) if self.count else self._no_decisions()
        columns["gap"] = self.joined()["gap"][at] if "gap" in self.joined() else np.ones(len(records))
        columns["confirmed"] = self.confirmed_at(at)
        return pd.DataFrame(columns | {"seed": seed.astype(np.int64), "changed": changed})


def _records(families: Any, found: Places, first: Places, second: Places) -> Iterator[Record]:
    """Go through pairs; positions of edits are those in the first text of a pair."""
    people = families.individuals[found]
    words = people.texts.vocabulary.words
    edits: list[list[tuple[int, str, str]]] = [[] for _ in found]
    for row, position, old, new in zip(*(column.tolist() for column in people.changes()), strict=True):
        edits[row].append((position, str(words[old]), str(words[new])))
    seeds = people.ground.positions[people.seeds].tolist()
    sides = families.at(found, first).tolist(), families.at(found, second).tolist()
    for shown, other, place, seed, changed in zip(*sides, first.tolist(), seeds, edits, strict=True):
        if place:
            changed = [(families.shifted(shown, position), old, new) for position, old, new in changed]
        yield families.asked[shown], families.asked[other], seed, changed


def _pack(records: list[Record]) -> npt.NDArray[np.uint8]:
    # Plain ASCII, which also holds invalid Unicode; packed fast, because neighbours share most words.
    return np.frombuffer(zlib.compress(json.dumps(records).encode("ascii"), 1), dtype=np.uint8)


def _unpack(pack: npt.NDArray[np.uint8], size: int) -> list[Record]:
    """Return the first records of a pack."""
    try:
        records = parse_json(inflate(pack.tobytes(), "json_bytes", _WHERE), _WHERE)
        check_fields(records, RECORDS, "texts")
        if len(records) < size:
            raise ValueError(f"{len(records):,} pairs where {size:,} are needed")
        return [(text, other, seed, [tuple(edit) for edit in changed]) for text, other, seed, changed in records[:size]]
    except (ValueError, TypeError, zlib.error) as error:
        raise RunError(f"{_WHERE} cannot be unpacked ({error})", remedy="restore the run from a copy") from None
