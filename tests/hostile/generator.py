"""Makes hostile files: each small on the disk, or a hole, or no file at all, and made to cost time or memory.

Files that would run code write a canary instead: nothing may ever create it.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import lzma
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from evenhand.engine.store import _HEAD, MAGIC, Frame, _checksum, pack

BOMB = 2**28
"""Bytes to which bombs unpack; what is refused at this size is refused at any larger one."""
HOLE = 3 * 2**30
CANARY = "canary"
SEX = '[[attribute]]\nname = "sex"\nkind = "boolean"\n'


@dataclass(frozen=True)
class Hostile:
    """A hostile file: what it is, how it is read, and what the refusal must say."""

    kind: str
    name: str
    make: Callable[[Path], Any]
    says: str
    """The limit's name, or words of the reason where the file breaks no limit but claims what is not so."""
    needs: tuple[str, ...] = ()
    """Packages without which there is no such file."""

    @property
    def title(self) -> str:
        """The name of its folder and its test."""
        return f"{self.kind}: {self.name}"

    def write(self, folder: Path) -> Path:
        """Make the file in a folder; return what is to be opened."""
        folder.mkdir(parents=True)
        target = folder / NAMES.get(self.kind, self.kind)
        made = self.make(target)
        return made if isinstance(made, Path) else target


NAMES = {
    "space": "space.toml", "config": "evenhand.toml", "lexicon": "team.toml", "csv": "rows.csv", "json": "rows.json",
    "jsonl": "rows.jsonl", "parquet": "rows.parquet", "texts": "texts.txt", "vectors": "vectors.npz",
    "skops": "model.skops", "onnx": "model.onnx", "pickle": "model.pkl", "folder": "classifier", "run": "run",
    "bundle": "run.zip", "cases": "cases",
}  # fmt: skip
"""What the file of each kind is called."""


# What is not a file, or a hole --------------------------------------------------------------------------------------


def device(path: Path) -> None:
    """Link to a file without an end."""
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    """Make a pipe without a writer."""
    os.mkfifo(path)


def directory(path: Path) -> None:
    """Make a folder."""
    path.mkdir()


def hole(path: Path, size: int = HOLE, start: bytes = b"") -> None:
    """Make a file of zeros that takes no room."""
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def nul(path: Path) -> Path:
    """Name a file that no system can have."""
    return path.with_name("a\0" + path.name)


def text(content: str) -> Callable[[Path], None]:
    """Make a file of text."""
    return lambda path: path.write_text(content, "utf-8")  # type: ignore[return-value]


def named(ending: str, make: Callable[[Path], Any]) -> Callable[[Path], Path]:
    """Make a file with another ending."""

    def write(path: Path) -> Path:
        other = path.with_name(path.name.partition(".")[0] + ending)
        made = make(other)
        return made if isinstance(made, Path) else other

    return write


