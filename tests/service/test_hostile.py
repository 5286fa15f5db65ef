"""Hostile uploads: each is refused with a reason, by a child with limits; none is executed, and nothing is kept."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from evenhand.service import process
from evenhand.service.accounts import Accounts
from evenhand.service.library import Library, Refused
from evenhand.service.tables import FILE, MODEL, PROJECT
from tests.service.conftest import LONG


class Bomb:
    """Leaves a file where it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {MARK}",)


MARK = Path(tempfile.gettempdir()) / "evenhand-was-executed"
PICKLE = pickle.dumps(Bomb())


def zipped(**entries: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("__", "/"), content)
    return out.getvalue()


SCHEMA = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": "x", "__id__": 1}
REDUCE = {"__class__": "x", "__module__": "os", "__loader__": "ReduceNode", "__id__": 1}
SKOPS = zipped(**{"schema.json": json.dumps({**SCHEMA, "protocol": 0, "_skops_version": "0.11"}).encode()})
NAMED = {
    "pickle.pkl": PICKLE, "pickle.joblib": PICKLE, "pickle.pt": PICKLE, "pickle.onnx": PICKLE, "pickle.skops": PICKLE,
    "pickle.json": PICKLE, "pickle.ubj": PICKLE, "pickle.cbm": PICKLE, "pickle.keras": PICKLE, "pickle.pt2": PICKLE,
    "inside.pt": zipped(archive__data__pkl=PICKLE), "inside.skops": zipped(**{"schema.json": b"{}", "x.pkl": PICKLE}),
    "function.skops": SKOPS, "empty.onnx": b"", "one.onnx": b"\x08", "zeros.onnx": bytes(10_000),
    "large.onnx": b"\x08\x07\x3a" + b"\xff" * 9 + b"\x01", "text.onnx": b"hello", "deep.skops": zipped(
        **{"schema.json": b"[" * 200_000}),
    "reduce.skops": zipped(**{"schema.json": json.dumps(REDUCE).encode()}), "bomb.skops": zipped(
        **{"schema.json": b" " * (200 * 2**20)}),
    "traversal.skops": zipped(**{"../../x.npy": b"x", "schema.json": b"{}"}), "cut.skops": SKOPS[:40],
    "model.py": b"import os", "model.so": b"\x7fELF", "model.h5": b"\x89HDF", "model": b"x", ".onnx": b"",
    "tree.json": b'{"learner": {"gradient_booster": {"model": {"trees": "x"}}}}', "deep.json": b"[" * 100_000,
    "model.txt": b"tree\nversion=v3\nnum_class=99999999999\n", "model.cbm": b"CBM1" + b"\xff" * 100,
    "model.keras": zipped(**{"config.json": b'{"module": "os", "class_name": "system"}'}),
}  # fmt: skip
DATA = {
    "empty.csv": b"", "header.csv": b"a,b\n", "zeros.csv": bytes(10_000), "quotes.csv": b'a,b\n"' + b"x" * 10**6,
    "wide.csv": b"a," * 10**6, "same.csv": b"a,a\n1,2\n", "short.csv": b"a,b\n1,2,3,4\n",
    "binary.csv": os.urandom(4096),
    "bomb.csv.gz": gzip.compress(bytes(300 * 2**20)), "cut.csv.gz": gzip.compress(b"a,b\n1,2\n")[:20],
    "pickle.csv": PICKLE, "text.parquet": b"PAR1 hello PAR1", "length.parquet": b"PAR1" + struct.pack("<I", 2**31 - 1)
    + b"PAR1", "deep.json": b"[" * 10**6, "one.json": b"1", "object.json": b'{"a": {"b": ' * 1000, "x.xlsx": b"PK",
    "null.jsonl": b"null\n" * 10, "x.pkl": PICKLE, "x.sqlite": b"SQLite format 3\0", "x": b"a,b\n1,2\n",
}  # fmt: skip
CASES = [f"model/{name}" for name in NAMED] + [f"data/{name}" for name in DATA]
SOME = ["model/pickle.onnx", "model/pickle.pkl", "model/inside.skops", "data/bomb.csv.gz", "data/text.parquet"]
if LONG:
    SOME = CASES
MOST = 512
"""Megabytes; where a reader needs torch, importing that alone takes more."""
NETWORKS = (".keras", ".pt", ".pt2")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'service.db'}"


@pytest.fixture
def upload(library: Library, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, bytes], None]:
    project = library.row(PROJECT, library.add_project(Accounts(library.database).team("a"), "p"), None)
    most: list[int] = []
    resident = process.resident

    def watched(number: int) -> int:
        most.append(resident(number))
        return most[-1]

    monkeypatch.setattr(process, "resident", watched)

    def refused(kind: Any, name: str, content: bytes) -> None:
        with pytest.raises(Refused) as raised:
            library.add_file(project, kind, name, io.BytesIO(content))
        text = str(raised.value)
        assert len(text) > 10, name
        assert "unexpected error" not in text, (name, text)
        assert str(library.folder) not in text, text
        assert name.endswith(NETWORKS) or max(most, default=0) < MOST, (name, max(most))
        most.clear()

    return refused


def test_there_are_fifty() -> None:
    assert len(CASES) >= 50


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_hostile_files(upload: Callable[..., None], library: Library) -> None:
    MARK.unlink(missing_ok=True)
    for case in SOME:
        kind, _, name = case.partition("/")
        upload(kind, name, (NAMED if kind == "model" else DATA)[name])
    assert not MARK.exists()
    assert list(library.files.iterdir()) == []
    assert not [path for path in library.folder.iterdir() if path.name.startswith("ask-")]
    with library.database.read() as c:
        assert c.execute(sa.select(FILE.c.id)).all() == c.execute(sa.select(MODEL.c.id)).all() == []


@pytest.mark.parametrize(
    "name",
    ["../../../etc/passwd.csv", "..\\..\\x.csv", "/etc/cron.d/x.csv", "a\0b.csv", "a\nb.csv", "x" * 5000 + ".csv"],
)
def test_names_are_only_shown(name: str, library: Library, here: None) -> None:
    project = library.row(PROJECT, library.add_project(Accounts(library.database).team("a"), "p"), None)
    id = library.add_file(project, "data", name, io.BytesIO(b"a,b\n1,2\n3,4\n"))
    file = library.row(FILE, id, None)
    assert library.path(file).parent == library.files
    assert [path.name for path in library.files.iterdir()] == [f"{id}.csv"]
    assert file["name"].isprintable()
    assert not {"/", "\\"} & set(file["name"])
    assert len(file["name"]) <= 120


def test_a_team_has_a_quota(library: Library, here: None) -> None:
    from dataclasses import replace

    library.limits = replace(library.limits, stored=30)
    project = library.row(PROJECT, library.add_project(Accounts(library.database).team("a"), "p"), None)
    library.add_file(project, "data", "x.csv", io.BytesIO(b"a,b\n1,2\n3,4\n"))
    with pytest.raises(Refused, match="team's files"):
        library.add_file(project, "data", "x.csv", io.BytesIO(b"a,b\n1,2\n3,4\n5,6\n7,8\n"))
    assert len(list(library.files.iterdir())) == 1
