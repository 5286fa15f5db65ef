"""Similar words, the moves of a text: the nearest by cosine of word vectors, looked up once per word."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import lzma
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from evenhand._files import PACKINGS, check_array, check_limit, exceeded, open_archive, open_file, unpacked
from evenhand._files import limit as most_of
from evenhand._validate import check_int
from evenhand.errors import DataError, SpaceError
from evenhand.spaces.text.lexicon import protected_words
from evenhand.spaces.text.matcher import BE, DEFINITE, FUNCTION, PLURAL, SINGULAR
from evenhand.spaces.text.tokens import Ids, Positions, Vocabulary, split

Vectors = npt.NDArray[np.float32]
_TEXT = (".txt", ".vec", ".gz", ".xz")
_KINDS = "a .npz with 'words' and 'vectors', a text file (.txt, .vec, also .gz, .xz), (words, matrix), gensim vectors"
_BLOCK = 2**20
"""Numbers that are read at a time."""
_DIGITS = 64
"""Bytes of a number, more than any has; a line's word takes from the same."""
_FREE_WORDS = 100_000
_PER_BYTE = 2
"""Numbers in a text for each byte of its file; those that are packed well take more than a byte each."""
_UNEQUAL = "there must be one vector for each word, got {} words, {} vectors"
_LONGEST = 18
"""Digits of a count; a longer one is none."""


def load(source: Any, limit: int | None = None) -> tuple[list[str], Vectors]:
    """Return words and their vectors, of the first ``limit`` words; of a repeated word the first one counts."""
    words, vectors, name = _read(source, limit)
    vectors = np.asarray(vectors)
    words, vectors = list(words)[:limit], vectors[:limit] if vectors.ndim else vectors
    if not all(isinstance(word, str) for word in words):
        got = next(word for word in words if not isinstance(word, str))
        raise DataError("must be texts", parameter=f"{name}: words", value=got)
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise DataError(
            f"must be a matrix of numbers, got {vectors.dtype} {vectors.shape}", parameter=f"{name}: vectors"
        )
    if len(words) != len(vectors) or not words:
        raise DataError(
            f"{name}: {_UNEQUAL.format(len(words), len(vectors))}", remedy="leave out words without a vector"
        )
    with np.errstate(over="ignore"):  # Numbers that are too large become infinite and are rejected below.
        vectors = vectors.astype(np.float32)
    if not np.isfinite(vectors).all():
        worst = words[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]
        raise DataError(f"{name}: the vector of {worst!r:.60} must have finite numbers", remedy="drop that word")
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        first.setdefault(word, number)
    return list(first), vectors[list(first.values())]


def _read(source: Any, limit: int | None) -> tuple[Sequence[str], Any, str]:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() == ".npz":
            return *_npz(path), str(path)
        if path.suffix.lower() in _TEXT:
            return *_text(path, limit), str(path)
        raise DataError(f"{path}: vectors cannot be read from a file of this kind", remedy=f"allowed: {_KINDS}")
    keyed = getattr(source, "wv", source)
    if hasattr(keyed, "index_to_key") and hasattr(keyed, "vectors"):
        return keyed.index_to_key, keyed.vectors, type(source).__name__
    if isinstance(source, tuple) and len(source) == 2:
        words, vectors = source
        # A torch parameter must be detached before it becomes an array.
        return words, vectors.detach().cpu().numpy() if hasattr(vectors, "detach") else vectors, "vectors"
    raise DataError(f"must be {_KINDS}", parameter="vectors", value=type(source).__name__)


