"""A server on this machine that answers about rows, as well or as badly as a test wants."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Row = dict[str, Any]


def decide(row: Row) -> str:
    """A rule that treats the sexes differently at some ages."""
    return "yes" if row["age"] > 30 + 5 * (row["sex"] == "m") * (row["work"] == "smith") else "no"


def score(row: Row) -> list[float]:
    share = (row["age"] - 15) / 60 - 0.05 * (row["sex"] == "m")
    return [1 - share, share]


@dataclass
class Behaviour:
    """What the server does; shares are of the requests."""

    answer: Callable[[Row], Any] = decide
    unavailable: float = 0.0
    slow: float = 0.0
    cut: float = 0.0
    reset: float = 0.0
    delay: float = 0.0
    uneven: float = 0.0
    """Seconds that an answer may take longer, so that answers come in another order than requests."""
    retry_after: str | None = None
    null_fails: bool = False
    edit: Callable[[list[Any]], list[Any]] = lambda found: found
    """What becomes of the answers of a request."""
    reply: Callable[[Any, list[Any]], Any] | None = None
    """Makes the whole answer, of the request and the answers."""
    echo: bool = False
    seed: int = 0


@dataclass
class Seen:
    """What the server saw."""

    rows: list[str] = field(default_factory=list)
    """Rows that were answered, or would have been."""
    requests: list[list[Row]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    now: int = 0
    most: int = 0
    """The most requests at the same time."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour, self.seen, self.lock = behaviour, Seen(), threading.Lock()
        self.random = random.Random(behaviour.seed)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/models/credit:predict"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are no news."""


def rows_of(body: Any) -> list[Any]:
    if isinstance(body, dict) and "inputs" in body and isinstance(body["inputs"][0], dict):
        columns = {part["name"]: part["data"] for part in body["inputs"]}
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if isinstance(body, dict) and "dataframe_split" in body:
        split = body["dataframe_split"]
        return [dict(zip(split["columns"], row, strict=True)) for row in split["data"]]
    return body["instances"] if isinstance(body, dict) and "instances" in body else body


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        server, how = self.server, self.server.behaviour
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = getattr(type(self), "rows", rows_of)(body)
        with server.lock:
            seen = server.seen
            seen.times.append(time.monotonic())
            seen.requests.append(rows)
            seen.bodies.append(body)
            seen.headers.append(dict(self.headers))
            seen.now += 1
            seen.most = max(seen.most, seen.now)
            luck, wait = server.random.random(), how.delay + how.uneven * server.random.random()
        try:
            if wait:
                time.sleep(wait)
            self.respond(how, body, rows, luck)
        finally:
            with server.lock:
                seen.now -= 1

    def respond(self, how: Behaviour, body: Any, rows: list[Any], luck: float) -> None:
        if luck < how.unavailable:
            return self.send(503, b'{"error": "busy"}')
        luck -= how.unavailable
        if 0 <= luck < how.slow:
            time.sleep(0.6)
            return None
        luck -= how.slow
        if 0 <= luck < how.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return self.connection.close()
        luck -= how.reset
        if how.null_fails and any(value is None for row in rows for value in row.values()):
            return self.send(500, b"null is not a number")
        with self.server.lock:
            self.server.seen.rows += [json.dumps(row, sort_keys=True) for row in rows]
        found = how.edit([how.answer(row) for row in rows])
        reply = {"predictions": found} if how.reply is None else how.reply(body, found)
        if how.echo:
            reply["request"] = dict(self.headers)
        content = json.dumps(reply).encode()
        if 0 <= luck < how.cut:
            return self.send(200, content[: len(content) // 2], len(content) if luck < how.cut / 2 else None)
        return self.send(200, content)

    def send(self, status: int, content: bytes, claimed: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if claimed is None else claimed))
        if status == 503 and self.server.behaviour.retry_after is not None:
            self.send_header("Retry-After", self.server.behaviour.retry_after)
        self.end_headers()
        self.wfile.write(content)
        if claimed is not None:
            self.close_connection = True


@contextmanager
def serving(**behaviour: Any) -> Iterator[Server]:
    server = Server(Behaviour(**behaviour))
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