def packed(piece: bytes, total: int = BOMB, start: bytes = b"") -> Callable[[Path], None]:
    """Make a packed file that unpacks to very much."""

    def write(path: Path) -> None:
        opened = lzma.open(path, "wb", preset=0) if path.suffix == ".xz" else gzip.open(path, "wb", 1)
        block = piece * (2**20 // len(piece))
        with opened as file:
            file.write(start)
            for _ in range(total // len(block)):
                file.write(block)

    return write


# TOML ---------------------------------------------------------------------------------------------------------------


def constrained(*constraints: str, high: int = 9) -> Callable[[Path], None]:
    """Make a space's file with constraints on three attributes."""
    age = f'[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = {high}\n'
    free = '[[attribute]]\nname = "paid"\nkind = "boolean"\n'
    return text(f'protected = ["sex"]\nconstraints = {json.dumps(constraints)}\n' + age + free + SEX)


def cast(dtype: str) -> Callable[[Path], None]:
    """Make a space's file whose column has a dtype."""
    low = '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 900\n'
    return text(f'protected = ["sex"]\n{SEX}{low}dtype = {json.dumps(dtype)}\n')


def alike(path: Path) -> None:
    """Make a space whose names are long, and all alike."""
    letters = np.random.default_rng(0).integers(0x4E00, 0x4E00 + 5_000, (4, 60_000))
    names = ["".join(map(chr, row)) for row in letters.tolist()]
    attributes = ",".join(f'{{name="{name}",kind="boolean"}}' for name in names[1:])
    path.write_text(f'protected=["{names[0]}"]\nattribute=[{attributes}]', "utf-8")


DOTS = ".".join(["a"] * 100_000)
TOMLS: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a dotted key of 100,000 parts", text(f"{DOTS} = 1"), "toml_key_parts"),
    ("a dotted header of 100,000 parts", text(f"[{DOTS}]"), "toml_key_parts"),
    ("a dotted key in a table in line", text(f"a = {{{DOTS} = 1}}"), "toml_key_parts"),
    ("a dotted key in quotes", text('"a".' * 50_000 + '"b" = 1'), "toml_key_parts"),
    ("a dotted key with spaces", text("a . " * 50_000 + "b = 1"), "toml_key_parts"),
    ("a dotted key behind a text with four quotes", text('a={x="""y"""",' + DOTS + "=1}"), "toml_key_parts"),
    ("a list of 16 MB", text("a = [" + "1," * 2**23 + "]"), "toml_bytes"),
    ("a list of 400,000 values", text("a = [" + "1," * 400_000 + "]"), "toml_values"),
    ("40,000 keys of 8 parts", text("".join(f"k{n:x}.a.a.a.a.a.a.a=1\n" for n in range(40_000))), "toml_values"),
    ("40,000 headers of 8 parts", text("".join(f"[k{n:x}.a.a.a.a.a.a.a]\n" for n in range(40_000))), "toml_values"),
    ("200,000 headers", text("".join(f"[{n:x}]\n" for n in range(200_000))), "toml_values"),
    ("lists in lists", text("a = " + "[" * 10_000 + "]" * 10_000), "nesting"),
    ("tables in tables", text("a = " + "{a=" * 10_000 + "1" + "}" * 10_000), "nesting"),
    ("lists that never end", text("a = " + "[" * 100_000), "nesting"),
    ("a number of a million digits", text("a = " + "1" * 1_000_000), "not valid TOML"),
    ("a text that never ends", text('a = """' + '\\"' * 900_000), "not valid TOML"),
    ("bytes that are no text", lambda path: path.write_bytes(os.urandom(2**16) + b"\xff"), "not UTF-8"),
    ("a device", device, "device"),
    ("a pipe", pipe, "device"),
    ("a hole", hole, "toml_bytes"),
]
SPACES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("a folder", directory, "directory"),
    ("NUL in the path", nul, "check the path"),
    ("100,000 constraints", constrained(*["age > 1"] * 100_000), "constraints"),
    ("3,000 implications", constrained(*["paid implies age > 1"] * 3_000), "constraints"),
    ("an implication of 700", constrained(" implies ".join(["paid"] * 700)), "cannot be read|deep|syntax error"),
    ("long constraints", constrained(*[" and ".join(["age > 1"] * 800)] * 50), "constraint_characters"),
    ("constraints on many values", constrained(*["age > 1"] * 1_000, high=4_000_000), "constraint_work"),
    ("one constraint on many values", constrained(" or ".join(f"age == {n}" for n in range(700)), high=4_000_000),
     "constraint_work"),
    ("brackets in a constraint", constrained("(" * 4_000 + "paid" + ")" * 4_000), "constraint"),
    ("30,000 attributes", text(
        "attribute = [" + "".join(f'{{name="a{n}",kind="boolean"}},' for n in range(30_000)) + "]"),
     "space_attributes"),
    ("counterparts without number", text(
        'protected = ["age"]\nmax_family_size = 1000000000000\n[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\n'
        "high = 2000000000\n" + SEX), "space_counterparts"),
    ("links of many values", text(
        'protected = ["age"]\nmax_family_size = 1000000\n'
        '[[attribute]]\nname = "age"\nkind = "integer"\nlow = 0\nhigh = 900000\n'
        '[[attribute]]\nname = "pay"\nkind = "integer"\nlow = 0\nhigh = 2000000000\n[links.age.pay.1]\n2 = 3\n'),
     "link_cells"),
    ("values that come twice", text(
        'attribute = [{name="a",kind="nominal",values=[' + ",".join(f"1.{'0' * (n % 7)}{n}" for n in range(100_000))
        + "]}]"), "list each value once"),
    ("attributes that come twice", text(
        'protected="a0"\nattribute=[' + ",".join(f'{{name="a{n // 2}",kind="boolean"}}' for n in range(19_000)) + "]"),
     "must have different names"),
    ("long names that are alike", lambda path: alike(path), "no attribute"),
    ("a column of texts of 2 GB", cast("S2000000000"), "dtype"),
    ("a column of bytes of 2 GB", cast("V2000000000"), "dtype"),
    ("a column of 50,000 fields", cast("i4," * 50_000 + "i4"), "dtype"),
    ("a column of intervals", cast("interval[int64]"), "dtype"),
    ("a column of whole numbers that are too large for it", cast("int8"), "dtype"),
]  # fmt: skip


def table_of(forms: int, rows: int) -> Callable[[Path], None]:
    """Make a lexicon of many forms and identities, with a term for each identity."""
    named = ",".join(f'{{name="f{n}"}}' for n in range(forms))
    return text(f"forms=[{named}]\nterms=[" + ",".join(f'["a{n}"]' for n in range(rows)) + "]")


LEXICONS: list[tuple[str, Callable[[Path], Any], str]] = [
    ("20,000 forms of 20,000 identities", table_of(20_000, 20_000), "lexicon_cells"),
    ("40,000 forms of one identity", table_of(40_000, 1), "nothing can be swapped"),
    ("30,000 forms with a term each", text(
        "identities=[" + ",".join(f'"i{n}"' for n in range(30_000)) + "]\n[[forms]]\nterms=["
        + ",".join(f'["a{n}"]' for n in range(30_000)) + "]"), "lexicon_cells"),
    ("60,000 ways to write a term", text(
        'ambiguous=["c"]\nterms=["b",[[' + ",".join(f'"a{n:x} person"' for n in range(60_000)) + "]]]"),
     "not a term"),
]  # fmt: skip


# Tables and texts ---------------------------------------------------------------------------------------------------


def columns(path: Path) -> None:
    """Make a table of a million columns."""
    header = ",".join(f"c{n}" for n in range(1_000_000))
    path.write_text(f"{header}\n" + ",".join(["1"] * 1_000_000) + "\n")


def ragged(path: Path) -> None:
    """Make a table of 19,000 columns whose rows have one cell."""
    path.write_text(",".join(f"c{n}" for n in range(19_000)) + "\n" + "1\n" * 20_000)


