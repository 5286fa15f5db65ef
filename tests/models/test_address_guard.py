"""Connections to public addresses only: no spelling, no name and no proxy leads to others."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from evenhand.errors import ModelError
from evenhand.models.endpoint import Endpoint
from evenhand.models.transport import AddressGuard, guard_connections

SPELLINGS = [
    "127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]", "169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fd00::1]",
    "[fe80::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "0.0.0.0", "[::]", "255.255.255.255", "224.0.0.1",
    "[::127.0.0.1]", "[64:ff9b:1::a00:1]", "127.0.0.1.", "192.0.2.1",
]  # fmt: skip
PUBLIC = "93.184.216.34"


class Server(http.server.BaseHTTPRequestHandler):
    hits: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.hits.append(self.headers["host"])
        self.rfile.read(int(self.headers["content-length"]))
        if "redirect" in self.path:
            self.send_response(302)
            self.send_header("location", f"http://127.0.0.1:{self.server.server_address[1]}/secret")
            self.send_header("content-length", "0")
            self.end_headers()
            return
        body = b'{"predictions": [1]}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Server.hits.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()
    guard_connections(None)


def ask(host: str, port: int, path: str = "/predict") -> Any:
    model = Endpoint(f"http://{host}:{port}{path}", "instances", retries=0, request_timeout=20)
    try:
        return model.remote.transport.send(model.url, [lambda: b'{"instances": [[1]]}'], lambda _, content: content)
    finally:
        model.remote.transport.close()


def answers(port: int, *addresses: str) -> list[Any]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


@pytest.mark.parametrize("host", SPELLINGS)
def test_no_spelling_leads_to_this_network(port: int, host: str) -> None:
    guard_connections(AddressGuard())
    with pytest.raises(ModelError):
        ask(host, port)
    assert Server.hits == []


def test_one_private_address_among_public_ones_is_enough(port: int) -> None:
    guard_connections(AddressGuard(resolve=lambda *_, **__: answers(port, PUBLIC, "127.0.0.1")))
    with pytest.raises(ModelError) as raised:
        ask("mixed.test", port)
    assert "not allowed" in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)
    assert Server.hits == []


def test_a_name_is_resolved_once_for_a_connection(port: int) -> None:
    """The second answer of a name that is rebound is never asked for: the address that was checked is used."""
    asked: list[str] = []

    def resolve(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        return answers(port, "127.0.0.1") if len(asked) > 1 else answers(port, "127.0.0.2")

    guard_connections(AddressGuard(["127.0.0.2/32"], resolve))
    with pytest.raises(ModelError):
        ask("rebound.test", port)
    assert asked == ["rebound.test"]
    assert Server.hits == []
    # The next connection resolves again, and checks again.
    with pytest.raises(ModelError, match="not allowed"):
        ask("rebound.test", port)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_proxies_are_not_used(port: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    guard_connections(AddressGuard(resolve=lambda *_, **__: answers(port, "10.0.0.9")))
    with pytest.raises(ModelError, match="not allowed"):
        ask("inner.test", port)
    assert Server.hits == []


def test_redirects_are_not_followed(port: int) -> None:
    guard_connections(AddressGuard(["127.0.0.1/32"]))
    with pytest.raises(ModelError, match="302"):
        ask("127.0.0.1", port, "/redirect")
    assert len(Server.hits) == 1


def test_an_allowed_address_is_asked_by_its_name(port: int) -> None:
    guard_connections(AddressGuard(["127.0.0.0/8"], lambda *_, **__: answers(port, "127.0.0.1")))
    assert ask("model.test", port)
    assert Server.hits == [f"model.test:{port}"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "unix:///x", "gopher://127.0.0.1/x"])
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(ModelError):
        Endpoint(url)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("::ffff:8.8.8.8", True), ("64:ff9b::808:808", True)],
)
def test_public_addresses_are_allowed(address: str, allowed: bool) -> None:
    assert AddressGuard().check(address) == allowed


def test_networks_are_checked() -> None:
    with pytest.raises(ModelError) as raised:
        AddressGuard(["10.0.0.0/33"])
    assert raised.value.parameter == "allowed"