def _npz(path: Path) -> tuple[list[str], npt.NDArray[Any]]:
    with (
        open_file(path, DataError) as file,
        open_archive(file, path, "a NumPy file", "archive_entries", "vectors_bytes", DataError) as archive,
    ):
        shapes = {}
        for name in ("words", "vectors"):
            if f"{name}.npy" not in archive.namelist():
                remedy = "np.savez(path, words=..., vectors=...) writes them"
                raise DataError(f"{path}: the arrays 'words' and 'vectors' are needed", remedy=remedy)
            size = archive.getinfo(f"{name}.npy").file_size
            with archive.open(f"{name}.npy") as stream:
                shapes[name], dtype = check_array(stream, size, f"{path}: {name}", DataError)
            if dtype.hasobject:
                raise DataError(f"{path}: {name!r} has Python objects", remedy="save texts and numbers")
        if len(shapes["words"]) != 1:
            raise DataError(
                f"{path}: 'words' must be a list of texts, got an array of shape {shapes['words']}",
                remedy="store one word per vector",
            )
        _check_words(shapes["words"][0], path)
        check_limit("vectors_numbers", max(shapes["vectors"][1:], default=0), path)
        if shapes["vectors"] and shapes["vectors"][0] != shapes["words"][0]:
            problem = _UNEQUAL.format(shapes["words"][0], shapes["vectors"][0])
            raise DataError(f"{path}: {problem}", remedy="leave out words without a vector")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["words"].tolist(), arrays["vectors"]
    except (OSError, ValueError, BadZipFile, EOFError, KeyError) as error:
        raise DataError(
            f"{path}: cannot be read as a NumPy file ({error})", remedy="write it with numpy.savez"
        ) from None


