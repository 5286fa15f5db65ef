"""Requests over real connections, to servers that answer byte by byte as a test wants."""

from __future__ import annotations

import gzip
import html
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import evenhand as eh
from evenhand.errors import LimitExceeded, ModelError
from evenhand.models import transport
from evenhand.models.transport import Failed, Secrets, Transport

Talk = Callable[[socket.socket], Any]
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def reply(content: bytes, head: bytes = b"", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(content), head, content)


class Server:
    """Answers each request with bytes, or has a function talk."""

    def __init__(self, answer: bytes | Talk, address: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket.create_server((address, 0), family=family)
        self.talk: Talk = answer if callable(answer) else lambda client: client.sendall(answer)
        self.tls, self.open, self.heads = tls, list[socket.socket](), list[bytes]()
        self.port = self.socket.getsockname()[1]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}/predict"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                self.open.append(client)
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            if self.tls is not None:
                client = self.tls.wrap_socket(client, server_side=True)
                self.open.append(client)
            while head := self.request(client):
                self.heads.append(head)
                self.talk(client)
                if not callable(self.talk):
                    return

    def request(self, client: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := client.recv(2**16)):
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        while len(body) < length:
            body += client.recv(2**16)
        return head

    def close(self) -> None:
        for one in (self.socket, *self.open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextmanager
def serving(answer: bytes | Talk, **settings: Any) -> Iterator[Server]:
    server = Server(answer, **settings)
    try:
        yield server
    finally:
        server.close()


def asks(headers: dict[str, str] | None = None, retries: int = 1, seconds: float = 5.0) -> Transport:
    return Transport("credit", Secrets(headers or {}), 2, None, retries, seconds)


def post(url: str, n: int = 1, **settings: Any) -> list[bytes]:
    with closing(asks(**settings)) as sender:
        return sender.send(url, [lambda: b"{}"] * n, lambda _, content: content)


def and_close(content: bytes) -> Talk:
    def talk(client: socket.socket) -> None:
        client.sendall(content)
        client.shutdown(socket.SHUT_RDWR)

    return talk


def again_and_again(content: bytes, first: bytes = b"") -> Talk:
    def talk(client: socket.socket) -> None:
        client.sendall(first)
        while True:
            client.sendall(content)
            time.sleep(0.01)

    return talk


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=y\r\n}\r\n0\r\nX: y\r\n\r\n",
        reply(b"{}", status=b"201 Created"),
        and_close(b"HTTP/1.0 200 OK\r\n\r\n{}"),
        and_close(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}"),
        and_close(GOOD),
        GOOD + GOOD,
    ],
    ids=["plain", "continue", "chunked", "created", "http 1.0", "to the end", "closed without a word", "twice"],
)
def test_answers_in_every_form_of_http(answer: bytes | Talk) -> None:
    with serving(answer) as server:
        assert post(server.url, 7) == [b"{}"] * 7


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (and_close(b""), "broke the connection"),
        (and_close(GOOD[:-1]), "sent an incomplete answer"),
        (and_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{"), "sent an incomplete answer"),
        (and_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"), "sent an incomplete answer"),
        (and_close(b"\x00\x1b[31m\r\n\r\n"), r"does not answer in HTTP \(\\x00\\x1b\[31m"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2**17, "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 1000 + b"\r\n", "does not answer in HTTP"),
        (reply(gzip.compress(b"{}", mtime=0), b"Content-Encoding: gzip\r\n"), "compresses its answers"),
        (reply(b"", b"Location: http://127.0.0.1/\r\n", b"302 Found"), "answered 302; give the URL that it points to"),
        (reply(b"<html>\n<h1>no</h1>", status=b"500 Oops"), r"answered 500 \(<html> <h1>no</h1>\) 2 times"),
        (reply(b"no", status=b"401 Unauthorized"), r"answered 401 \(no\); check the header with the credentials"),
        (reply(b"", b"Retry-After: Mon, 01 Jan 0001 00:00:00 +1400\r\n", b"503 Busy"), "answered 503 2 times"),
        (reply(b"", b"Retry-After: inf\r\n", b"503 Busy"), "answered 503 2 times"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(answer: bytes | Talk, words: str) -> None:
    with serving(answer) as server, pytest.raises(Failed, match=words) as raised:
        post(server.url)
    assert raised.value.remedy
    assert len(server.heads) <= 2


@pytest.mark.parametrize(
    "answer",
    [
        lambda client: time.sleep(2),
        again_and_again(b"H"),
        again_and_again(b"HTTP/1.1 100 Continue\r\n\r\n"),
        again_and_again(b"X: y\r\n", b"HTTP/1.1 200 OK\r\n"),
        again_and_again(b"1,", b"HTTP/1.1 200 OK\r\n\r\n["),
        again_and_again(b" ", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        again_and_again(b"1\r\n \r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ],
    ids=["none", "status", "continue", "headers", "to the end", "body", "chunks"],
)
def test_the_time_limit_is_that_of_the_whole_answer(answer: Talk) -> None:
    with serving(answer) as server, pytest.raises(Failed, match=r"did not answer within 0\.3 seconds"):
        post(server.url, retries=0, seconds=0.3)


@pytest.mark.parametrize("head", [b"Content-Length: 99999999", b"Transfer-Encoding: chunked", b"X: y"])
def test_a_huge_answer_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setenv("EVENHAND_LIMIT_JSON_BYTES", "100000")
    start = b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (head, b"FFFFFFF\r\n" * head.startswith(b"Transfer"))
    with serving(again_and_again(b" " * 2**16, start)) as server, pytest.raises(Failed, match="more than 100,000"):
        post(server.url)


def test_deep_answers_are_refused() -> None:
    with serving(reply(b"[" * 100_000)) as server, pytest.raises(LimitExceeded, match="nesting"):
        eh.Endpoint(server.url, "instances", retries=0).labels([[1.0]])


def test_a_page_instead_of_json_is_shown() -> None:
    with serving(reply(b"<h1>Sign in</h1>")) as server, pytest.raises(ModelError, match=r"JSON.*<h1>Sign in</h1>"):
        eh.Endpoint(server.url, "instances", retries=0).labels([[1.0]])


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1/x", "http://no-such-host.invalid/x", "http://a..b/x", f"http://{'a' * 70}.b/x",
     "http://modèle.invalid/x"],
)  # fmt: skip
def test_a_server_that_is_not_there(url: str) -> None:
    with pytest.raises(Failed, match="cannot be reached") as raised:
        post(url)
    assert not raised.value.reached


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/x", "http:///x", "http://[::1/x", "http://[zz]/x", None, 3])
def test_invalid_urls(url: Any) -> None:
    with pytest.raises(ModelError, match="must be a URL") as raised:
        eh.Endpoint(url, "instances")
    assert raised.value.parameter == "url"


@pytest.mark.parametrize(
    "url", ["http://user:s3cr3t/en@127.0.0.1/x", "http://127.0.0.1/x#s3cr3t", "http://127.0.0.1:x/?token=s3cr3t"]
)
def test_invalid_urls_with_secrets_are_not_repeated(url: str) -> None:
    with pytest.raises(ModelError) as raised:
        eh.Endpoint(url, "instances")
    assert "s3cr3t" not in str(raised.value)


def test_any_address_and_path() -> None:
    with serving(GOOD, address="::1") as server:
        assert post(server.url) == [b"{}"]
    with serving(GOOD) as server:
        assert post(f"{server.url}/modèle?größe=1&x=%20") == [b"{}"]
    assert server.heads[0].startswith(b"POST /predict/mod%C3%A8le?gr%C3%B6%C3%9Fe=1&x=%20 HTTP/1.1\r\n")


def test_connections_that_were_closed_meanwhile_are_made_again() -> None:
    with serving(GOOD) as server, closing(asks(retries=0)) as sender:
        for _ in range(3):
            assert sender.send(server.url, [lambda: b"{}"] * 4, lambda _, content: content) == [b"{}"] * 4
            for one in server.open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
    assert len(server.heads) == sender.sent == 12


def test_a_certificate_has_to_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost"], cwd=tmp_path, check=True, capture_output=True
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    transport._trusted.cache_clear()
    with serving(GOOD, tls=tls) as server:
        url = f"https://localhost:{server.port}/predict"
        with pytest.raises(Failed, match=r"not trusted \(self-signed") as raised:
            post(url)
        assert "SSL_CERT_FILE" in raised.value.remedy
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        transport._trusted.cache_clear()
        assert post(url, 5) == [b"{}"] * 5
        with pytest.raises(Failed, match="is not valid for '127"):
            post(url.replace("localhost", "127.0.0.1"))
    transport._trusted.cache_clear()


def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(GOOD) as server:
        monkeypatch.setenv("http_proxy", f"http://us%40er:pass@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "other.invalid")
        assert post("http://model.invalid/predict") == [b"{}"]
        with pytest.raises(Failed, match="cannot be reached"):
            post("http://other.invalid/predict")
    assert server.heads[0].startswith(b"POST http://model.invalid/predict HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dXNAZXI6cGFzcw==" in server.heads[0]
    for proxy in ("socks5://u:secret@127.0.0.1:1", "http://[", "http://127.0.0.1:99999"):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(ModelError, match="proxy") as raised:
            post("http://model.invalid/predict")
        assert "secret" not in str(raised.value)


def test_a_tunnel_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply(b"", status=b"407 Login")) as server:
        monkeypatch.setenv("https_proxy", f"http://user:secret@127.0.0.1:{server.port}")
        with pytest.raises(Failed, match="cannot be reached .*407") as raised:
            post("https://model.invalid/predict", retries=0)
    assert server.heads[0].startswith(b"CONNECT model.invalid:443 HTTP/1.")
    assert b"Proxy-Authorization: Basic" in server.heads[0]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("value", ['a"b/c d', "Bearer abcd-1234", "<&>'\"/\\"])
def test_secrets_are_hidden_however_they_are_written(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SCORING_TOKEN", value)
    secrets = Secrets({"Authorization": "${SCORING_TOKEN}"})
    ways = [value, value.split()[-1], json.dumps(value)[1:-1], json.dumps(value)[1:-1].replace("/", "\\/")]
    for way in [*ways, html.escape(value), quote(value), quote(value, safe="")]:
        if len(way) > 3:
            assert secrets.hide(f"the token {way} has expired") == "the token *** has expired"
            assert secrets.inside(f'{{"token": "{way}"}}'.encode())


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"X Client": "a"}, "names"), ({"": "a"}, "names"), ({"X-Client": "a\r\nHost: b"}, "plain text"),
     ({"X-Client": "é"}, "plain text"), ({"X-Client": 3}, "texts")],
)  # fmt: skip
def test_headers_that_cannot_be_sent(headers: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        Secrets(headers)


@pytest.mark.parametrize("query", ["sig=abc", "code=abc", "x=1&api_key=", "Access-Token=abc"])
def test_urls_with_secrets_are_refused(query: str) -> None:
    with pytest.raises(ModelError, match="a key or a token") as raised:
        eh.Endpoint(f"http://127.0.0.1/predict?{query}", "instances")
    assert "abc" not in str(raised.value)


def test_the_first_fault_in_the_order_of_the_bodies_is_raised() -> None:
    def body(at: int) -> bytes:
        if at in (3, 4):
            raise ModelError(f"row {at}")
        return b"{}"

    with serving(GOOD) as server, closing(asks()) as sender, pytest.raises(ModelError, match="row 3"):
        sender.send(server.url, [partial(body, at) for at in range(9)], lambda _, content: content)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_ends_all_exchanges() -> None:
    both, done = threading.Barrier(2), threading.Event()

    def talk(client: socket.socket) -> None:
        if both.wait(20) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        # Nothing is sent: this ends when the other side gives up.
        client.recv(1)
        done.set()

    with serving(talk) as server, closing(asks(seconds=200)) as sender:
        with pytest.raises(KeyboardInterrupt):
            sender.send(server.url, [lambda: b"{}"] * 4, lambda _, content: content)
        assert done.wait(20)
        assert sender.sent == 2
