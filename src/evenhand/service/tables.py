"""The tables of the service, on SQLite or PostgreSQL, and transactions on them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column as Col
from sqlalchemy.pool import NullPool

from evenhand.errors import ConfigError

META = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
BUSY = 30_000
"""Milliseconds that a writer waits for others on SQLite."""


def new_id() -> str:
    """Return an identifier that cannot be guessed, made of characters that are safe in a path.

    >>> len(new_id())
    16
    """
    return secrets.token_hex(8)


def _id() -> Col[str]:
    return Col("id", sa.String(16), primary_key=True, default=new_id)


def _to(table: str, **settings: Any) -> Col[Any]:
    settings = {"nullable": False, "index": True} | settings
    return Col(f"{table}_id", sa.String(16), sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), **settings)


TEAM = sa.Table("team", META, _id(), Col("name", sa.String(80), nullable=False, unique=True))
USER = sa.Table(
    "account",
    META,
    _id(),
    _to("team"),
    Col("name", sa.String(80), nullable=False, unique=True),
    Col("role", sa.String(10), nullable=False),
    Col("password", sa.String(200), nullable=False),
    Col("active", sa.Boolean, nullable=False, server_default=sa.true()),
    Col("created", sa.Float, nullable=False),
)
SESSION = sa.Table(
    "session",
    META,
    Col("digest", sa.String(64), primary_key=True),
    _to("account"),
    Col("form_token", sa.String(64), nullable=False),
    Col("expires", sa.Float, nullable=False),
)
TOKEN = sa.Table(
    "token",
    META,
    _id(),
    _to("account"),
    Col("name", sa.String(80), nullable=False),
    Col("digest", sa.String(64), nullable=False, unique=True),
    Col("scope", sa.String(10), nullable=False),
    Col("created", sa.Float, nullable=False),
    Col("expires", sa.Float, nullable=False),
)
FAILURE = sa.Table(
    "failure",
    META,
    Col("id", sa.Integer, primary_key=True),
    Col("of", sa.String(90), nullable=False, index=True),
    Col("at", sa.Float, nullable=False),
)
"""Failed logins, of a name or an address."""
SETTING = sa.Table("setting", META, Col("name", sa.String(40), primary_key=True), Col("value", sa.JSON, nullable=False))
PROJECT = sa.Table(
    "project",
    META,
    _id(),
    _to("team"),
    Col("name", sa.String(80), nullable=False),
    Col("created", sa.Float, nullable=False),
)
FILE = sa.Table(
    "file",
    META,
    _id(),
    _to("project"),
    Col("kind", sa.String(10), nullable=False),
    Col("name", sa.String(120), nullable=False),
    Col("ending", sa.String(20), nullable=False),
    Col("size", sa.BigInteger, nullable=False),
    Col("sha256", sa.String(64), nullable=False),
    Col("facts", sa.JSON, nullable=False),
    Col("created", sa.Float, nullable=False),
)
"""Uploaded data, texts and models. A file lies under its id; its name is only shown."""
MODEL = sa.Table(
    "model",
    META,
    _id(),
    _to("project"),
    _to("file", nullable=True),
    Col("name", sa.String(120), nullable=False),
    Col("url", sa.String(2000)),
    Col("settings", sa.JSON, nullable=False),
    Col("secrets", sa.Text),
    Col("facts", sa.JSON, nullable=False),
    Col("created", sa.Float, nullable=False),
)
"""A model is a file or an endpoint; the values of an endpoint's headers are encrypted."""
SPACE = sa.Table(
    "space",
    META,
    _id(),
    _to("project"),
    _to("file", nullable=True),
    Col("name", sa.String(120), nullable=False),
    Col("text", sa.Text, nullable=False),
    Col("target", sa.String(200)),
    Col("facts", sa.JSON, nullable=False),
    Col("created", sa.Float, nullable=False),
)
"""A space, as TOML; the facts are its attributes, for readers."""
JOB = sa.Table(
    "job",
    META,
    _id(),
    _to("project"),
    Col("account", sa.String(80), nullable=False),
    Col("kind", sa.String(10), nullable=False),
    Col("spec", sa.JSON, nullable=False),
    Col("state", sa.String(10), nullable=False, server_default="queued"),
    Col("stop", sa.Boolean, nullable=False, server_default=sa.false()),
    Col("fence", sa.Integer, nullable=False, server_default="0"),
    Col("strikes", sa.Integer, nullable=False, server_default="0"),
    Col("lost", sa.Integer, nullable=False, server_default="0"),
    Col("lease", sa.Float),
    Col("not_before", sa.Float, nullable=False, server_default="0"),
    Col("host", sa.String(200)),
    Col("child", sa.Integer),
    Col("version", sa.Integer, nullable=False, server_default="0"),
    Col("reached", sa.BigInteger, nullable=False, server_default="0"),
    Col("progress", sa.JSON, nullable=False),
    Col("result", sa.JSON),
    Col("error", sa.Text),
    Col("created", sa.Float, nullable=False),
    Col("finished", sa.Float),
)
"""An audit, an estimate, a repair or a comparison; ``jobs`` explains the columns."""
sa.Index(None, JOB.c.state, JOB.c.lease)
EVENT = sa.Table(
    "event",
    META,
    Col("id", sa.Integer, primary_key=True),
    _to("job"),
    Col("at", sa.Float, nullable=False),
    Col("kind", sa.String(20), nullable=False),
    Col("more", sa.JSON, nullable=False),
)
"""What happened to a job."""
ENTRY = sa.Table(
    "entry",
    META,
    Col("id", sa.Integer, primary_key=True),
    Col("team_id", sa.String(16), index=True),
    Col("at", sa.Float, nullable=False),
    Col("account", sa.String(80), nullable=False),
    Col("action", sa.String(40), nullable=False),
    Col("object", sa.String(200), nullable=False),
)
"""The audit log: who did what. Nothing changes or deletes its rows."""