def _text(path: Path, limit: int | None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read lines of a word and its numbers; word2vec and fastText put the two sizes into a line before them."""
    packed = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    try:
        with unpacked(path, packed, "vectors_bytes", DataError) as stream:
            return _lines(_split(stream, path), path, limit)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as UTF-8 text ({error})", remedy="save it as UTF-8") from None


def _split(stream: io.BufferedReader, path: Path) -> Iterator[str]:
    """Read line by line, none longer than the longest vector."""
    longest = _DIGITS * most_of("vectors_numbers")
    first = True
    while line := stream.readline(longest + 1):
        if len(line) > longest:
            raise exceeded("vectors_numbers", f"a line of more than {longest:,} bytes", path)
        yield line.decode("utf-8-sig" if first else "utf-8")
        first = False


def _lines(lines: Iterator[str], path: Path, limit: int | None) -> tuple[list[str], npt.NDArray[Any]]:
    lines = (line for line in lines if line.strip())
    first = next(lines, "")
    header = first.split()
    sizes = len(header) == 2 and all(part.isdecimal() and len(part) <= _LONGEST for part in header)
    header_sizes = (int(header[0]), int(header[1])) if sizes else None
    width = len(header) - 1 if header_sizes is None else header_sizes[1]
    check_limit("vectors_numbers", width, path)
    lines = itertools.chain([first] if header_sizes is None and first else [], lines)
    words: list[str] = []
    blocks: list[npt.NDArray[Any]] = []
    lines = itertools.islice(lines, limit)
    while block := list(itertools.islice(lines, max(1, _BLOCK // max(width, 1)))):
        _check_words(len(words) + len(block), path, width)
        rows = [_row(line.rstrip(), width) for line in block]
        wrong = next((n for n, row in enumerate(rows) if len(row) != width + 1), None)
        if wrong is None and not words and header_sizes is not None and _numeric(rows[0][0].split()[1:]):
            wrong = 0
        if wrong is not None:
            why = (
                ""
                if header_sizes is None
                else f" (the first line promises {header_sizes[0]} words of {width} numbers each)"
            )
            entry, got = len(words) + wrong + 1, block[wrong].strip()
            raise DataError(
                f"{path}: entry {entry} must have a word and {width} numbers{why}, got {got!r:.60}",
                remedy="write each word with its vector in one line",
            )
        words += [row[0] for row in rows]
        try:
            with np.errstate(over="ignore"):
                blocks.append(np.array([row[1:] for row in rows], dtype=np.float32))
        except ValueError as error:
            problem = f"{path}: an entry near {len(words)} has a value that is not a number ({error})"
            raise DataError(problem, remedy="correct it, or leave the word out") from None
    if header_sizes is not None and len(words) != (header_sizes[0] if limit is None else min(limit, header_sizes[0])):
        problem = f"{path}: the first line promises {header_sizes[0]:,} words, and there are {len(words):,}"
        raise DataError(problem, remedy="if the file is complete, delete that line")
    return words, np.concatenate(blocks) if blocks else np.empty((0, 1))


def _check_words(words: int, path: Path, width: int = 0) -> None:
    """Raise if there are too many words, or numbers in a text, in relation to the file or absolutely."""
    size, remedy = path.stat().st_size, "give the most frequent ones"
    check_limit("vectors_words", words, path, remedy, min(most_of("vectors_words"), max(_FREE_WORDS, size)))
    most = max(most_of("vectors_values"), _PER_BYTE * size)
    check_limit("vectors_values", words * width, path, remedy, most)


def _row(line: str, width: int) -> list[str]:
    """Split a line into a word and its numbers, counted from the end: a word may have spaces, or be one."""
    row = line.rsplit(None, width)
    return row if len(row) == width + 1 else line.rsplit(" ", width)


def _numeric(parts: list[str]) -> bool:
    try:
        return bool(list(map(float, parts)))
    except ValueError:
        return False


_CLOSED = (SINGULAR | PLURAL | DEFINITE, BE, FUNCTION)
_ENDINGS = {"ing": 4, "ed": 5, "ly": 6, "ss": 8, "us": 8, "is": 8, "s": 7}
_NUMBER, _OTHER = 3, 8
_SPARE = 16
_ROUNDING = 1e-5
_CELLS = 2**24
_GROUP = 64


def shape(word: str) -> int:
    """Return a word's class as shown by its spelling, so that similar words can agree with the words they replace.

    Determiners, forms of "be" and other function words are closed classes; numbers are a class; all other words are
    classified by their ending: -ing, -ed, -ly, -s (but not -ss, -us, -is), or none of these.
    """
    lower = word.lower()
    for number, words in enumerate(_CLOSED):
        if lower in words:
            return number
    if lower[:1].isdigit():
        return _NUMBER
    return next((number for ending, number in _ENDINGS.items() if lower.endswith(ending)), _OTHER)


class Similar:
    """The ``k`` most similar words of each word.

    Equally similar words come in the order of the vocabulary, and results do not depend on how many words are looked
    up at once. Terms of lexicons never replace a word and are never replaced, so that a free change never swaps an
    identity. Of words that differ in their case only, the first is the similar word.

    Parameters
    ----------
    source
        Words with their vectors: a pair (words, matrix), a ``.npz`` with ``words`` and ``vectors``, a text file of
        GloVe, word2vec or fastText, or gensim's keyed vectors.
    k
        How many similar words.
    limit
        Take the first words of the source only; files have the most frequent ones first.
    avoid
        Words that never replace another and are never replaced; None: every term of the built-in lexicons. The paper
        has no such rule: ``avoid=()``.
    agree
        Whether similar words must have the same ``shape``.

    Examples
    --------
    >>> vectors = [[1, 0], [1, 0.1], [1, 0], [-1, 0]]
    >>> similar = Similar((["good", "fine", "Muslim", "bad"], vectors), k=1)
    >>> similar.of("good"), similar.of("Muslim"), similar.of("unheard-of")
    (['fine'], [], [])
    """

    def __init__(
        self,
        source: Any,
        k: int = 10,
        *,
        limit: int | None = None,
        avoid: Collection[str] | None = None,
        agree: bool = False,
    ) -> None:
        check_int("limit", 1 if limit is None else limit, SpaceError, 1)
        if isinstance(avoid, str):
            remedy = f"write [{avoid!r:.60}]"
            raise SpaceError("must be a collection of words", parameter="avoid", value=avoid, remedy=remedy)
        self.k, self.agree = check_int("k", k, SpaceError, 1), agree
        self.avoid = protected_words() if avoid is None else frozenset(word.lower() for word in avoid)
        self.words, self.vectors = load(source, limit)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        self._norms = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64))
        self._units = self.vectors / np.where(self._norms > 0, self._norms, 1)[:, None].astype(np.float32)
        self._shapes = np.array([shape(word) if agree else 0 for word in self.words], dtype=np.int8)
        self._pool, self._twin = self._candidates()
        self._table = np.full((len(self.words), self.k), -1, dtype=np.int32)
        self._known = self._norms == 0

    @cached_property
    def digest(self) -> str:
        """Identify everything that the similar words depend on."""
        digest = hashlib.sha256(np.ascontiguousarray(self.vectors).tobytes())
        settings = [self.k, self.agree, sorted(self.avoid), self.words]
        digest.update(json.dumps(settings).encode())
        return digest.hexdigest()

    def of(self, word: str) -> list[str]:
        """Return the similar words of one word, the most similar first."""
        number = self.number(word)
        return [self.words[n] for n in self.rows(np.array([number]))[0] if n >= 0] if number >= 0 else []

    def number(self, word: str) -> int:
        """Return the number of a word among the vectors, as written or in lower case; -1 if it has none."""
        lower = word.lower()
        return -1 if lower in self.avoid else self._numbers.get(word, self._numbers.get(lower, -1))

    def rows(self, numbers: npt.NDArray[np.integer[Any]]) -> Ids:
        """Return the numbers of the similar words of each word; -1 if there are fewer than ``k``."""
        fresh = np.unique(numbers[~self._known[numbers]])
        for kind in np.unique(self._shapes[fresh]):
            rows, pool = fresh[self._shapes[fresh] == kind], self._pool[self._shapes[self._pool] == kind]
            step = max(1, _CELLS // max(1, len(pool)))
            for begin in range(0, len(rows) if len(pool) else 0, step):
                part = rows[begin : begin + step]
                found = self._nearest(part, pool)
                self._table[part, : found.shape[1]] = found
        self._known[fresh] = True
        out: Ids = self._table[numbers]
        return out

    def _candidates(self) -> tuple[Positions, Positions]:
        """List the words that may replace others, and for each word the one that differs in case only."""
        chosen: dict[str, int] = {}
        for number, word in enumerate(self.words):
            lower = word.lower()
            # A replacement of several words would shift the positions of all words behind it.
            taken = lower in self.avoid or lower in chosen
            if self._norms[number] and not taken and split(word)[0::2] == ["", ""]:
                chosen[lower] = number
        twins = [chosen.get(word.lower(), -1) for word in self.words]
        return np.fromiter(chosen.values(), dtype=np.int64), np.array(twins)

    def _nearest(self, rows: Positions, pool: Positions) -> Ids:
        """Find the most similar words of a pool, by single-precision products first, then exactly among the best."""
        cosines = np.full((len(rows), -(-len(pool) // _GROUP) * _GROUP), -np.inf, dtype=np.float32)
        cosines[:, : len(pool)] = self._units[rows] @ self._units[pool].T
        pool = np.pad(pool, (0, cosines.shape[1] - len(pool)), mode="edge")
        place = np.searchsorted(pool, self._twin[rows])
        own = np.flatnonzero(pool.take(place, mode="clip") == self._twin[rows])
        cosines[own, place[own]] = -np.inf
        best = np.sort(_largest(cosines, self.k + _SPARE), axis=1)
        best, exact = self._ranked(rows, pool, best, cosines)
        if best.shape[1] < cosines.shape[1]:
            # If the spare words are as good as the last chosen one, words outside may be as well.
            least = np.take_along_axis(cosines, best, axis=1).min(axis=1)
            for i in np.flatnonzero(exact[:, self.k - 1] <= least + _ROUNDING):
                wide = np.flatnonzero(cosines[i] >= exact[i, self.k - 1] - _ROUNDING)[None, :]
                best[i, : self.k] = self._ranked(rows[i : i + 1], pool, wide, cosines[i : i + 1])[0][0, : self.k]
        best = best[:, : self.k]
        return np.where(np.isfinite(np.take_along_axis(cosines, best, axis=1)), pool[best], -1).astype(np.int32)

    def _ranked(
        self, rows: Positions, pool: Positions, best: Positions, cosines: npt.NDArray[np.float32]
    ) -> tuple[Positions, npt.NDArray[np.float64]]:
        """Order positions of the pool by exact cosine; ties keep their order."""
        # Products of single precision are exact in double, and each is summed alone: no result depends on the block.
        products = self.vectors[rows, None].astype(np.float64) * self.vectors[pool[best]]
        exact = products.sum(axis=2) / (self._norms[rows, None] * self._norms[pool[best]])
        exact[~np.isfinite(np.take_along_axis(cosines, best, axis=1))] = -np.inf
        order = np.argsort(-exact, axis=1, kind="stable")
        return np.take_along_axis(best, order, axis=1), np.take_along_axis(exact, order, axis=1)


def _largest(values: npt.NDArray[np.float32], count: int) -> Positions:
    """Return where the largest values of each row are, in no order; only groups with a large value are searched."""
    rows, width = values.shape
    if count >= width:
        return np.tile(np.arange(width), (rows, 1))
    groups = values.reshape(rows, -1, _GROUP).max(axis=2)
    few = min(count, groups.shape[1])
    top = np.argpartition(groups, -few, axis=1)[:, -few:]
    columns = (top[:, :, None] * _GROUP + np.arange(_GROUP)).reshape(rows, -1)
    best = np.argpartition(np.take_along_axis(values, columns, axis=1), -count, axis=1)[:, -count:]
    return np.take_along_axis(columns, best, axis=1)


class Moves:
    """Similar words as numbers of the texts' vocabulary, in the case of the words that they replace.

    Words that are ``fixed`` are not replaced and replace none.

    >>> vocabulary = Vocabulary()
    >>> moves = Moves(Similar((["good", "fine", "bad"], [[1, 0], [1, 0.1], [-1, 0]]), k=2), vocabulary)
    >>> similar = moves.of(vocabulary.ids(["GOOD"]))
    >>> vocabulary.words[similar].tolist()
    [['FINE', 'BAD']]
    """

    def __init__(self, similar: Similar, vocabulary: Vocabulary, fixed: Callable[[str], bool] | None = None) -> None:
        self.similar, self.vocabulary, self._fixed = similar, vocabulary, fixed
        self._table = np.empty((0, similar.k), dtype=np.int32)
        self._known = np.empty(0, dtype=bool)

    def of(self, ids: npt.NDArray[np.integer[Any]]) -> Ids:
        """Return the similar words of words, one row each; -1 if there are fewer than ``k``."""
        grown = len(self.vocabulary) - len(self._known)
        if grown:
            self._table = np.concatenate([self._table, np.full((grown, self.similar.k), -1, dtype=np.int32)])
            self._known = np.concatenate([self._known, np.zeros(grown, dtype=bool)])
        fresh = np.unique(ids[~self._known[ids]])
        if len(fresh):
            self._fill(fresh)
        out: Ids = self._table[ids]
        return out

    def counts(self, ids: npt.NDArray[np.integer[Any]]) -> Positions:
        """Count the similar words of words; they are the first in their row."""
        out: Positions = (self.of(ids) >= 0).sum(axis=1)
        return out

    def _fill(self, ids: Ids) -> None:
        self._known[ids] = True
        numbers = self.vocabulary.column(self._number, np.int64)[ids]
        ids, rows = ids[numbers >= 0], self._free(self.similar.rows(numbers[numbers >= 0]))
        cases = np.broadcast_to(self.vocabulary.cases[ids, None], rows.shape)[rows >= 0]
        words = self.vocabulary.ids([self.similar.words[n] for n in rows[rows >= 0]])
        found = np.full(rows.shape, -1, dtype=np.int32)
        found[rows >= 0] = self.vocabulary.written(words, cases)
        self._table[ids] = found

    def _number(self, word: str) -> int:
        return -1 if self._fixed is not None and self._fixed(word) else self.similar.number(word)

    def _free(self, rows: Ids) -> Ids:
        """Remove fixed words; the rest moves up."""
        if self._fixed is None:
            return rows
        fixed = [number for number in np.unique(rows[rows >= 0]).tolist() if self._fixed(self.similar.words[number])]
        rows = np.where(np.isin(rows, fixed), -1, rows)
        return np.take_along_axis(rows, np.argsort(rows < 0, axis=1, kind="stable"), axis=1)
