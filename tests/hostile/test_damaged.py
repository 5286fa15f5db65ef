"""Files with changed bytes are read, or refused with an evenhand error."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import EvenhandError
from evenhand.spaces.frames import read_frame
from evenhand.spaces.text.similar import load
from tests.helpers import optional
from tests.hostile.generator import bundled, harmless_run

TABLE = b'a,b\n1,2\n"x",3\n'
ROWS = json.dumps([{"a": 1, "b": "\u00e9"}, {"a": 2, "b": "x"}]).encode()
LINES = b'{"a": 1, "b": "x"}\n{"a": 2, "b": "\\u00e9"}\n'
WORDS = b"a 1 2 3\nb 4 5 6\n"
ARRAYS = {"words": np.array(["a", "b"]), "vectors": np.ones((2, 3), np.float32)}
SPACE = eh.Space(
    [eh.Integer("age", 1, 30), eh.Nominal("sex", ["F", "M"])], protected="sex", constraints=["age > 2 or sex == 'F'"]
)


def _skops(path: Path, packing: int) -> None:
    optional("skops")
    import skops.io
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit([[0, 1], [1, 0], [2, 1]], [0, 1, 1])
    skops.io.dump(model, path, compression=packing)


FORMATS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "a.csv": (lambda path: path.write_bytes(TABLE), read_frame),
    "a.csv.gz": (lambda path: path.write_bytes(gzip.compress(TABLE)), read_frame),
    "a.csv.xz": (lambda path: path.write_bytes(lzma.compress(TABLE)), read_frame),
    "a.json": (lambda path: path.write_bytes(ROWS), read_frame),
    "a.jsonl": (lambda path: path.write_bytes(LINES), read_frame),
    "texts.csv": (lambda path: path.write_bytes(b"text,n\nhello,1\n"), eh.datasets.read_texts),
    "texts.txt.gz": (lambda path: path.write_bytes(gzip.compress(b"hello\nworld\n")), eh.datasets.read_texts),
    "a.vec": (lambda path: path.write_bytes(WORDS), load),
    "a.vec.gz": (lambda path: path.write_bytes(gzip.compress(WORDS)), load),
    "a.npz": (lambda path: np.savez(path, **ARRAYS), load),
    "packed.npz": (lambda path: np.savez_compressed(path, **ARRAYS), load),
    "lexicon.toml": (
        lambda path: path.write_text('terms = ["reds", [["blues", "navy"]]]\n'), lambda path: eh.TextSpace(str(path))
    ),
    "space.toml": (SPACE.save, eh.Space.load),
    "a.skops": (lambda path: _skops(path, zipfile.ZIP_STORED), eh.load_model),
    "packed.skops": (lambda path: _skops(path, zipfile.ZIP_DEFLATED), eh.load_model),
    "run.zip": (bundled(lambda path, parts: eh.bundle(path.with_name("run"), path)), eh.check_bundle),
    "identity.json": (harmless_run, lambda path: len(eh.Run.load(path).findings)),
    "run.json": (harmless_run, lambda path: len(eh.Run.load(path).findings)),
    "answers.log": (harmless_run, lambda path: len(eh.Run.load(path).findings)),
}  # fmt: skip


def damage(content: bytes, draws: random.Random) -> bytes:
    """Change some bytes: flip, overwrite, cut off, insert, blank. Half of it near the end, where archives have most."""
    out = bytearray(content)
    for _ in range(draws.choice([1, 1, 2, 4])):
        at = draws.randrange(len(out)) if draws.random() < 0.6 else len(out) - 1 - draws.randrange(min(len(out), 400))
        kind = draws.choice(["flip", "flip", "set", "cut", "insert", "blank"])
        if kind == "flip":
            out[at] ^= 1 << draws.randrange(8)
        elif kind == "set":
            out[at] = draws.choice(b'\0\xff"[\n\r,.')
        elif kind == "cut":
            del out[max(at, 1) :]
        elif kind == "insert":
            out[at:at] = draws.randbytes(draws.randrange(1, 9))
        else:
            length = len(out[at : at + draws.randrange(1, 30)])
            out[at : at + length] = bytes(length)
    return bytes(out)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    make, read = FORMATS[name]
    whole = tmp_path / "whole" / name
    whole.parent.mkdir()
    opened = file = whole
    make(whole)
    if whole.is_dir():
        file = whole / name
    content, draws = file.read_bytes(), random.Random(name)
    read(opened)
    for _ in range(200):
        file.write_bytes(damage(content, draws))
        with suppress(EvenhandError):
            read(opened)
    shutil.rmtree(whole.parent)
