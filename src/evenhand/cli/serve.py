"""The command ``evenhand serve``."""

from __future__ import annotations

import getpass
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.output import console
from evenhand.config.file import Config
from evenhand.config.schema import ServeTable
from evenhand.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from evenhand.service.serve import Options

NEEDED = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "sqlalchemy": "sqlalchemy",
    "alembic": "alembic",
    "argon2": "argon2-cffi",
    "cryptography": "cryptography",
    "python_multipart": "python-multipart",
}


def serve(config: Config) -> None:
    """Run the service, or add an account."""
    if absent := [package for module, package in NEEDED.items() if find_spec(module) is None]:
        raise MissingExtra(absent[0], "service", "evenhand serve")
    from evenhand.service.library import Limits
    from evenhand.service.serve import Options, serve

    table = config.serve
    database = table.database or os.environ.get("EVENHAND_DATABASE")
    limits = Limits(upload=table.max_upload * 2**20, memory=table.max_memory, seconds=table.max_seconds)
    options = Options(Path(table.directory), table.host, table.port, database, table.workers, table.dask, limits)
    if table.add_account is None:
        serve(options, _ready)
    else:
        add_account(options, table.add_account, table)


def _ready(url: str) -> None:
    console().print(f"evenhand serves at {url}; Ctrl-C ends it", highlight=False, markup=False, soft_wrap=True)
    sys.stdout.flush()


def add_account(options: Options, name: str, table: ServeTable) -> None:
    """Add an account, with a password from the terminal or from standard input."""
    from evenhand.service.accounts import Accounts
    from evenhand.service.serve import open_library

    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if password != getpass.getpass("Again: "):
            raise ConfigError("the passwords differ", remedy="try again")
    else:
        password = sys.stdin.readline().rstrip("\n")
    library = open_library(options)
    try:
        Accounts(library.database).add(name, password, table.role, table.team)
    finally:
        library.database.close()
    console().print(f"added {name}: {table.role} of team {table.team}", highlight=False, markup=False, soft_wrap=True)
