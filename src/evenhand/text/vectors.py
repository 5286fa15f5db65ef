"""Word vectors from what users have: arrays, NumPy files, text files of GloVe, word2vec and fastText, gensim."""

from __future__ import annotations

import io
import itertools
import lzma
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from evenhand._files import PACKINGS, check_array, check_limit, exceeded, open_archive, open_file, unpacked
from evenhand._files import limit as most_of
from evenhand.errors import DataError

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
    """Return words and their vectors; of a word that comes twice the first one. ``limit`` takes the first words only.

    >>> words, vectors = load((["man", "woman", "man"], [[1, 2], [3, 4], [5, 6]]))
    >>> words, vectors.tolist()
    (['man', 'woman'], [[1.0, 2.0], [3.0, 4.0]])
    """
    words, vectors, name = _read(source, limit)
    vectors = np.asarray(vectors)
    words, vectors = list(words)[:limit], vectors[:limit] if vectors.ndim else vectors
    if not all(isinstance(word, str) for word in words):
        got = next(word for word in words if not isinstance(word, str))
        raise DataError(f"{name}: words must be texts, got {got!r:.60}")
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not vectors.shape[1]:
        raise DataError(f"{name}: vectors must be a matrix of numbers, got {vectors.dtype} {vectors.shape}")
    if len(words) != len(vectors) or not words:
        raise DataError(f"{name}: {_UNEQUAL.format(len(words), len(vectors))}")
    with np.errstate(over="ignore"):  # What is too large is infinite then, and said.
        vectors = vectors.astype(np.float32)
    if not np.isfinite(vectors).all():
        worst = words[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]
        raise DataError(
            f"{name}: the vector of {worst!r:.60} has values that are no numbers, or too large; drop that word"
        )
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
        raise DataError(f"{path}: vectors cannot be read from a file of this kind; allowed: {_KINDS}")
    keyed = getattr(source, "wv", source)
    if hasattr(keyed, "index_to_key") and hasattr(keyed, "vectors"):
        return keyed.index_to_key, keyed.vectors, type(source).__name__
    if isinstance(source, tuple) and len(source) == 2:
        words, vectors = source
        # A torch parameter wants to be asked before it becomes an array.
        return words, vectors.detach().cpu().numpy() if hasattr(vectors, "detach") else vectors, "vectors"
    raise DataError(f"vectors must be {_KINDS}; got {type(source).__name__}")


def _npz(path: Path) -> tuple[list[str], npt.NDArray[Any]]:
    with (
        open_file(path, DataError) as file,
        open_archive(file, path, "a NumPy file", "archive_entries", "vectors_bytes", DataError) as archive,
    ):
        shapes = {}
        for name in ("words", "vectors"):
            if f"{name}.npy" not in archive.namelist():
                raise DataError(
                    f"{path}: the arrays 'words' and 'vectors' are needed; np.savez(path, words=..., vectors=...)"
                )
            size = archive.getinfo(f"{name}.npy").file_size
            with archive.open(f"{name}.npy") as stream:
                shapes[name], dtype = check_array(stream, size, f"{path}: {name}", DataError)
            if dtype.hasobject:
                raise DataError(f"{path}: {name!r} has Python objects, which are not read; save texts and numbers")
        if len(shapes["words"]) != 1:
            raise DataError(f"{path}: 'words' must be a list of texts, got an array of shape {shapes['words']}")
        _check_words(shapes["words"][0], path)
        check_limit("vectors_numbers", max(shapes["vectors"][1:], default=0), path)
        if shapes["vectors"] and shapes["vectors"][0] != shapes["words"][0]:
            raise DataError(f"{path}: {_UNEQUAL.format(shapes['words'][0], shapes['vectors'][0])}")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["words"].tolist(), arrays["vectors"]
    except (OSError, ValueError, BadZipFile, EOFError, KeyError) as error:
        raise DataError(f"{path}: cannot be read as a NumPy file ({error})") from None


def _text(path: Path, limit: int | None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read lines of a word and its numbers; word2vec and fastText put the two sizes into a line before them."""
    packed = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    try:
        with unpacked(path, packed, "vectors_bytes", DataError) as stream:
            return _lines(_split(stream, path), path, limit)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: it cannot be read as UTF-8 text ({error})") from None


def _split(stream: io.BufferedReader, path: Path) -> Iterator[str]:
    """Read line by line; one that is longer than any vector may be the whole file."""
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
    said = (int(header[0]), int(header[1])) if sizes else None
    width = len(header) - 1 if said is None else said[1]
    check_limit("vectors_numbers", width, path)
    lines = itertools.chain([first] if said is None and first else [], lines)
    words: list[str] = []
    blocks: list[npt.NDArray[Any]] = []
    lines = itertools.islice(lines, limit)
    while block := list(itertools.islice(lines, max(1, _BLOCK // max(width, 1)))):
        _check_words(len(words) + len(block), path, width)
        rows = [_row(line.rstrip(), width) for line in block]
        wrong = next((n for n, row in enumerate(rows) if len(row) != width + 1), None)
        if wrong is None and not words and said is not None and _numeric(rows[0][0].split()[1:]):
            wrong = 0
        if wrong is not None:
            why = "" if said is None else f"; its first line says {said[0]} words of {width} numbers each"
            got = (
                f"entry {len(words) + wrong + 1} must have a word and {width} numbers, got {block[wrong].strip()!r:.60}"
            )
            raise DataError(f"{path}: {got}{why}")
        words += [row[0] for row in rows]
        try:
            with np.errstate(over="ignore"):
                blocks.append(np.array([row[1:] for row in rows], dtype=np.float32))
        except ValueError as error:
            raise DataError(f"{path}: something is no number near entry {len(words)} ({error})") from None
    if said is not None and len(words) != (said[0] if limit is None else min(limit, said[0])):
        raise DataError(
            f"{path}: its first line says {said[0]:,} words, and there are {len(words):,}; is the file whole?\n"
            "Where it is, delete that line."
        )
    return words, np.concatenate(blocks) if blocks else np.empty((0, 1))


def _check_words(words: int, path: Path, width: int = 0) -> None:
    """Raise where there are too many words, or numbers in a text, for a file or at all."""
    size, remedy = path.stat().st_size, "give the most frequent ones"
    check_limit("vectors_words", words, path, remedy, min(most_of("vectors_words"), max(_FREE_WORDS, size)))
    most = max(most_of("vectors_values"), _PER_BYTE * size)
    check_limit("vectors_values", words * width, path, remedy, most)


def _row(line: str, width: int) -> list[str]:
    """Cut a line into a word and its numbers, counted from the end: a word may itself have spaces, or be one."""
    row = line.rsplit(None, width)
    return row if len(row) == width + 1 else line.rsplit(" ", width)


def _numeric(parts: list[str]) -> bool:
    try:
        return bool(list(map(float, parts)))
    except ValueError:
        return False
