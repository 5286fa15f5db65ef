"""Findings in columns: pairs of individuals or of texts, the decision about each, and the gap."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._files import inflate, no_room, parse_json, temporary
from evenhand._validate import COUNT, TEXT, check_fields
from evenhand.criteria import Places
from evenhand.errors import GAP, ModelError, RunError
from evenhand.spaces.base import table
from evenhand.spaces.frames import native, pd
from evenhand.spaces.individuals import Individuals

if TYPE_CHECKING:
    from evenhand.engine.judge import Judged
    from evenhand.spaces.tabular import Space


PAIRS = ("individual", "counterpart", "decision", "counterpart_decision", "gap")
"""The columns of findings; the gap exists only if scores were queried."""
SMALL = 256
"""Class numbers below this are looked up in a table."""
IN_MEMORY = 2**28
"""Maximum bytes of pairs in memory; earlier ones are moved to files."""


class Decisions:
    """A table of the decisions seen so far, so that findings keep small codes; numbers of a regression stay numbers.

    >>> table = Decisions()
    >>> table.encode(np.array(["no", "yes"])).tolist(), table.values
    ([0, 1], ['no', 'yes'])
    """

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values: list[Any] = list(values)
        self._codes = {_identity(value): code for code, value in enumerate(self.values)}
        self._small = np.full(SMALL, -1, dtype=np.int16)

    def encode(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert decisions to codes."""
        if labels.dtype.kind == "f":
            return labels.astype(np.float64)
        if labels.dtype.kind in "iu" and (known := self._small_codes(labels)) is not None:
            return known
        inverse, uniques = pd.factorize(labels)
        plain = [_plain(value) for value in np.asarray(uniques)]
        for value in plain:
            if _identity(value) not in self._codes:
                self._codes[_identity(value)] = len(self.values)
                self.values.append(value)
            if type(value) is int and 0 <= value < SMALL:
                self._small[value] = self._codes[_identity(value)]
        if len(self.values) > 2**15:
            raise ModelError("the model gave over 32,768 different labels", remedy=("if it is a regression, use ", GAP))
        table = np.array([self._codes[_identity(value)] for value in plain], dtype=np.int16)
        return table[inverse] if len(inverse) else np.zeros(0, dtype=np.int16)

    def _small_codes(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.int16] | None:
        """Look up class numbers that have all occurred before, the most common case."""
        if not len(labels) or labels.min() < 0 or labels.max() >= len(self._small):
            return None
        codes = self._small[labels]
        return None if codes.min() < 0 else codes

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert codes back to decisions."""
        if codes.dtype.kind == "f":
            return codes
        table: npt.NDArray[Any] = np.empty(len(self.values), dtype=object)
        table[:] = self.values
        kinds = {type(v) for v in self.values}
        small = all(abs(v) < 2**63 for v in self.values) if kinds in ({int}, {bool}, {float}) else False
        out: npt.NDArray[Any] = (table.astype(kinds.pop()) if small else table)[codes]
        return out

    def check_codes(self, codes: npt.NDArray[Any]) -> None:
        """Raise a ``ValueError`` if stored codes are out of range."""
        if codes.dtype.kind != "f" and len(codes) and (codes.min() < 0 or codes.max() >= len(self.values)):
            raise ValueError(f"it has codes of decisions that are not among its {len(self.values):,}")

    def check(self, packed: npt.NDArray[Any], count: int) -> None:
        """Raise a ``ValueError`` if ``unpack`` would return a different number of decisions."""
        bits = packed.dtype.kind != "f" and len(self.values) <= 2
        if len(packed) != (-(-count // 8) if bits else count) or (bits and packed.dtype != np.uint8):
            raise ValueError(f"it has {len(packed):,} entries for {count:,} decisions")
        self.check_codes(np.unpackbits(packed, count=count) if bits else packed)

    def pack(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Pack decisions into as few bytes as possible: one bit each if there are two."""
        codes = self.encode(labels)
        if codes.dtype.kind == "f":
            return codes
        few = len(self.values) <= 2
        return np.packbits(codes.astype(bool)) if few else codes.astype(np.min_scalar_type(len(self.values) - 1))

    def unpack(self, packed: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Rebuild decisions from their bytes."""
        bits = packed.dtype.kind != "f" and len(self.values) <= 2
        return self.decode(np.unpackbits(packed, count=count) if bits else packed)


def array_of(
    answer: dict[str, npt.NDArray[Any]], name: str, kinds: str, count: int | None, dimensions: int | None = 1
) -> npt.NDArray[Any]:
    """Return one array of a stored answer; raise a ``ValueError`` if it is missing or has a different length."""
    if name not in answer:
        raise ValueError(f"{name} is missing")
    array = answer[name]
    fits = array.dtype.kind in kinds and dimensions in (None, array.ndim)
    if not fits or (count is not None and (not array.ndim or len(array) != count)):
        needed = "other values" if count is None else f"{count:,} entries"
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, but {needed} are needed")
    return array


def decision_column(decisions: npt.NDArray[Any]) -> pd.Series[Any]:
    """Convert decisions to a column of a frame."""
    try:
        return pd.Series(decisions)
    except UnicodeEncodeError:
        # Text columns of pandas cannot contain lone surrogates.
        return pd.Series(decisions, dtype=object)


def _plain(value: Any) -> Any:
    value = native(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _identity(value: Any) -> Any:
    # True equals 1 and has the same hash, but is a different decision for readers.
    return (type(value).__name__, value)


class Columns:
    """Findings in files, one for each column, which are read like arrays.

    >>> columns = Columns()
    >>> columns.add([{"gap": np.array([0.5])}, {"gap": np.array([0.25])}])
    >>> columns.block["gap"].tolist()
    [0.5, 0.25]
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[IO[bytes], np.dtype[Any], tuple[int, ...]]] = {}

    def add(self, blocks: Sequence[dict[str, npt.NDArray[Any]]]) -> None:
        """Append blocks to the files."""
        for name in blocks[0]:
            column = np.concatenate([block[name] for block in blocks])
            if name not in self._files:
                self._files[name] = temporary(self), column.dtype, column.shape[1:]
            file, kind, _ = self._files[name]
            try:
                file.write(np.ascontiguousarray(column, dtype=kind).data)
                file.flush()
            except OSError as error:
                raise no_room("the findings", error) from error

    @property
    def block(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that was added."""
        return {
            name: np.memmap(file, kind, "r").reshape(-1, *shape) for name, (file, kind, shape) in self._files.items()
        }


@dataclass
class Findings:
    """Pairs found so far, kept as blocks; ``stored`` forms are ids where the space fits, rows otherwise."""

    space: Any
    """The space of the pairs, bound or not."""
    coding: Decisions = field(default_factory=Decisions)
    blocks: list[dict[str, npt.NDArray[Any]]] = field(default_factory=list)
    count: int = 0
    confirmed: npt.NDArray[np.bool_] | None = None
    """Which pairs are confirmed by querying the model again. None: none yet."""
    columns: Columns | None = None
    """The files of the first pairs, if there are too many for memory."""
    pending: int = 0
    """Bytes of the pairs in memory."""
    example: Any = None
    """A decision of the model, which determines the column types if there are no findings."""

    kept: ClassVar[tuple[str, ...]] = PAIRS

    def pack(self, families: Any, found: Places, first: Places, second: Places) -> dict[str, npt.NDArray[Any]]:
        """Write down the pairs of some families, as places in them."""
        return {
            "individual": families.members(found, first).stored,
            "counterpart": families.members(found, second).stored,
        }

    def written(self, judged: Judged, found: Places) -> dict[str, npt.NDArray[Any]]:
        """Return the findings in some families, for ``add`` and for the log."""
        outputs, verdicts = judged.outputs, judged.verdicts
        first, second = verdicts.first[found], verdicts.second[found]
        assert outputs.labels is not None
        arrays = {
            **self.pack(judged.families, found, first, second),
            "decision": self.coding.encode(outputs.labels[found, first]),
            "counterpart_decision": self.coding.encode(outputs.labels[found, second]),
        }
        return arrays if outputs.scores is None else {**arrays, "gap": verdicts.gap[found]}

    def add(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Add the first pairs of an answer: what ``pack`` wrote, the decisions, and gaps if there are any."""
        if count:
            block = {name: answer[name][:count] for name in self.kept if name in answer}
            self.blocks.append(block)
            self.count += count
            self.pending += sum(array.nbytes for array in block.values())
            if self.pending > IN_MEMORY:
                self._write()

    def add_apart(self, answer: dict[str, npt.NDArray[Any]], tests: int) -> None:
        """Add pairs of the first tests of an answer that are shown apart, because they are no findings."""

    def check_apart(self, answer: dict[str, npt.NDArray[Any]], tests: int) -> None:
        """Raise a ``ValueError`` if a stored answer lacks what ``add_apart`` needs."""

    def check(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Raise a ``ValueError`` if a stored answer lacks the pairs that ``add`` needs."""
        for name in ("decision", "counterpart_decision"):
            self.coding.check_codes(array_of(answer, name, "if", count))
        if "gap" in answer:
            array_of(answer, "gap", "f", count)
        before = self.blocks[0] if self.blocks else answer
        for name in self.kept:
            if count and (name in answer) != (name in before):
                raise ValueError(f"only some answers have {name}")
            if name in answer and count and (answer[name].dtype.kind == "f") != (before[name].dtype.kind == "f"):
                raise ValueError(f"{name} has other values than before")
        self.check_sides(answer, count)

    def check_sides(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Raise a ``ValueError`` if an answer lacks one side of its pairs."""
        for name in ("individual", "counterpart"):
            self.check_members(answer, name, count)

    def check_members(self, answer: dict[str, npt.NDArray[Any]], name: str, count: int) -> None:
        """Raise a ``ValueError`` where a column does not have this number of stored individuals."""
        coding = table(self.space).coding
        stored = array_of(answer, name, *(("i", count, 1) if coding.fits else ("u", count, 2)))
        most = coding.total if coding.fits else np.array(coding.sizes)
        if not coding.fits and stored.shape[1] != len(coding.sizes):
            raise ValueError(f"{name} has {stored.shape[1]} columns, but the space has {len(coding.sizes)}")
        if (stored < 0).any() or (stored >= most).any():
            raise ValueError(f"{name} has individuals that the space does not have")

    def _write(self) -> None:
        """Move pairs to files."""
        new = self.blocks if self.columns is None else self.blocks[1:]
        if new:
            self.columns = self.columns or Columns()
            self.columns.add(new)
            self.blocks, self.pending = [self.columns.block], 0

    def __getstate__(self) -> dict[str, Any]:
        # The files belong to this process, so their contents become arrays.
        return {**self.__dict__, "columns": None}

    def cut(self, count: int) -> None:
        """Keep the first pairs only."""
        if self.blocks:
            self.blocks, self.columns = [{name: array[:count] for name, array in self.joined().items()}], None
            self.count = count
            self.confirmed = None if self.confirmed is None else self.confirmed[:count]

    def keep_example(self, labels: npt.NDArray[Any]) -> None:
        """Keep a decision of the model as an example."""
        self.example = _plain(labels[0]) if len(labels) else None

    def mark(self, confirmed: npt.NDArray[np.bool_]) -> None:
        """Record which pairs are confirmed."""
        self.confirmed = confirmed

    def drop(self, positions: npt.NDArray[np.int64]) -> None:
        """Remove pairs."""
        if self.blocks and len(positions):
            kept = {name: np.delete(array, positions, axis=0) for name, array in self.joined().items()}
            self.blocks, self.columns = [kept], None
            self.count -= len(positions)
            self.confirmed = None if self.confirmed is None else np.delete(self.confirmed, positions)

    def confirmed_at(self, at: Any = slice(None)) -> npt.NDArray[np.bool_]:
        """Return which pairs at some positions are confirmed."""
        return np.asarray((np.zeros(self.count, dtype=bool) if self.confirmed is None else self.confirmed)[at])

    def joined(self) -> dict[str, npt.NDArray[Any]]:
        """Join all blocks into one, and return it."""
        if self.columns is not None:
            self._write()
        elif len(self.blocks) > 1:
            # Column by column, releasing each block's part, so that the pairs never take twice their memory.
            keys, blocks = list(self.blocks[0]), self.blocks
            self.blocks = [{key: np.concatenate([block.pop(key) for block in blocks]) for key in keys}]
        return self.blocks[0] if self.blocks else {}

    def select(self, column: str, at: Any = slice(None)) -> npt.NDArray[Any]:
        """Return one column at some positions; a few sorted positions are read without joining the blocks."""
        if len(self.blocks) < 2 or isinstance(at, slice):
            return np.asarray(self.joined()[column][at])
        ends = np.cumsum([len(block["decision"]) for block in self.blocks])
        cuts = np.searchsorted(at, ends)
        starts = [0, *cuts[:-1].tolist()]
        offsets = [0, *ends[:-1].tolist()]
        parts = zip(self.blocks, starts, cuts.tolist(), offsets, strict=True)
        return np.concatenate([block[column][at[start:end] - offset] for block, start, end, offset in parts])

    def individuals(self, which: str = "individual", at: Any = slice(None)) -> Individuals:
        """Return one side of the pairs as individuals."""
        if not self.count:
            return Individuals(self.space, rows=np.empty((0, len(self.space.names)), dtype=np.int32))
        return Individuals.from_stored(self.space, self.select(which, at))

    def rows(self, which: str = "individual", at: Any = slice(None)) -> Any:
        """Return one side of the pairs as inputs of a model."""
        return self.individuals(which, at).rows

    def decisions(self, which: str = "decision", at: Any = slice(None)) -> npt.NDArray[Any]:
        """Return the decisions about one side."""
        return self.coding.decode(self.select(which, at))

    def frame(self, at: Any = slice(None)) -> pd.DataFrame:
        """Return findings as a frame with the user's columns and values."""
        space: Space = self.space
        changed = [name for j, name in enumerate(space.names) if j in self._changing()]
        if not self.count:
            empty = space.frame(np.empty((0, len(space.names)), dtype=np.int32))
            others = self._counterpart_columns(empty[changed])
            decided = pd.DataFrame({self._own_name(name): self._no_decisions() for name in PAIRS[2:4]})
            decided[self._own_name("gap")] = np.zeros(0)
            decided[self._own_name("confirmed")] = np.zeros(0, dtype=bool)
            return pd.concat([empty, others, decided], axis=1)
        frame = space.frame(self.individuals("individual", at).rows)
        others = self._counterpart_columns(space.frame(self.individuals("counterpart", at).rows)[changed])
        answers = {name: decision_column(self.decisions(name, at)) for name in ("decision", "counterpart_decision")}
        decided = pd.DataFrame({self._own_name(name): column for name, column in answers.items()}, index=frame.index)
        decided[self._own_name("gap")] = self.joined()["gap"][at] if "gap" in self.joined() else 1.0
        decided[self._own_name("confirmed")] = self.confirmed_at(at)
        return pd.concat([frame, others, decided], axis=1)

    def _no_decisions(self) -> pd.Series[Any]:
        table = Decisions()
        example = np.array([0.0 if self.example is None else self.example])
        return decision_column(table.decode(table.encode(example))).head(0)

    def _own_name(self, name: str) -> str:
        """A column of evenhand's; it gets an underscore if the user has a column of that name."""
        return f"{name}_" if name in self.space.names else name

    def _counterpart_columns(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.set_axis([self._own_name(f"counterpart_{name}") for name in frame.columns], axis=1)

    def _changing(self) -> set[int]:
        linked = {j for dependents in self.space.link_tables.values() for j in dependents}
        return set(self.space.protected_columns) | linked


_WHERE = "texts of answers.log"
_APART = "apart_"
RECORDS = [(TEXT, TEXT, COUNT, [(COUNT, TEXT, TEXT)])]
Record = tuple[str, str, int, list[tuple[int, str, str]]]
"""The text, its counterpart, the row of the seed, and (position, old word, new word) of each free edit."""


@dataclass
class TextFindings(Findings):
    """Pairs of texts, stored as packed texts, so that neither seeds nor lexicons are needed to read them."""

    texts: list[tuple[npt.NDArray[np.uint8], int]] = field(default_factory=list)
    """Packed records, and how many of each pack count."""

    apart: TextFindings | None = None
    """Pairs whose decision depends on how an identity is spelled; None if there are none."""

    kept: ClassVar[tuple[str, ...]] = ("decision", "counterpart_decision", "gap")

    def written(self, judged: Judged, found: Places) -> dict[str, npt.NDArray[Any]]:
        """Return the findings in some families, and the pairs that depend on a spelling."""
        arrays, within = super().written(judged, found), judged.verdicts.within
        if within is None or not within.any():
            return arrays
        apart = super().written(judged, np.flatnonzero(within))
        return arrays | {"within": np.packbits(within)} | {_APART + name: array for name, array in apart.items()}

    def add_apart(self, answer: dict[str, npt.NDArray[Any]], tests: int) -> None:
        """Add the pairs of the first tests of an answer that depend on a spelling."""
        if "within" in answer:
            self.apart = self.apart or TextFindings(self.space)
            self.apart.coding = self.coding
            count = int(np.unpackbits(answer["within"])[:tests].sum())
            self.apart.add(
                {name.removeprefix(_APART): array for name, array in answer.items() if _APART in name}, count
            )

    def check_apart(self, answer: dict[str, npt.NDArray[Any]], tests: int) -> None:
        """Raise a ``ValueError`` if a stored answer lacks pairs that depend on a spelling."""
        if "within" in answer:
            bits = array_of(answer, "within", "u", -(-tests // 8))
            if bits.dtype != np.uint8:
                raise ValueError("within must be packed bits")
            apart = TextFindings(self.space, coding=self.coding)
            pairs = {name.removeprefix(_APART): array for name, array in answer.items() if _APART in name}
            apart.check(pairs, int(np.unpackbits(bits, count=tests).sum()))

    def pack(self, families: Any, found: Places, first: Places, second: Places) -> dict[str, npt.NDArray[Any]]:
        """Write down the pairs of some families, as places in them."""
        return {"texts": _pack(list(_records(families, found, first, second)))}

    def add(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Add the first pairs of an answer."""
        super().add(answer, count)
        if count:
            self.texts.append((answer["texts"], count))

    def check_sides(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Raise a ``ValueError`` if there is no pack of texts; its contents are checked when it is opened."""
        pack = answer.get("texts", np.zeros(0))
        if count and (pack.dtype != np.uint8 or pack.ndim != 1):
            raise ValueError("texts must be packed bytes")

    def check_members(self, answer: dict[str, npt.NDArray[Any]], name: str, count: int) -> None:
        """Raise a ``ValueError`` where a column does not have this number of stored counterparts."""
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
        """Remove pairs; only packs that contain some are opened."""
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
        """Return pairs, all or those at some sorted positions; only packs that contain some are opened."""
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
        """Return findings as a frame."""
        records = self.records(at)
        # As objects, because other text columns cannot contain lone surrogates.
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
    seeds = people.bound.positions[people.seeds].tolist()
    sides = families.at(found, first).tolist(), families.at(found, second).tolist()
    for shown, other, place, seed, changed in zip(*sides, first.tolist(), seeds, edits, strict=True):
        if place:
            changed = [(families.shifted(shown, position), old, new) for position, old, new in changed]
        yield families.asked[shown], families.asked[other], seed, changed


def _pack(records: list[Record]) -> npt.NDArray[np.uint8]:
    # ASCII, which also supports invalid Unicode; packed with a fast level, because neighbours share most words.
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
