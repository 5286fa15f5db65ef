"""Texts as token ids for a network: safe batches, which ids belong to which word, and which words it knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from evenhand.errors import TEXT_IMPORTANCE, EvenhandError, ModelError
from evenhand.models.base import Array
from evenhand.spaces.text.tokens import Texts, ranges

Ints = npt.NDArray[np.int64]

KEPT = 2**22
"""Number of texts whose ids are cached, because a text often needs scores first and then gradients."""
TOGETHER = 1024
"""Number of texts that are encoded at once."""
FEW = 32
"""Smaller batches take about as long as one with this many texts."""
ALIKE = 0.8
"""In a larger batch, the shortest text has at least this share of the ids of the longest."""


class Row(NamedTuple):
    """A text as input of the network."""

    fields: tuple[Array, ...]
    """The ids, in one dimension; then accompanying fields: as many values (a mask), or one (a length)."""
    spans: Array | None = None
    """The start and end of the characters of each id, if known."""


def sizes(rows: Sequence[Row]) -> Ints:
    """Return how many ids each text has."""
    return np.array([len(row.fields[0]) for row in rows], dtype=np.int64)


class Padding(NamedTuple):
    """How texts of different lengths are padded to rows of one width."""

    left: bool
    values: tuple[Any, ...]
    """The padding value of each field."""


class Encoder:
    """Calls the user's ``encode``, and caches the ids of each text.

    A text encoded alone has no padding, or the padding of its encoder, so its ids cannot depend on other texts. If the
    padding is known and the network ignores it, many texts are encoded at once and the padding is removed again. One
    text of each such batch is also encoded alone, and if it differs, all are.

    >>> encoder = Encoder(lambda texts: [[len(word) for word in text.split()] for text in texts])
    >>> encoder.rows(["to be or not"])[0].fields
    (array([2, 2, 2, 3]),)
    """

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self.encode = encode
        self.keys: tuple[str, ...] | None = None
        """The names of the fields, if ``encode`` names them; the ids come first."""
        self._rows: dict[str, Row] = {}
        self._kept = 0
        self._uneven = False

    def rows(self, texts: Sequence[str], padding: Padding | None = None) -> list[Row]:
        """Encode texts, each as if it were alone; many at once if the network ignores their padding."""
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
        """Return the ids of a text; none if the encoder rejects it, as many reject spaces alone."""
        try:
            ids: Ints = self.rows([text])[0].fields[0]
            return ids
        except Exception:  # encoders raise different exceptions
            return np.empty(0, dtype=np.int64)

    def _alone(self, texts: list[str]) -> list[Row]:
        return [Row(tuple(field[0] for field in self.fields([text]))) for text in texts]

    def _together(self, texts: list[str], padding: Padding) -> list[Row]:
        """Encode many texts at once, or each alone if that fails."""
        try:
            rows = self._in_batches(texts, padding)
        except Exception:  # Any exception caused by a text is raised again when that text is encoded alone.
            rows = None
        self._uneven = rows is None
        return self._alone(texts) if rows is None else rows

    def _in_batches(self, texts: list[str], padding: Padding) -> list[Row] | None:
        """Encode texts of about equal length at once, and remove the padding; None if that changes a text."""
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
        """Call ``encode`` on a batch: the ids, a row for each text, and the accompanying fields."""
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
        """Find out how ``encode`` pads the first texts together with the last one; None if it does not or cannot."""
        try:
            together, alone = self.fields(texts), self.rows(texts)
        except EvenhandError:
            return None
        except Exception:  # A user's function may raise anything. If it cannot pad, it gets single texts only.
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
    """Return how many ids each text of a batch has without padding; 0 if that is uncertain."""
    filler = np.ones(fields[0].shape, dtype=bool)
    for field, value in zip(fields, padding.values, strict=True):
        if field.ndim == 2:
            filler &= field == value
    real = ~filler if padding.left else ~filler[:, ::-1]
    lengths: Ints = np.where(real.any(axis=1), real.shape[1] - real.argmax(axis=1), 0)
    for field in fields:
        if field.ndim == 1:
            # A field with lengths must have the length of the remaining ids.
            lengths[field != lengths] = 0
    return lengths


def _cut(fields: tuple[Array, ...], lengths: Ints, left: bool) -> list[Row]:
    """Make rows of a batch, each with ``length`` ids."""
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
    """Group texts of similar length, longest first; without padding, texts of equal length only.

    ``most`` is the maximum number of ids of a batch with more than one text.

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


