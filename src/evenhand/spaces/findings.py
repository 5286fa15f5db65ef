"""Findings in columns: pairs of individuals, the decision about each, and the gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from evenhand._format import native
from evenhand.criteria import Places
from evenhand.errors import GAP, ModelError
from evenhand.spaces.base import table
from evenhand.spaces.individuals import Individuals

if TYPE_CHECKING:
    import pandas as pd

    from evenhand.engine.judge import Judged
    from evenhand.spaces.tabular import Space

PAIRS = ("individual", "counterpart", "decision", "counterpart_decision", "gap")
"""What is kept of a finding; the gap only where scores were asked."""
SMALL = 256
"""Class numbers below this are looked up in a table."""


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
        """Turn decisions into codes."""
        if labels.dtype.kind == "f":
            return labels.astype(np.float64)
        if labels.dtype.kind in "iu" and (known := self._small_codes(labels)) is not None:
            return known
        import pandas as pd

        inverse, uniques = pd.factorize(labels)
        plain = [_plain(value) for value in np.asarray(uniques)]
        for value in plain:
            if _identity(value) not in self._codes:
                self._codes[_identity(value)] = len(self.values)
                self.values.append(value)
            if type(value) is int and 0 <= value < SMALL:
                self._small[value] = self._codes[_identity(value)]
        if len(self.values) > 2**15:
            raise ModelError(
                "the model gave over 32,768 different labels", remedy=("it looks like a regression: use ", GAP)
            )
        table = np.array([self._codes[_identity(value)] for value in plain], dtype=np.int16)
        return table[inverse] if len(inverse) else np.zeros(0, dtype=np.int16)

    def _small_codes(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.int16] | None:
        """Look up class numbers that were all seen before, the most common case."""
        if not len(labels) or labels.min() < 0 or labels.max() >= len(self._small):
            return None
        codes = self._small[labels]
        return None if codes.min() < 0 else codes

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn codes back into decisions."""
        if codes.dtype.kind == "f":
            return codes
        table: npt.NDArray[Any] = np.empty(len(self.values), dtype=object)
        table[:] = self.values
        kinds = {type(v) for v in self.values}
        small = all(abs(v) < 2**63 for v in self.values) if kinds in ({int}, {bool}, {float}) else False
        out: npt.NDArray[Any] = (table.astype(kinds.pop()) if small else table)[codes]
        return out

    def check_codes(self, codes: npt.NDArray[Any]) -> None:
        """Raise a ``ValueError`` where stored codes are out of range."""
        if codes.dtype.kind != "f" and len(codes) and (codes.min() < 0 or codes.max() >= len(self.values)):
            raise ValueError(f"it has codes of decisions that are not among its {len(self.values):,}")

    def check(self, packed: npt.NDArray[Any], count: int) -> None:
        """Raise a ``ValueError`` where ``unpack`` would not give so many decisions."""
        bits = packed.dtype.kind != "f" and len(self.values) <= 2
        if len(packed) != (-(-count // 8) if bits else count) or (bits and packed.dtype != np.uint8):
            raise ValueError(f"it has {len(packed):,} entries for {count:,} decisions")
        self.check_codes(np.unpackbits(packed, count=count) if bits else packed)

    def pack(self, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn decisions into as few bytes as possible: one bit each as long as there are two."""
        codes = self.encode(labels)
        if codes.dtype.kind == "f":
            return codes
        few = len(self.values) <= 2
        return np.packbits(codes.astype(bool)) if few else codes.astype(np.min_scalar_type(len(self.values) - 1))

    def unpack(self, packed: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
        """Rebuild decisions from their bytes.

        >>> table = Decisions()
        >>> table.unpack(table.pack(np.array(["no", "yes", "no"])), 3).tolist()
        ['no', 'yes', 'no']
        """
        bits = packed.dtype.kind != "f" and len(self.values) <= 2
        return self.decode(np.unpackbits(packed, count=count) if bits else packed)


def array_of(
    answer: dict[str, npt.NDArray[Any]], name: str, kinds: str, count: int | None, dimensions: int | None = 1
) -> npt.NDArray[Any]:
    """Return one array of a stored answer; raise a ``ValueError`` where it is not of so many entries, or missing.

    >>> array_of({"gap": np.zeros(2)}, "gap", "f", 3)
    Traceback (most recent call last):
    ValueError: gap is float64 of shape (2,), and 3 entries are needed
    """
    if name not in answer:
        raise ValueError(f"{name} is missing")
    array = answer[name]
    fits = array.dtype.kind in kinds and dimensions in (None, array.ndim)
    if not fits or (count is not None and (not array.ndim or len(array) != count)):
        needed = "other values" if count is None else f"{count:,} entries"
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, and {needed} are needed")
    return array


def decision_column(decisions: npt.NDArray[Any]) -> pd.Series[Any]:
    """Make decisions a column of a frame.

    >>> decision_column(np.array(["half a character: " + chr(0xD83D)], dtype=object)).dtype
    dtype('O')
    """
    import pandas as pd

    try:
        return pd.Series(decisions)
    except UnicodeEncodeError:
        # Pandas' own texts take no half of a surrogate pair.
        return pd.Series(decisions, dtype=object)


def _plain(value: Any) -> Any:
    value = native(value)
    return value if isinstance(value, bool | int | float | str) else str(value)


def _identity(value: Any) -> Any:
    # True == 1 and hashes alike, but is another decision to a reader.
    return (type(value).__name__, value)


@dataclass
class Findings:
    """Pairs found so far, kept as blocks; ``stored`` forms are ids where the space fits, rows otherwise."""

    space: Any
    """The space of the pairs, bound or not."""
    coding: Decisions = field(default_factory=Decisions)
    blocks: list[dict[str, npt.NDArray[Any]]] = field(default_factory=list)
    count: int = 0
    confirmed: npt.NDArray[np.bool_] | None = None
    """Which pairs are confirmed: asked again with the same answers. None: none yet."""
    example: Any = None
    """A decision of the model, which gives the columns their types where there are no findings."""

    kept: ClassVar[tuple[str, ...]] = PAIRS

    def pack(self, families: Any, found: Places, first: Places, second: Places) -> dict[str, npt.NDArray[Any]]:
        """Write down the pairs of some families, as places in them."""
        return {
            "individual": families.members(found, first).stored,
            "counterpart": families.members(found, second).stored,
        }

    def written(self, judged: Judged, found: Places) -> dict[str, npt.NDArray[Any]]:
        """Write down what was found in some families, for ``add`` and for the log."""
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
        """Add the first pairs of an answer: what ``pack`` wrote, the decisions, and perhaps gaps."""
        if count:
            self.blocks.append({name: answer[name][:count] for name in self.kept if name in answer})
            self.count += count

    def check(self, answer: dict[str, npt.NDArray[Any]], count: int) -> None:
        """Raise a ``ValueError`` where an answer that was stored does not have so many pairs as ``add`` takes them."""
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
        """Raise a ``ValueError`` where an answer does not have the two sides of so many pairs."""
        for name in ("individual", "counterpart"):
            self.check_members(answer, name, count)

    def check_members(self, answer: dict[str, npt.NDArray[Any]], name: str, count: int) -> None:
        """Raise a ``ValueError`` where a column does not have so many individuals of the space, as they are stored."""
        coding = table(self.space).coding
        stored = array_of(answer, name, *(("i", count, 1) if coding.fits else ("u", count, 2)))
        most = coding.total if coding.fits else np.array(coding.sizes)
        if not coding.fits and stored.shape[1] != len(coding.sizes):
            raise ValueError(f"{name} has {stored.shape[1]} columns, and the space {len(coding.sizes)}")
        if (stored < 0).any() or (stored >= most).any():
            raise ValueError(f"{name} has individuals that the space does not have")

    def cut(self, count: int) -> None:
        """Keep the first pairs only."""
        if self.blocks:
            self.blocks = [{name: array[:count] for name, array in self.joined().items()}]
            self.count = count
            self.confirmed = None if self.confirmed is None else self.confirmed[:count]

    def keep_example(self, labels: npt.NDArray[Any]) -> None:
        """Keep a decision of the model as an example."""
        self.example = _plain(labels[0]) if len(labels) else None

    def mark(self, confirmed: npt.NDArray[np.bool_]) -> None:
        """Note which pairs are confirmed."""
        self.confirmed = confirmed

    def drop(self, positions: npt.NDArray[np.int64]) -> None:
        """Take pairs out."""
        if self.blocks and len(positions):
            self.blocks = [{name: np.delete(array, positions, axis=0) for name, array in self.joined().items()}]
            self.count -= len(positions)
            self.confirmed = None if self.confirmed is None else np.delete(self.confirmed, positions)

    def confirmed_at(self, at: Any = slice(None)) -> npt.NDArray[np.bool_]:
        """Return which pairs at some places are confirmed."""
        return np.asarray((np.zeros(self.count, dtype=bool) if self.confirmed is None else self.confirmed)[at])

    def joined(self) -> dict[str, npt.NDArray[Any]]:
        """Return all blocks as one, and keep them so."""
        if len(self.blocks) > 1:
            # Column by column, and each block lets go of its part, so that the pairs never take twice their space.
            keys, blocks = list(self.blocks[0]), self.blocks
            self.blocks = [{key: np.concatenate([block.pop(key) for block in blocks]) for key in keys}]
        return self.blocks[0] if self.blocks else {}

    def select(self, column: str, at: Any = slice(None)) -> npt.NDArray[Any]:
        """Return one column at some places; a few sorted positions are picked without joining the blocks."""
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
        return Individuals.from_stored(self.space, self.select(which, at))

    def rows(self, which: str = "individual", at: Any = slice(None)) -> Any:
        """Return one side of the pairs as a model is asked about them."""
        return self.individuals(which, at).rows

    def decisions(self, which: str = "decision", at: Any = slice(None)) -> npt.NDArray[Any]:
        """Return the decisions about one side."""
        return self.coding.decode(self.select(which, at))

    def frame(self, at: Any = slice(None)) -> pd.DataFrame:
        """Lay findings out in the user's own columns and values."""
        import pandas as pd

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
        """A column of ours beside the user's; one that the user has already gets an underscore."""
        return f"{name}_" if name in self.space.names else name

    def _counterpart_columns(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.set_axis([self._own_name(f"counterpart_{name}") for name in frame.columns], axis=1)

    def _changing(self) -> set[int]:
        linked = {j for dependents in self.space.link_tables.values() for j in dependents}
        return set(self.space.protected_columns) | linked
