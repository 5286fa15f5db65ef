"""Starts the service: the server in this process, and its workers in others, which are replaced if they end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from evenhand.errors import ConfigError
from evenhand.service import jobs
from evenhand.service.accounts import Accounts
from evenhand.service.library import Library, Limits
from evenhand.service.tables import Database
from evenhand.service.web import Service, is_local

GRACE = 3.0
"""Seconds that open requests and workers have when the service ends."""


@dataclass(frozen=True)
class Options:
    """How the service runs."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    database: str | None = None
    """By default an SQLite file in the folder."""
    workers: int = 2
    dask: str | None = None
    limits: Limits = field(default_factory=Limits)
    lease: float = jobs.LEASE

    @property
    def url(self) -> str:
        """The URL of the database."""
        return self.database or f"sqlite:///{self.folder.resolve() / 'service.db'}"


def open_library(options: Options) -> Library:
    """Open the database and the files."""
    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = Database.open(options.url)
    try:
        return Library(database, options.folder, options.limits)
    except BaseException:
        database.close()
        raise


class Workers:
    """The worker processes; one that ends is replaced."""

    def __init__(self, options: Options) -> None:
        self._settings = {
            "database": options.url, "folder": str(options.folder.resolve()), "limits": asdict(options.limits),
            "dask": options.dask, "lease": options.lease,
        }  # fmt: skip
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._keep, daemon=True) for _ in range(options.workers)]
        for thread in self._threads:
            thread.start()

    def _keep(self) -> None:
        wait = 0.0
        while not self._ending.wait(wait):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evenhand.service.worker"],
                stdin=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(self._settings).encode() + b"\n")
                process.stdin.flush()
                while not self._ending.wait(0.2) and process.poll() is None:
                    pass
            except BrokenPipeError:
                pass
            finally:
                # The worker ends when its standard input closes.
                process.stdin.close()
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            wait = 0.5

    def end(self) -> None:
        """End all workers; their jobs go back to the queue."""
        self._ending.set()
        for thread in self._threads:
            thread.join()


def check_address(options: Options, accounts: Accounts) -> None:
    """Refuse to listen to other machines without accounts."""
    if not is_local(f"[{options.host}]" if ":" in options.host else options.host) and not accounts.any():
        raise ConfigError(
            f"without accounts, everyone who can reach {options.host} could use the service",
            remedy="add an account first: evenhand serve --add-account NAME",
        )


def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Run the service until it is interrupted; ``ready`` gets its URL as soon as it answers."""
    import uvicorn

    from evenhand.service.app import make_app

    library = open_library(options)
    try:
        service = Service(library, Accounts(library.database))
        check_address(options, service.accounts)
        listening = _listen(options)
        config = uvicorn.Config(
            make_app(service), log_level="warning", access_log=False, server_header=False,
            timeout_graceful_shutdown=int(GRACE), lifespan="off",
        )  # fmt: skip
        server = uvicorn.Server(config)
        host = f"[{options.host}]" if ":" in options.host else options.host
        workers = Workers(options)
        try:
            with listening:
                ready(f"http://{host}:{listening.getsockname()[1]}")
                server.run([listening])
        finally:
            workers.end()
    finally:
        library.database.close()


def _listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((options.host, options.port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"cannot listen at {options.host}:{options.port} ({error.strerror})", remedy="choose another --port"
        ) from None
    return sock