_CHUNK = re.compile(r"\s*\S+|\s+")


class Alignment(NamedTuple):
    """Texts consist of pieces with consecutive numbers; the ids of one piece are consecutive."""

    ids: Ints
    """The piece that each id belongs to, text by text; -1 for padding and similar ids."""
    words: Ints
    """The piece that each word belongs to: its own, or one shared with adjacent characters."""
    pieces: int
    """How many there are."""


class _Cut(NamedTuple):
    """Texts in pieces that can be encoded one by one."""

    pieces: Ints
    """The numbers of the pieces in the table of pieces, text by text."""
    lengths: Ints
    """How many pieces each text has."""
    words: Ints
    """The place of each word among the pieces."""


class Pieces:
    """The ids of words, gaps and chunks, each encoded alone once, and texts put together of them.

    If the concatenated ids of a text's pieces are the ids of the text, each id belongs to its piece. This is tried with
    words and gaps, then with the parts between white space, for encoders that combine a word and its comma into one
    token. Ids that even an empty text has are ignored on both sides.

    >>> encoder = Encoder(lambda texts: [[len(word) for word in text.split()] for text in texts])
    >>> pieces = Pieces(encoder)
    >>> texts = Texts.of(["to be or"])
    >>> pieces.align(texts, encoder.rows(texts.strings()))
    Alignment(ids=array([1, 3, 5]), words=array([1, 3, 5]), pieces=7)
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._numbers: dict[str, int] = {}
        self._ids = _Ragged()

    @cached_property
    def _special(self) -> Ints:
        return self._encoder.ids_alone("")

    def of(self, words: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the ids of words, one word after the other, and how many each has."""
        return self._ids.take(np.array([self._number(word) for word in words], dtype=np.int64))

    def align(self, texts: Texts, rows: Sequence[Row]) -> Alignment:
        """Find the piece of every id and word; raise ModelError about the first text that cannot be aligned."""
        cut = self._words(texts)
        ids, failed = self._match(cut, rows)
        if not failed.any():
            return Alignment(ids, cut.words, len(cut.pieces))
        again = self._chunks(texts[failed])
        other, still = self._match(again, [rows[i] for i in np.flatnonzero(failed).tolist()])
        if still.any():
            text = texts[np.flatnonzero(failed)[still][:1]].strings()[0]
            raise ModelError(
                f"the ids that encode gives for {text!r:.60} are not those of its words one by one, so gradients "
                "cannot be assigned to words",
                remedy=("encode word by word, or use ", TEXT_IMPORTANCE),
            )
        # New pieces get the next numbers.
        ids[np.repeat(failed, sizes(rows))] = np.where(other >= 0, other + len(cut.pieces), -1)
        words = cut.words.copy()
        words[failed[texts.rows]] = again.words + len(cut.pieces)
        return Alignment(ids, words, len(cut.pieces) + len(again.pieces))

    def _number(self, piece: str) -> int:
        number = self._numbers.get(piece)
        if number is None:
            number = self._numbers[piece] = len(self._numbers)
            ids = self._encoder.ids_alone(piece)
            self._ids.append(ids[~np.isin(ids, self._special)])
        return number

    def _words(self, texts: Texts) -> _Cut:
        """Cut texts into lead, word, gap, word, gap."""
        number = texts.vocabulary.column(self._number, np.int64)
        lengths = 2 * texts.lengths + 1
        places = np.arange(len(texts.words)) * 2 + texts.rows + 1
        pieces = np.empty(int(lengths.sum()), dtype=np.int64)
        pieces[2 * texts.starts[:-1] + np.arange(len(texts))] = number[texts.leads]
        pieces[places], pieces[places + 1] = number[texts.words], number[texts.gaps]
        return _Cut(pieces, lengths, places)

    def _chunks(self, texts: Texts) -> _Cut:
        """Cut texts before white space."""
        found = [_CHUNK.findall(string) for string in texts.strings()]
        flat = [chunk for chunks in found for chunk in chunks]
        lengths = np.array([len(chunks) for chunks in found], dtype=np.int64)
        # Words and chunks cover the same characters of all concatenated texts.
        ends = np.cumsum([len(chunk) for chunk in flat])
        places = np.searchsorted(ends, _begins(texts), side="right")
        return _Cut(np.array([self._number(chunk) for chunk in flat], dtype=np.int64), lengths, places)

    def _match(self, cut: _Cut, rows: Sequence[Row]) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the piece of each id, and which texts cannot be assembled from their pieces."""
        ids = np.concatenate([np.empty(0, dtype=np.int64), *(row.fields[0] for row in rows)])
        text = np.repeat(np.arange(len(rows)), sizes(rows))
        real = ~np.isin(ids, self._special)
        got = np.bincount(text[real], minlength=len(rows))
        expected, per_piece = self._ids.take(cut.pieces)
        owner = np.repeat(np.arange(len(cut.pieces)), per_piece)
        of_text = np.repeat(np.arange(len(rows)), cut.lengths)
        wanted = np.bincount(of_text, weights=per_piece, minlength=len(rows)).astype(np.int64)
        begin = np.cumsum(wanted) - wanted
        out, todo = np.full(len(ids), -1), got <= wanted
        # An encoder that truncates drops the end or the beginning.
        for skipped in (np.zeros_like(wanted), wanted - got):
            mine = np.flatnonzero(real & todo[text])
            at = ranges(begin + skipped, np.where(todo, got, 0))
            wrong = np.bincount(text[mine], weights=expected[at] != ids[mine], minlength=len(rows)) > 0
            fits = ~wrong[text[mine]]
            out[mine[fits]] = owner[at[fits]]
            todo &= wrong
        return out, todo | (got > wanted)


class _Ragged:
    """Arrays of different lengths, one after the other; grows."""

    def __init__(self) -> None:
        self._parts: list[Ints] = []
        self._flat, self._lengths = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def append(self, values: npt.NDArray[np.integer]) -> None:
        self._parts.append(values.astype(np.int64))

    def take(self, which: Ints) -> tuple[Ints, Ints]:
        """Return the members of some arrays, and how many each has."""
        if self._parts:
            self._flat = np.concatenate([self._flat, *self._parts])
            self._lengths = np.concatenate([self._lengths, [len(part) for part in self._parts]]).astype(np.int64)
            self._parts = []
        begins, lengths = np.cumsum(self._lengths) - self._lengths, self._lengths[which]
        return self._flat[ranges(begins[which], lengths)], lengths


def by_spans(texts: Texts, rows: Sequence[Row]) -> Alignment:
    """Align by the characters of ids: an id belongs to the word of its last character, otherwise of its first.

    >>> texts, spans = Texts.of(["to be"]), np.array([[0, 0], [0, 1], [1, 2], [2, 5]])
    >>> by_spans(texts, [Row((np.zeros(4, int),), spans)]).ids.tolist()
    [-1, 0, 0, 1]
    """
    spans = np.concatenate([np.empty((0, 2), dtype=np.int64), *(row.spans for row in rows if row.spans is not None)])
    begins = _begins(texts)
    lengths = texts.vocabulary.column(len, np.int64)
    ends = begins + lengths[texts.words]
    tokens = np.bincount(texts.rows, weights=lengths[texts.words] + lengths[texts.gaps], minlength=len(texts))
    characters = lengths[texts.leads] + tokens.astype(np.int64)
    offsets = np.repeat(np.cumsum(characters) - characters, sizes(rows))
    ids = np.full(len(spans), -1)
    for place in (spans[:, 0], spans[:, 1] - 1):
        character = offsets + place
        word = np.searchsorted(begins, character, side="right") - 1
        inside = (word >= 0) & (spans[:, 1] > spans[:, 0])
        inside[inside] = character[inside] < ends[word[inside]]
        ids[inside] = word[inside]
    return Alignment(ids, np.arange(len(texts.words)), len(texts.words))


def _begins(texts: Texts) -> Ints:
    """Return the position of the first character of each word in all concatenated texts."""
    lengths = texts.vocabulary.column(len, np.int64)
    tokens = lengths[texts.words] + lengths[texts.gaps]
    before = np.cumsum(tokens) - tokens
    leads = np.cumsum(lengths[texts.leads])
    out: Ints = before + leads[texts.rows]
    return out


Words: TypeAlias = tuple[list[str], Ints]
"""Words and their numbers."""
ATTRIBUTES = ("words", "vocab", "vocabulary", "word_index", "get_vocab", "get_vocabulary")
"""Attributes and methods of encoders that may hold their words."""
AT_ONCE = 4096
"""Words that are encoded at once."""
NO_WORD = "qzxjvwkq"
"""A word that no vocabulary has: its id is that of all unknown words."""


def words_of(encode: Any) -> Words | None:
    """Return the words of an encoder and their numbers, from an attribute of it or of its object; or None."""
    for owner in (encode, getattr(encode, "__self__", None)):
        for name in ATTRIBUTES:
            try:
                got = getattr(owner, name, None)
                found = numbered(got() if callable(got) else got)
            except Exception:  # If a user's object raises anything, it is not a vocabulary.
                continue
            if found is not None and found[0]:
                return found
    return None


def check_words(words: Any) -> Words:
    """Return the words that a user gives, and their numbers."""
    found = numbered(words)
    if found is None or not found[0]:
        raise ModelError(
            "must be the words of the rows of the embedding, or a mapping from words to rows",
            parameter="words",
            value=words,
            remedy="give them in order, None for rows without a word",
        )
    return found


def numbered(given: Any) -> Words | None:
    """Read words in order, or a mapping from words to numbers; None for anything else."""
    if isinstance(given, Mapping):
        pairs: Iterable[tuple[Any, Any]] = given.items()
    elif isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes):
        pairs = ((word, n) for n, word in enumerate(given))
    else:
        return None
    kept = [(str(word), n) for word, n in pairs if isinstance(word, str)]
    return [word for word, _ in kept], np.array([n for _, n in kept], dtype=np.int64).reshape(len(kept))


def known(words: list[str], numbers: Ints, ids: Ints) -> dict[str, int]:
    """Return the words whose id is their number plus a common shift, because other ids may come before words.

    >>> known(["good", "bad", "rare"], np.array([1, 2, 3]), np.array([4, 5, -1]))
    {'good': 4, 'bad': 5}
    """
    single = ids >= 0
    shifts, counts = np.unique((ids - numbers)[single], return_counts=True)
    if not len(shifts):
        return {}
    # Among equally common shifts, the smallest is the most likely.
    shift = shifts[np.lexsort((abs(shifts), -counts))[0]]
    return {words[i]: int(ids[i]) for i in np.flatnonzero(single & (ids - numbers == shift)).tolist()}


def single_ids(encoder: Encoder, words: list[str]) -> Ints:
    """Return the id of each word that is encoded as a single id; -1 for others."""
    if not words:
        return np.empty(0, dtype=np.int64)
    padding = encoder.padding([words[0], " ".join(4 * words[:1])])
    fillers = [*encoder.ids_alone(""), *([] if padding is None else padding.values[:1])]
    found = [_single_ids(encoder, words[i : i + AT_ONCE], fillers) for i in range(0, len(words), AT_ONCE)]
    ids = np.concatenate(found)
    (unknown,) = _single_id([encoder.ids_alone(NO_WORD)], fillers)
    ids[ids == unknown] = -1
    return ids


def _single_ids(encoder: Encoder, words: list[str], fillers: list[int]) -> Ints:
    """Encode words at once, or one by one if that fails or gives other ids."""
    try:
        together = _single_id(encoder.fields(words)[0], fillers)
        if together[0] == _single_id([encoder.ids_alone(words[0])], fillers)[0]:
            return together
    except Exception:  # Whatever it is, it is raised again for the word alone if a word causes it.
        pass
    return np.array([_single_id([encoder.ids_alone(word)], fillers)[0] for word in words], dtype=np.int64)


def _single_id(ids: Any, fillers: list[int]) -> Ints:
    """Return for each row the only id that is not padding; -1 if there are several or none."""
    ids = np.asarray(ids, dtype=np.int64)
    real = ~np.isin(ids, fillers)
    return np.where(real.sum(axis=1) == 1, (ids * real).sum(axis=1), -1)
