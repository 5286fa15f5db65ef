"""Texts as ids: each encoded as if alone, and batches of these that do not change predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evenhand.errors import EvenhandError, ModelError
from evenhand.models.base import Array

Ints = npt.NDArray[np.int64]

KEPT = 2**22
"""Ids of texts that are remembered, since a text often needs scores first and then gradients."""
TOGETHER = 1024
"""Texts that are encoded at once."""
FEW = 32
"""A batch of fewer texts takes about as long as one of so many."""
ALIKE = 0.8
"""The shortest text of a larger batch has at least this share of the longest one's ids."""


class Row(NamedTuple):
    """A text as the net takes it."""

    fields: tuple[Array, ...]
    """The ids, in one dimension; then what goes with them: as many values (a mask), or one (a length)."""
    spans: Array | None = None
    """Where the characters of each id begin and end, where that is known."""


def sizes(rows: Sequence[Row]) -> Ints:
    """Return how many ids each text has."""
    return np.array([len(row.fields[0]) for row in rows], dtype=np.int64)


class Padding(NamedTuple):
    """How texts of different lengths become rows of one width."""

    left: bool
    values: tuple[Any, ...]
    """What each field is padded with."""


class Encoder:
    """Calls the user's ``encode``, and remembers the ids of each text alone.

    Alone a text is not padded, or padded in the one way that its encoder has, so its ids cannot depend on the other
    texts. Where the padding is known, and the net ignores it, many texts are encoded at once and the padding is removed
    again; of each such batch one text is also encoded alone, and where that differs, all are.

    >>> encoder = Encoder(lambda texts: [[len(word) for word in text.split()] for text in texts])
    >>> encoder.rows(["to be or not"])[0].fields
    (array([2, 2, 2, 3]),)
    """

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self.encode = encode
        self.keys: tuple[str, ...] | None = None
        """The names of the fields, where ``encode`` gives them names; the ids are the first."""
        self._rows: dict[str, Row] = {}
        self._kept = 0
        self._uneven = False

    def rows(self, texts: Sequence[str], padding: Padding | None = None) -> list[Row]:
        """Encode texts, each as if it were alone; with a padding that the net ignores, many at once."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._rows]
        encoded = self._alone(fresh) if padding is None or self._uneven else self._together(fresh, padding)
        new = dict(zip(fresh, encoded, strict=True))
        rows = [new[text] if text in new else self._rows[text] for text in texts]
        added = sum(len(row.fields[0]) for row in encoded)
        self._kept += added
        if self._kept > KEPT:
            self._rows, self._kept = {}, added
        if self._kept <= KEPT:
            self._rows.update(new)
        return rows

    def ids_alone(self, text: str) -> Ints:
        """Return the ids of a text; none where the encoder refuses it, as many refuse spaces alone."""
        try:
            ids: Ints = self.rows([text])[0].fields[0]
            return ids
        except Exception:  # each in its own way
            return np.empty(0, dtype=np.int64)

    def _alone(self, texts: list[str]) -> list[Row]:
        return [Row(tuple(field[0] for field in self.fields([text]))) for text in texts]

    def _together(self, texts: list[str], padding: Padding) -> list[Row]:
        """Encode many texts at once, or each alone where that fails."""
        try:
            rows = self._in_batches(texts, padding)
        except Exception:  # Whatever it is, it is raised again for the text alone if a text causes it.
            rows = None
        self._uneven = rows is None
        return self._alone(texts) if rows is None else rows

    def _in_batches(self, texts: list[str], padding: Padding) -> list[Row] | None:
        """Encode texts of about equal length at once, and remove the padding; None where that changes a text."""
        out: list[Row] = [Row(())] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for begin in range(0, len(order), TOGETHER):
            which = order[begin : begin + TOGETHER]
            fields = self.fields([texts[i] for i in which])
            lengths = _unpadded(fields, padding)
            rows = _cut(fields, lengths, padding.left)
            (first,) = self._alone([texts[which[0]]])
            if lengths[0] and not all(map(np.array_equal, first.fields, rows[0].fields)):
                return None
            for i, row, length in zip(which, rows, lengths.tolist(), strict=True):
                out[i] = row if length else self._alone([texts[i]])[0]
        return out

    def fields(self, texts: list[str]) -> tuple[Array, ...]:
        """Call ``encode`` on a batch: the ids, a row for each text, and what goes with them."""
        answer = self.encode(texts)
        if isinstance(answer, Mapping):
            names = sorted(answer, key=lambda name: name != "input_ids")
            self.keys, parts = tuple(map(str, names)), [answer[name] for name in names]
        else:
            parts = list(answer) if isinstance(answer, tuple) else [answer]
        fields = tuple(map(_array, parts))
        ids = fields[0] if fields else np.empty(0)
        if ids.ndim != 2 or ids.dtype.kind not in "iu" or len(ids) != len(texts):
            raise ModelError(
                "must return token ids, integers of shape (texts, length), alone or first in a tuple with lengths or a "
                f"mask, not {ids.dtype} values of shape {ids.shape} for {len(texts)} texts",
                parameter="encode",
            )
        for field in fields[1:]:
            if field.shape not in ((len(ids),), ids.shape):
                raise ModelError(
                    "must return one value for each text beside the ids, or one for each id, not values of shape "
                    f"{field.shape} beside ids of shape {ids.shape}",
                    parameter="encode",
                )
        if not ids.shape[1]:
            raise ModelError(
                f"must return at least one id for {texts[0]!r:.60}",
                parameter="encode",
                remedy="give an empty text one id, such as the unknown word's",
            )
        return ids.astype(np.int64, copy=False), *fields[1:]

    def padding(self, texts: list[str]) -> Padding | None:
        """Find out how ``encode`` pads the first texts beside the last one; None where it does not or cannot."""
        try:
            together, alone = self.fields(texts), self.rows(texts)
        except EvenhandError:
            return None
        except Exception:  # Whatever a user's function raises; one that cannot pad is called with single texts only.
            return None
        found: set[Padding] = set()
        for number, row in enumerate(alone[:-1]):
            way = _padding_of([field[number] for field in together], row)
            if way is None:
                return None
            found.add(way)
        return found.pop() if len(found) == 1 else None


def _array(values: Any) -> Array:
    if hasattr(values, "detach"):
        tensor: Array = values.detach().cpu().numpy()
        return tensor
    try:
        return np.asarray(values)
    except ValueError as error:
        problem = "must return rows of one length"
        raise ModelError(problem, parameter="encode", remedy="pad them") from error


def _unpadded(fields: tuple[Array, ...], padding: Padding) -> Ints:
    """Return how many ids each text of a batch has without padding; 0 where that is not certain."""
    filler = np.ones(fields[0].shape, dtype=bool)
    for field, value in zip(fields, padding.values, strict=True):
        if field.ndim == 2:
            filler &= field == value
    real = ~filler if padding.left else ~filler[:, ::-1]
    lengths: Ints = np.where(real.any(axis=1), real.shape[1] - real.argmax(axis=1), 0)
    for field in fields:
        if field.ndim == 1:
            # A length, if it is one, must be that of what is left.
            lengths[field != lengths] = 0
    return lengths


def _cut(fields: tuple[Array, ...], lengths: Ints, left: bool) -> list[Row]:
    """Make rows of a batch, each of so many ids."""
    width = fields[0].shape[1]
    parts = [slice(width - length, None) if left else slice(length) for length in lengths.tolist()]
    columns = (
        [row[part] for row, part in zip(field, parts, strict=True)] if field.ndim == 2 else list(field)
        for field in fields
    )
    return [Row(row) for row in zip(*columns, strict=True)]


def _padding_of(padded: Sequence[Array], row: Row) -> Padding | None:
    """Compare a text in a batch with the same text alone: on which side it was padded, and with what."""
    extra = len(padded[0]) - len(row.fields[0])
    if extra <= 0:
        return None
    for left in (False, True):
        kept, added = (slice(extra, None), slice(extra)) if left else (slice(-extra), slice(-extra, None))
        same, values = True, []
        for field, own in zip(padded, row.fields, strict=True):
            if own.ndim == 0:
                same &= bool(field == own)
                values.append(0)
            else:
                fill = field[added][0]
                same &= np.array_equal(field[kept], own) and bool((field[added] == fill).all())
                values.append(fill.item())
        if same:
            return Padding(left, tuple(values))
    return None


@dataclass(frozen=True, eq=False)
class Batch:
    """Texts of one width."""

    which: Ints
    """Their positions in the list of texts."""
    fields: tuple[Array, ...]
    cells: tuple[Ints, Ints]
    """Rows and columns of the ids that are not padding, text by text."""

    def __len__(self) -> int:
        return len(self.which)

    def part(self, texts: slice) -> Batch:
        """Return some of the texts."""
        inside = np.isin(self.cells[0], np.arange(len(self))[texts])
        at, column = (cells[inside] for cells in self.cells)
        return Batch(self.which[texts], tuple(field[texts] for field in self.fields), (at - at[:1], column))


def batches(rows: Sequence[Row], padding: Padding | None, most: int) -> Iterator[Batch]:
    """Put texts of like length together, the longest first; without a padding, texts of equal length only.

    ``most`` is the number of ids that a batch may have, where it has more than one text.

    >>> rows = [Row((np.arange(n),)) for n in (1, 3, 1)]
    >>> [batch.fields[0].tolist() for batch in batches(rows, None, 100)]
    [[[0, 1, 2]], [[0], [0]]]
    >>> [batch.fields[0].tolist() for batch in batches(rows, Padding(False, (-1,)), 100)]
    [[[0, 1, 2], [0, -1, -1], [0, -1, -1]]]
    """
    widths = sizes(rows)
    order = np.argsort(-widths, kind="stable")
    negated, begin = -widths[order], 0
    while begin < len(order):
        widest = -int(negated[begin])
        least = widest if padding is None else ALIKE * widest
        like = int(np.searchsorted(negated, -least, side="right"))
        if padding is not None:
            like = max(like, begin + FEW)
        end = min(like, begin + max(1, most // widest), len(order))
        which = order[begin:end]
        yield _padded([rows[i] for i in which.tolist()], which, widths[which], padding)
        begin = end


def _padded(rows: list[Row], which: Ints, widths: Ints, padding: Padding | None) -> Batch:
    width, total = int(widths[0]), int(widths.sum())
    at = np.repeat(np.arange(len(rows)), widths)
    column = np.arange(total) - np.repeat(np.cumsum(widths) - widths, widths)
    if padding is not None and padding.left:
        column += np.repeat(width - widths, widths)
    fields = []
    for number, parts in enumerate(zip(*(row.fields for row in rows), strict=True)):
        if parts[0].ndim == 0:
            fields.append(np.array(parts))
        elif total == width * len(rows):
            fields.append(np.concatenate(parts).reshape(len(rows), width))
        else:
            assert padding is not None, "texts of different lengths were put together"
            full = np.full((len(rows), width), padding.values[number], dtype=parts[0].dtype)
            full[at, column] = np.concatenate(parts)
            fields.append(full)
    return Batch(which, tuple(fields), (at, column))