def distinct(path: Path) -> None:
    """Make rows that each have names of their own."""
    rows = [{f"c{n}": 1} for n in range(15_000)]
    path.write_text("\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows))


def other_index(path: Path) -> None:
    """Make columns that each have rows of their own."""
    path.write_text(json.dumps({f"c{n}": {str(n): 1} for n in range(15_000)}))


def members(path: Path) -> None:
    """Make a packed file of very many empty ones."""
    path.write_bytes(gzip.compress(b"") * 50_000)


def parquet(rows: int, groups: int, width: int = 1, value: Any = 1) -> Callable[[Path], None]:
    """Make a Parquet file of equal values, of which each is stored once."""

    def write(path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet as pq

        if isinstance(value, str):
            each = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([value]))
        else:
            each = pa.array(np.full(rows, value, dtype=np.int8))
        table = pa.table({f"c{n}": each for n in range(width)})
        with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
            for _ in range(groups):
                writer.write_table(table, row_group_size=rows)

    return write


def lying_parquet(path: Path) -> None:
    """Make a Parquet file that says that its description is of gigabytes."""
    parquet(10, 1)(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + struct.pack("<I", 2**32 - 1) + b"PAR1")


ARROW = ("pyarrow",)
TABLES = [
    Hostile("csv", "a million columns", columns, "table_columns"),
    Hostile("csv", "packed spaces (.gz)", named(".csv.gz", packed(b" ", start=b"a\n")), "unpack_ratio"),
    Hostile("csv", "packed rows (.gz)", named(".csv.gz", packed(b"1,2\n", start=b"a,b\n")), "table_cells|unpack_ratio"),
    Hostile("csv", "packed rows (.xz)", named(".csv.xz", packed(b"1,2\n", start=b"a,b\n")), "unpack_ratio"),
    Hostile(
        "csv", "packed tabs (.tsv.gz)", named(".tsv.gz", packed(b"1\t2\n", start=b"a\tb\n")), "table_cells|unpack_ratio"
    ),
    Hostile("csv", "packed commas", named(".csv.gz", packed(b",,,,\n", 13 * 2**20, b"a,b,c,d,e\n")), "table_cells"),
    Hostile("csv", "packed zeros", named(".csv.gz", packed(b"\0")), "binary"),
    Hostile("csv", "50,000 packed files in one", named(".csv.gz", members), "empty"),
    Hostile("csv", "rows that end as of old", named(".csv.gz", packed(b"1\r", 25 * 2**21, b"a\r")), "table_cells"),
    Hostile("csv", "a wide header over short rows", ragged, "table_cells"),
    Hostile("csv", "a packed quote that never ends", named(".csv.gz", packed(b"a", 2**23, b'a\n"')), "cannot be read"),
    Hostile("csv", "a hole", hole, "binary"),
    Hostile("csv", "a hole behind a table", lambda path: hole(path, start=b"a,b\n" + b"1,2\n" * 2**18), "binary"),
    Hostile("csv", "a hole that is too large", lambda path: hole(path, 2**40), "data_bytes"),
    Hostile("csv", "a device", device, "device"),
    Hostile("csv", "a pipe", pipe, "device"),
    Hostile("csv", "NUL in the path", nul, "check the path"),
    Hostile("json", "lists in lists", text("[" * 200_000 + "]" * 200_000), "nesting"),
    Hostile("json", "objects in objects", text('{"a":' * 100_000), "nesting"),
    Hostile("json", "six million lists", text("[" + "[]," * 6_000_000 + "[]]"), "json_values"),
    Hostile("json", "12 million texts", text("[" + '"",' * 12_000_000 + '""]'), "json_values"),
    Hostile("json", "rows with names of their own", distinct, "table_cells"),
    Hostile("json", "columns with rows of their own", other_index, "table_cells"),
    Hostile("json", "a hole", hole, "json_bytes"),
    Hostile("json", "a device", device, "device"),
    Hostile("jsonl", "lists in lists", text('{"a": 1}\n{"a": ' + "[" * 100_000), "nesting"),
    Hostile("jsonl", "six million lists", text(('{"a": [' + "[]," * 60_000 + "1]}\n") * 100), "json_values"),
    Hostile("jsonl", "rows with names of their own", distinct, "table_cells"),
    Hostile("jsonl", "a line without an end", hole, "json_bytes"),
    Hostile("jsonl", "a device", device, "device"),
    Hostile("parquet", "25 million rows", parquet(1_000_000, 25), "table_rows", ARROW),
    Hostile("parquet", "20 million cells", parquet(200_000, 1, 100), "table_cells", ARROW),
    Hostile("parquet", "30,000 columns", parquet(1, 1, 30_000), "table_columns", ARROW),
    Hostile("parquet", "one text of a megabyte 5,000 times", parquet(5_000, 1, 1, "a" * 2**20), "trial_bytes", ARROW),
    Hostile("parquet", "a description of 4 GB", lying_parquet, "cannot be read", ARROW),
    Hostile("parquet", "a hole", hole, "cannot be read", ARROW),
    Hostile("parquet", "a device", device, "device", ARROW),
    Hostile("texts", "packed letters (.gz)", named(".txt.gz", packed(b"a")), "unpack_ratio"),
    Hostile("texts", "packed lines (.xz)", named(".txt.xz", packed(b"a\n")), "unpack_ratio"),
    Hostile("texts", "25 million lines", lambda path: path.write_bytes(b"\n" * 25_000_000), "table_rows"),
    Hostile("texts", "packed commas", named(".csv.gz", packed(b",,,,\n", 13 * 2**20, b"a,b,c,d,e\n")), "table_cells"),
    Hostile("texts", "rows that end as of old", named(".csv.gz", packed(b"1\r", 25 * 2**21, b"a\r")), "unpack_ratio"),
    Hostile("texts", "a wide header over short rows", named(".csv", ragged), "table_cells"),
    Hostile("texts", "a million columns", named(".csv", columns), "table_columns"),
    Hostile("texts", "lists in lists", named(".jsonl", text('{"text": ' + "[" * 100_000)), "nesting"),
    Hostile("texts", "a hole", hole, "binary"),
    Hostile("texts", "a device", device, "device"),
    Hostile("texts", "a pipe", pipe, "device"),
]


# Archives -----------------------------------------------------------------------------------------------------------


def npy(shape: tuple[int, ...], dtype: str = "<f8", body: bytes = b"") -> bytes:
    """Make an array's file that claims a shape, with a body that may be shorter."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + body


def array(values: Any) -> bytes:
    """Make an array's file."""
    stream = io.BytesIO()
    np.save(stream, np.asarray(values))
    return stream.getvalue()


def archive(entries: dict[str, bytes | int], method: int = zipfile.ZIP_STORED) -> Callable[[Path], None]:
    """Make an archive of entries; a number stands for so many spaces, written piece by piece."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method, compresslevel=1) as made:
            for name, content in entries.items():
                with made.open(name, "w", force_zip64=True) as file:
                    if isinstance(content, int):
                        for _ in range(content // 2**20):
                            file.write(b" " * 2**20)
                    else:
                        file.write(content)

    return write


def overlapping(entries: dict[str, bytes], copies: int = 50) -> Callable[[Path], None]:
    """Make an archive whose directory names its first entry's bytes many times."""

    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as made:
            for name, content in entries.items():
                made.writestr(name, content)
            first = made.infolist()[0]
            for number in range(copies):
                again = zipfile.ZipInfo(f"{number}{first.filename}")
                again.header_offset, again.CRC = first.header_offset, first.CRC
                again.compress_size = again.file_size = first.file_size
                made.filelist.append(again)
            made._didModify = True

    return write


def understated(name: str, others: dict[str, bytes]) -> Callable[[Path], None]:
    """Make an archive with an entry that unpacks to more than the directory says."""

    def write(path: Path) -> None:
        archive({name: BOMB, **others}, zipfile.ZIP_DEFLATED)(path)
        with zipfile.ZipFile(path, "a") as made:
            # The size and the checksum of its first 100 bytes.
            made.getinfo(name).file_size, made.getinfo(name).CRC = 100, zlib.crc32(b" " * 100)
            made._didModify = True

    return write


def encrypted(entries: dict[str, bytes]) -> Callable[[Path], None]:
    """Make an archive whose entries claim to be encrypted."""

    def write(path: Path) -> None:
        archive(dict(entries))(path)
        content = bytearray(path.read_bytes())
        for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            at = content.find(mark)
            while at >= 0:
                content[at + flags] |= 1
                at = content.find(mark, at + 4)
        path.write_bytes(content)

    return write


def roomy(content: bytes, path: Path) -> None:
    """Write packed content with as much room beside it as the limit of packing asks for."""
    whole = zlib.compress(content, 9, 31)
    # Members of no content, with a field of random bytes each.
    for _ in range(max(0, len(content) // 98 - len(whole)) // 60_000 + 1):
        whole += b"\x1f\x8b\x08\4" + bytes(6) + struct.pack("<H", 60_000) + os.urandom(60_000) + b"\3" + bytes(9)
    path.write_bytes(whole)


def long_directory(path: Path) -> None:
    """Make an archive of 150,000 entries of no size."""
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 33, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    body = entry * 150_000
    path.write_bytes(body + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, len(body), 0, 0))


class Trap:
    """Writes the canary when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


def trapped(path: Path) -> bytes:
    """Pickle a trap beside a file."""
    return pickle.dumps(Trap(path.with_name(CANARY)))


def trapped_array(path: Path) -> None:
    """Make vectors whose words are a pickle."""
    words = npy((1,), "|O", trapped(path))
    archive({"words.npy": words, "vectors.npy": array([[1.0]])})(path)


def claims(shape: tuple[int, ...], dtype: str = "<f4") -> Callable[[Path], None]:
    """Make vectors that claim a shape."""
    return archive({"words.npy": array(["man"]), "vectors.npy": npy(shape, dtype, b"\0" * 64)})


def lazily(make: Callable[[], dict[str, bytes | int]], method: int = zipfile.ZIP_STORED) -> Callable[[Path], None]:
    """Make an archive whose entries are made when they are needed."""
    return lambda path: archive(make(), method)(path)


DEFLATED = zipfile.ZIP_DEFLATED
WORDS = {"words.npy": array(["man", "woman"])}
VECTORS = [
    ("a million numbers in a word", named(".txt", text("a " + "1 " * 1_000_000)), "vectors_numbers"),
    ("a header that claims a trillion", named(".txt", text("1000000000000 1000000000000\na 1 2\n")), "vectors_numbers"),
    ("a header of long numbers", named(".txt", text("9" * 5000 + " " + "9" * 5000 + "\na 1\n")), "number"),
    ("a packed line without an end", named(".txt.gz", packed(b"a")), "vectors_numbers"),
    ("packed lines", named(".vec.xz", packed(b"a 1 2\n")), "vectors_words"),
    ("a device", named(".txt", device), "device"),
    ("a pipe", named(".vec", pipe), "device"),
    ("packed zeros", archive({**WORDS, "vectors.npy": BOMB}, zipfile.ZIP_DEFLATED), "unpack_ratio"),
    ("an array that claims a trillion values", claims((10**6, 10**6)), "claims"),
    ("an array of a negative shape", claims((-5, 10)), "claims"),
    ("texts of no length, a billion", archive({"words.npy": npy((10**9,), "<U0"), "vectors.npy": array([[1.0]])}),
     "claims"),
    ("a pickle", trapped_array, "objects"),
    ("words in two dimensions", archive({"words.npy": array([["a"], ["b"]]), "vectors.npy": array([[1.0]] * 2)}),
     "list of texts"),
    ("one number", archive({**WORDS, "vectors.npy": array(1.0)}), "matrix"),
    ("vectors of one dimension", archive({**WORDS, "vectors.npy": array([1.0, 2.0])}), "matrix"),
    ("entries that overlap", overlapping({**WORDS, "vectors.npy": array(np.ones((2, 9)))}), "overlap"),
    ("an entry larger than it says", understated("words.npy", {"vectors.npy": array([[1.0]])}), "larger"),
    ("150,000 entries", long_directory, "archive_entries"),
    ("entries that are encrypted", encrypted({**WORDS, "vectors.npy": array(np.ones((2, 3)))}), "encrypted"),
    ("12 million words of one vector", lazily(lambda: {
        "words.npy": array(np.full(12_000_000, "ab")), "vectors.npy": array([[1.0]]), "x": os.urandom(900_000),
    }, DEFLATED),
     "vectors_words"),
    ("4,900 words of 9,990 zeros", named(".vec.gz", lambda path: roomy(
        b"".join(b"w%d" % n + b" 0" * 9_990 + b"\n" for n in range(4_900)), path)), "vectors_values"),
    ("two words of ten million numbers", archive({**WORDS, "vectors.npy": array(np.zeros((2, 10_000_000), np.int8))}),
     "vectors_numbers"),
    ("a hole", hole, "NumPy"),
]  # fmt: skip


# Models -------------------------------------------------------------------------------------------------------------


def schema(content: Any, **entries: bytes | int) -> dict[str, bytes | int]:
    """Make what a skops file holds."""
    state = {**content, "protocol": 2, "_skops_version": "0.10"}
    return {"schema.json": json.dumps(state).encode(), **{name.replace("_", "."): e for name, e in entries.items()}}


def node(loader: str, content: Any, module: str = "builtins", kind: str = "list", **more: Any) -> dict[str, Any]:
    """Make a node of a skops file."""
    return {"__class__": kind, "__module__": module, "__loader__": loader, "content": content, **more}


def leaf(number: int) -> dict[str, Any]:
    """Make a node of one estimator."""
    return node("ObjectNode", None, "sklearn.linear_model._logistic", "LogisticRegression", __id__=number)


def doubling(depth: int = 40) -> dict[str, Any]:
    """Make lists that hold the one before twice: small as text, and without end to follow."""
    inner = leaf(1)
    for number in range(2, depth):
        inner = node("ListNode", [inner, used(inner["__id__"])], __id__=number)
    return inner


def used(number: int) -> dict[str, Any]:
    """Make a node that stands for another of a number."""
    return {"__class__": "x", "__module__": "x", "__loader__": "CachedNode", "__id__": number}


def behind(content: list[Any]) -> dict[str, Any]:
    """Make a list with the number of an empty node that stands before it."""
    return {"junk": {"__id__": 1000, "__loader__": "x"}, **node("ListNode", [node("ListNode", content, __id__=1000)])}


def circle(size: int = 20) -> dict[str, Any]:
    """Make lists that each hold all others: without end to follow."""
    every = range(1, size + 1)
    return node("ListNode", [node("ListNode", [used(m) for m in every if m != n], __id__=n) for n in every])


def chain(length: int) -> dict[str, Any]:
    """Make lists that each hold the next one by its number."""
    return node("ListNode", [node("ListNode", [used(n + 1)], __id__=n) for n in range(1, length)])


def reading(file: str, times: int, loader: str = "NdArrayNode", kind: str = "numpy") -> dict[str, Any]:
    """Make a list of arrays that are all in one entry."""
    each = {"type": kind, "file": file}
    return node("ListNode", [node(loader, None, "numpy", "ndarray", **each, __id__=n) for n in range(1, times + 1)])


def inner_bomb() -> bytes:
    """Make a sparse matrix in an archive that unpacks to very much."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made,
        made.open("data.npy", "w") as file,
    ):
        for _ in range(BOMB // 2**20):
            file.write(bytes(2**20))
    return stream.getvalue()


def calling(path: Path) -> None:
    """Make a skops file that asks to call the system."""
    content = node("FunctionNode", "system", "os", "system")
    archive(
        schema(node("ReduceNode", node("ListNode", [f"touch {path.with_name(CANARY)}"]), "os", "system", f=content))
    )(path)


SKOPS = [
    ("a schema of 150,000 objects", lazily(lambda: schema(node("ListNode", [leaf(n) for n in range(1, 150_001)])),
     DEFLATED), "model_nodes"),
    ("a schema of lists", lazily(lambda: schema(node("ListNode", [[]] * 3_000_000)), DEFLATED), "json_values"),
    ("a schema of spaces", archive({"schema.json": BOMB}, DEFLATED), "unpack_ratio"),
    ("a schema nested deeply", archive({"schema.json": b'{"content":' * 50_000}), "nesting"),
    ("objects used again and again", lazily(lambda: schema(doubling())), "model_nodes"),
    ("objects behind the number of another", lazily(lambda: schema(behind([leaf(1)] * 101_000)), DEFLATED),
     "model_nodes"),
    ("an array read 400 times behind the number of another", lazily(lambda: schema(
        behind([reading("a.npy", 400)]), a_npy=array(np.ones(2**16))), DEFLATED), "unpack_ratio"),
    ("objects used again and again behind numbers of others", lazily(lambda: schema(
        {"junk": [{"__id__": n, "__loader__": "x"} for n in range(1, 39)], **doubling()})), "model_nodes"),
    ("objects that are parts of each other", lazily(lambda: schema(circle())), "part of itself"),
    ("a chain of 20,000 objects, each used in the one before", lazily(lambda: schema(chain(20_000))), "nesting"),
    ("entries that are encrypted", encrypted({"schema.json": b"{}"}), "encrypted"),
    ("an array read 10,000 times", lazily(lambda: schema(reading("a.npy", 10_000), a_npy=array(np.ones(2**16))),
     DEFLATED), "unpack_ratio"),
    ("an array that claims a trillion values", lazily(lambda: schema(reading("a.npy", 1), a_npy=npy((10**12,)))),
     "claims"),
    ("a sparse matrix packed tightly", lazily(lambda: schema(
        reading("a.npz", 1, "SparseMatrixNode", "scipy"), a_npz=inner_bomb())), "unpack_ratio"),
    ("a call of the system", calling, "cannot be read|may be unsafe"),
    ("entries that overlap", overlapping({"a.npy": array(np.ones(99)), "schema.json": b"{}"}), "overlap"),
    ("an entry larger than it says", understated("schema.json", {}), "larger"),
    ("150,000 entries", long_directory, "archive_entries"),
    ("an entry packed by bzip2", archive({"schema.json": b"{}"}, zipfile.ZIP_BZIP2), "unknown way"),
    ("no schema", archive({"a": b"b"}), "schema.json"),
    ("a hole", hole, "skops"),
    ("a device", device, "device"),
    ("NUL in the path", nul, "check the path"),
]  # fmt: skip


def onnx_graph(*nodes: Any, constants: Any = ()) -> Callable[[Path], None]:
    """Make an ONNX file of nodes that are described by (operation, inputs, output, attributes)."""

    def write(path: Path) -> None:
        from onnx import TensorProto, helper

        made = [helper.make_node(op, inputs, [output], **more) for op, inputs, output, more in nodes]
        given = [helper.make_tensor(name, TensorProto.INT64, [len(v)], v) for name, v in constants]
        x = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2])
        y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
        graph = helper.make_graph(made, "g", [x], [y], given)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path.write_bytes(model.SerializeToString())

    return write


