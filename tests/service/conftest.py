"""A service in this process or in others, and a database of each kind."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

import evenhand as eh
from evenhand.service import library as library_module
from evenhand.service.accounts import Accounts
from evenhand.service.app import make_app
from evenhand.service.library import Library, Limits
from evenhand.service.tables import Database
from evenhand.service.tasks import Talk, perform
from evenhand.service.web import Service
from tests.helpers import slow, source_environment

PASSWORD = "a long password"
SEEDS = int(os.environ.get("EVENHAND_CHAOS_SEEDS", "1"))
LONG = SEEDS > 1
"""Whether ``make check-all`` runs the tests: all seeds, kills and hostile files, where others run some."""


def people(count: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.integers(20, 60, count),
            "hours": random.integers(10, 50, count),
            "sex": random.integers(0, 2, count),
            # So many tests that a search does not end by itself.
            "savings": random.integers(0, 10**6, count),
        }
    )
    return frame.assign(paid=np.where(frame["hours"] + 15 * frame["sex"] > 40, "high", "low"))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, and two models of them that differ by sex; one of texts."""
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    folder, frame = tmp_path_factory.mktemp("files"), people()
    frame.to_csv(folder / "people.csv", index=False)
    X, y = frame.drop(columns="paid"), frame["paid"]
    for name, made in (("tree", DecisionTreeClassifier(max_depth=4)), ("line", LogisticRegression(max_iter=1000))):
        skops.io.dump(made.fit(X, y), folder / f"{name}.skops")
    texts = ["the muslim was rude", "the christian was kind", "a muslim man", "a christian man"]
    words = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, ["toxic", "fine", "toxic", "fine"])
    skops.io.dump(words, folder / "words.skops")
    (folder / "texts.csv").write_text("text\n" + "\n".join(texts) + "\n")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A server of PostgreSQL with its own data, on a free port of this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("postgres") or "/nowhere").parent]
    programs = found[-1].resolve()
    if not (programs / "initdb").exists():
        if os.environ.get("EVENHAND_REQUIRE_ALL"):
            pytest.fail("EVENHAND_REQUIRE_ALL is set, but there is no PostgreSQL")
        pytest.skip("there is no PostgreSQL")
    # The server refuses to run as root.
    user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="evenhand-pg-"))
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]

    def call(*words: str) -> None:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **user)
        assert done.returncode == 0, done.stdout + done.stderr

    call(f"{programs}/initdb", "-D", "data", "-A", "trust", "-U", "evenhand", "-N")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200"
    call(f"{programs}/pg_ctl", "-D", "data", "-w", "-t", "120", "-l", "log", "-o", options, "start")
    try:
        yield f"postgresql://evenhand@127.0.0.1:{port}/postgres"
    finally:
        call(f"{programs}/pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", *slow(["postgresql"])])
def url(request: Any, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'service.db'}"
        return
    server, name = request.getfixturevalue("postgres"), f"t{uuid.uuid4().hex}"
    engine = sa.create_engine(server.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    with engine.connect() as c:
        c.execute(sa.text(f"CREATE DATABASE {name}"))
    yield server.replace("/postgres", f"/{name}")
    with engine.connect() as c:
        c.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database.open(url)
    yield opened
    opened.close()


@pytest.fixture
def library(database: Database, tmp_path: Path) -> Library:
    return Library(database, tmp_path / "service", Limits(upload=2**20))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short tasks run in this process, which is faster."""

    class Answer(Talk):
        def __init__(self) -> None:
            self.answer: dict[str, Any] = {}

        def say(self, **message: Any) -> None:
            self.answer |= message

    def ask(task: Any, folder: Path) -> dict[str, Any]:
        talk = Answer()
        perform(task, talk)
        return talk.answer

    monkeypatch.setattr(library_module, "ask", ask)


Client = Any


@pytest.fixture
def connect(library: Library, here: None) -> Iterator[Callable[..., Client]]:
    """Make clients of a service in this process."""
    from starlette.testclient import TestClient

    app, clients = make_app(Service(library, Accounts(library.database))), []

    def made(token: str | None = None, **headers: str) -> Client:
        given = headers | ({} if token is None else {"authorization": f"Bearer {token}"})
        clients.append(TestClient(app, "http://localhost", raise_server_exceptions=True, headers=given))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return connect()


class Server:
    """``evenhand serve`` in another process, at a free port."""

    def __init__(self, folder: Path, *flags: str, port: int = 0, **extra: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evenhand", "serve", "--directory", str(folder), "--port", str(port), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=source_environment(COLUMNS="200", **extra),
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+(?=;)", line)
        assert found, line + self.end()
        self.url, self.port = found[0], int(found[0].rpartition(":")[2])

    def end(self, how: int = signal.SIGINT) -> str:
        """End it; return what it wrote to standard error."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    servers = []

    def made(*flags: str, **extra: str) -> Server:
        servers.append(Server(tmp_path / "service", *flags, **extra))
        return servers[-1]

    yield made
    for server in servers:
        server.end(signal.SIGKILL)


@pytest.fixture
def credit(tmp_path: Path) -> Path:
    """German credit as CSV, and a model of it in ONNX."""
    import skops.io
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    data = eh.datasets.load("german")
    X, y = data.train[list(data.features)], data.train[data.target]
    texts = [str(name) for name in X.select_dtypes(exclude="number")]
    encode = make_column_transformer((OneHotEncoder(), texts), remainder=StandardScaler())
    model = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(X, y)
    types = [(name, (StringTensorType if name in texts else Int64TensorType)([None, 1])) for name in X]
    folder = tmp_path / "credit"
    folder.mkdir()
    written: Any = to_onnx(model, initial_types=types, options={"zipmap": False})
    (folder / "model.onnx").write_bytes(written.SerializeToString())
    second = make_pipeline(encode, DecisionTreeClassifier(max_depth=4, random_state=0)).fit(X, y)
    skops.io.dump(second, folder / "second.skops")
    data.train.to_csv(folder / "credit.csv", index=False)
    return folder