class Database:
    """A database of the service.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     database = Database.open(f"sqlite:///{folder}/service.db")
    ...     with database.write() as c:
    ...         _ = c.execute(TEAM.insert().values(name="credit"))
    ...     with database.read() as c:
    ...         print(c.execute(sa.select(TEAM.c.name)).scalars().all())
    ...     database.close()
    ['credit']
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = sa.make_url(url)
        except sa.exc.ArgumentError:
            raise ConfigError(
                "must be the URL of a database", parameter="database", remedy="such as postgresql://HOST/NAME"
            ) from None
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ConfigError(
                "must be SQLite or PostgreSQL", parameter="database", remedy="such as postgresql://HOST/NAME"
            )
        self.url = parsed.render_as_string(hide_password=False)
        self.sqlite = parsed.get_backend_name() == "sqlite"
        if self.sqlite:
            self.engine = sa.create_engine(parsed, poolclass=NullPool)
            sa.event.listen(self.engine, "connect", _prepare)
            sa.event.listen(self.engine, "begin", _begin)
        else:
            self.engine = sa.create_engine(parsed, pool_pre_ping=True, pool_size=10, max_overflow=30)
        self._writing = self.engine.execution_options(write=True)

    @classmethod
    def open(cls, url: str) -> Database:
        """Connect, and bring the tables up to date."""
        database = cls(url)
        try:
            database.migrate()
        except sa.exc.OperationalError as error:
            database.close()
            reason = " ".join(str(error.orig).split())[:300]
            raise ConfigError(f"the database cannot be used ({reason})", remedy="check --database") from None
        return database

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Begin a transaction that only reads."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Begin a transaction that writes; on SQLite it has the lock from the start, so that it never has to fail."""
        with self._writing.begin() as connection:
            yield connection

    def migrate(self) -> None:
        """Bring the tables up to date; of several processes, one does and the others wait."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
        with self.write() as connection:
            if not self.sqlite:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7302384)"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _prepare(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # Transactions begin below.
    for pragma in ("journal_mode=WAL", f"busy_timeout={BUSY}", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