def external(path: Path) -> None:
    """Make an ONNX file that asks for another file of the system."""
    from onnx import TensorProto, helper

    weight = helper.make_tensor("W", TensorProto.FLOAT, [2, 2], [1.0] * 4)
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "../../../../../../etc/passwd"), ("length", "16")):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", 2])
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["X", "W"], ["Y"])], "g", [x], [y], [weight])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


def constant(size: int, *made: Any) -> Callable[[Path], None]:
    """Make an ONNX file that makes a square of a size, and adds up what is in it."""
    last = (("ReduceSum", ["c"], "s", {}), ("Add", ["X", "s"], "Y", {}))
    return onnx_graph(*made, *last, constants=[("one", [1, 1]), ("big", [size, size])])


ONNX = [
    ("a constant of 4 GB", constant(2**15, ("ConstantOfShape", ["big"], "c", {})), "trial_bytes"),
    ("a constant of 4 TB", constant(2**20, ("ConstantOfShape", ["big"], "c", {})), "trial_bytes"),
    ("a number expanded to 4 GB", constant(
        2**15, ("ConstantOfShape", ["one"], "o", {}), ("Expand", ["o", "big"], "c", {})), "trial_bytes"),
    ("a number tiled to 4 GB", constant(
        2**15, ("ConstantOfShape", ["one"], "o", {}), ("Tile", ["o", "big"], "c", {})), "trial_bytes"),
    ("another file of the system", external, "cannot be read as ONNX"),
    ("bytes that are no graph", lambda path: path.write_bytes(b"\x0a\xff\xff\xff\xff\x7f" * 1000), "cannot be read"),
    ("groups in groups", lambda path: path.write_bytes(b"\x3b" * 100_000), "cannot be read"),
    ("a hole", hole, "cannot be read|trial"),
    ("a device", device, "device"),
]  # fmt: skip


@cache
def _classifier() -> tuple[Any, Any]:
    import torch
    import transformers

    torch.manual_seed(0)
    words = {word: n for n, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad"])}
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    return transformers.BertForSequenceClassification(config), transformers.BertTokenizerFast(vocab=words)


def folder(change: Callable[[Path], None] = lambda path: None, **settings: Any) -> Callable[[Path], None]:
    """Make the folder of a classifier, with other settings, and changed."""

    def write(path: Path) -> None:
        for part in _classifier():
            part.save_pretrained(path)
        file = path / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | settings))
        change(path)

    return write


def own_code(path: Path) -> None:
    """Add code to a folder that writes the canary."""
    (path / "own.py").write_text(f"open({str(path.with_name(CANARY))!r}, 'w')\n")


def pickled_weights(path: Path) -> None:
    """Put a pickle in the place of the weights."""
    (path / "model.safetensors").unlink()
    (path / "pytorch_model.bin").write_bytes(trapped(path))


MAPPED = {"AutoConfig": "own.Config", "AutoModelForSequenceClassification": "own.Model"}
FOLDERS = [
    ("code of its own", folder(own_code, auto_map=MAPPED, model_type="own"), "auto_map"),
    ("weights that are a pickle", folder(pickled_weights), "safetensors"),
    ("a configuration nested deeply",
     folder(lambda path: text('{"a":' * 50_000)(path / "config.json")), "nesting"),  # type: ignore[arg-type]
    ("a model of a terabyte", folder(hidden_size=2**17, intermediate_size=2**20), "trial_|cannot be read"),
    ("a billion layers", folder(num_hidden_layers=10**9), "trial_"),
    ("a pipe among its files", folder(lambda path: os.mkfifo(path / "vocab.txt")), "device"),
]  # fmt: skip

PICKLES = [
    ("a pickle that calls the system", lambda path: path.write_bytes(trapped(path)), "runs code"),
    ("the same by joblib", named(".joblib", lambda path: path.write_bytes(trapped(path))), "runs code"),
]


# Runs ---------------------------------------------------------------------------------------------------------------


def run(change: Callable[[Path], Any], texts: bool = False) -> Callable[[Path], None]:
    """Make a run's directory, and change it."""

    def write(path: Path) -> None:
        if texts:
            space: Any = eh.TextSpace({"team": ["reds", "blues"]})
            eh.audit(lambda said: ["reds" in one for one in said], space, data=["the reds won"], strategy="text-random",
                     directory=path)  # fmt: skip
        else:
            harmless_run(path)
        change(path)

    return write


def harmless_run(path: Path) -> None:
    """Make a small run."""
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    eh.audit(lambda rows: rows["sex"] == "F", space, strategy="themis", directory=path)


def in_file(name: str, make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Put another file in the place of one of a run's."""

    def change(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        make(path / name)

    return change


def frame(header: bytes, body: bytes = b"") -> bytes:
    """Make a frame of a log with a true checksum."""
    return _HEAD.pack(MAGIC, len(header), len(body), _checksum(header, body)) + header + body


def logged(**changes: Any) -> Callable[[Path], None]:
    """Make a log of one answer that claims something."""
    arrays = {"unfair": np.zeros(2, dtype=np.uint8), "decision": np.zeros(0, dtype=np.int16)}
    header = {"tests": 9, "rows": 18, "digest": "", "decisions": ["a", "b"]} | changes
    return lambda path: (path / "answers.log").write_bytes(pack(Frame("test", header, arrays)))  # type: ignore[return-value]


def text_bomb(path: Path) -> None:
    """Put texts into a log that unpack to very much."""
    machine = zlib.compressobj(1)
    parts = [machine.compress(b" " * 2**20) for _ in range(BOMB // 2**20)]
    texts = np.frombuffer(b"".join([*parts, machine.flush()]), dtype=np.uint8)
    arrays = {
        "unfair": np.array([128], dtype=np.uint8), "texts": texts,
        "decision": np.zeros(1, dtype=np.int16), "counterpart_decision": np.ones(1, dtype=np.int16),
    }  # fmt: skip
    header = {"tests": 1, "rows": 2, "digest": "", "decisions": [False, True]}
    (path / "answers.log").write_bytes(pack(Frame("test", header, arrays)))
    (path / "run.json").unlink()


def many_constraints(path: Path) -> None:
    """Put 100,000 constraints into a run's identity."""
    file = path / "identity.json"
    identity = json.loads(file.read_text())
    identity["space"]["constraints"] = ["age > 1"] * 100_000
    file.write_text(json.dumps(identity))


DEEP = text('{"a":' * 100_000 + "1" + "}" * 100_000)
SHAPED = json.dumps({"kind": "test", "arrays": [["unfair", "|u1", [10**6, 10**6]]], "tests": 1}).encode()
TYPED = json.dumps({"kind": "test", "arrays": [["unfair", "f8," * 300_000, [1]]], "tests": 1}).encode()
RUNS = [
    ("an identity nested deeply", run(in_file("identity.json", DEEP)), "nesting"),
    ("a result nested deeply", run(in_file("run.json", DEEP)), "nesting"),
    ("an identity that is a device", run(in_file("identity.json", device)), "symbolic link"),
    ("an identity that is a pipe", run(in_file("identity.json", pipe)), "device"),
    ("an identity that is a hole", run(in_file("identity.json", hole)), "json_bytes"),
    ("an identity of six million lists", run(in_file("identity.json", text("[" + "[]," * 6_000_000 + "[]]"))),
     "json_values"),
    ("an identity of 100,000 constraints", run(many_constraints), "constraints"),
    ("an answer that claims a trillion tests", run(logged(tests=10**12)), "claims"),
    ("an answer of a negative number of tests", run(logged(tests=-5)), "damaged"),
    ("an answer nested deeply", run(in_file("answers.log", lambda path: path.write_bytes(
        frame(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)))), "nesting"),
    ("an array of a trillion values", run(in_file("answers.log", lambda path: path.write_bytes(frame(SHAPED)))),
     "damaged"),
    ("an array of 300,000 types", run(in_file("answers.log", lambda path: path.write_bytes(frame(TYPED)))), "damaged"),
    ("answers that are a hole", run(in_file("answers.log", lambda path: hole(path, 2**40))), "damaged"),
    ("an answer of 50 GB", run(in_file("answers.log", lambda path: hole(
        path, 2**37, _HEAD.pack(MAGIC, 2, 50 * 2**30, bytes(16)) + b"{}"))), "frame_bytes"),
    ("answers that are a device", run(in_file("answers.log", device)), "symbolic link"),
    ("texts packed tightly", run(text_bomb, texts=True), "json_bytes"),
]  # fmt: skip


def bundled(change: Callable[[Path, dict[str, bytes]], Any]) -> Callable[[Path], None]:
    """Make a bundle, with its parts changed."""

    def write(path: Path) -> None:
        harmless_run(path.with_name("run"))
        eh.bundle(path.with_name("run"), path)
        with zipfile.ZipFile(path) as made:
            parts = {name: made.read(name) for name in made.namelist()}
        change(path, parts)

    return write


def many(path: Path, parts: dict[str, bytes]) -> None:
    """Add 30,000 empty entries."""
    archive({**parts, **dict.fromkeys(map(str, range(30_000)), b"")})(path)


BUNDLES = [
    ("30,000 entries", bundled(many), "bundle_entries"),
    ("150,000 entries of no size", long_directory, "bundle_entries"),
    ("entries that overlap", bundled(lambda path, parts: overlapping(parts)(path)), "overlap"),
    ("an entry packed tightly", bundled(lambda path, parts: archive({**parts, "x": BOMB}, DEFLATED)(path)),
     "unpack_ratio"),
    ("an entry larger than it says", bundled(lambda path, parts: understated("x", parts)(path)), "larger"),
    ("entries that are encrypted", bundled(lambda path, parts: encrypted(parts)(path)), "encrypted"),
    ("a manifest nested deeply", bundled(lambda path, parts: archive(
        {**parts, "manifest.json": b'{"a":' * 100_000})(path)), "nesting"),
    ("a hole", hole, "bundle"),
    ("a hole that is too large", lambda path: hole(path, 2**40), "bundle_bytes"),
    ("a device", device, "not a file"),
    ("a pipe", pipe, "not a file"),
    ("NUL in the path", nul, "check the path"),
]  # fmt: skip


def case(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Put a file in the place of the cases of a test."""

    def write(path: Path) -> None:
        from evenhand.regression_corpus import Corpus

        path.mkdir()
        make(Corpus(path, "test").path)

    return write


CASES = [
    ("nested deeply", case(DEEP), "cannot be read"),
    ("a hole", case(hole), "cannot be read"),
    ("a device", case(device), "cannot be read"),
    ("a pipe", case(pipe), "cannot be read"),
]


def _all() -> list[Hostile]:
    kinds: dict[str, tuple[Any, tuple[str, ...]]] = {
        "space": ([*TOMLS, *SPACES], ()),
        "config": (TOMLS, ()),
        "lexicon": ([*TOMLS, *LEXICONS], ()),
        "vectors": (VECTORS, ()),
        "skops": (SKOPS, ("skops",)),
        "onnx": (ONNX, ("onnx", "onnxruntime")),
        "pickle": (PICKLES, ()),
        "folder": (FOLDERS, ("torch", "transformers")),
        "run": (RUNS, ()),
        "bundle": (BUNDLES, ()),
        "cases": (CASES, ()),
    }
    listed = [Hostile(kind, *each, needs) for kind, (those, needs) in kinds.items() for each in those]
    return sorted([*TABLES, *listed], key=lambda one: list(NAMES).index(one.kind))


HOSTILE = _all()


# Harmless ones ------------------------------------------------------------------------------------------------------


def harmless(kind: str, path: Path) -> Path:
    """Make a harmless file of a kind, to compare with; return what is to be opened."""
    path.mkdir(parents=True)
    target = path / NAMES[kind]
    makers: dict[str, Callable[[Path], Any]] = {
        "space": constrained("age > 1"),
        "config": text("[audit]\nseed = 1\n"),
        "lexicon": text('terms = ["reds", "blues"]\n'),
        "csv": text("a,b\n1,2\n"),
        "json": text('[{"a": 1}]'),
        "jsonl": text('{"a": 1}\n'),
        "parquet": parquet(10, 1),
        "texts": text("good\nbad\n"),
        "vectors": archive({**WORDS, "vectors.npy": array([[1.0, 2.0], [3.0, 4.0]])}),
        "skops": _skops,
        "onnx": onnx_graph(("Identity", ["X"], "Y", {})),
        "pickle": text("nothing"),
        "folder": folder(),
        "run": harmless_run,
        "bundle": bundled(lambda path, parts: None),
        "cases": case(lambda path: None),
    }
    makers[kind](target)
    return target


def _skops(path: Path) -> None:
    import skops.io
    from sklearn.linear_model import LogisticRegression

    rows = np.array(list(itertools.product([0, 1], repeat=3)))
    skops.io.dump(LogisticRegression().fit(rows, rows[:, 0]), path)
