"""Sends requests to an endpoint: several in flight, at a limited rate, with retries after temporary failures.

Header values come from the environment. They are used only to send requests: they are not stored, and if a server
repeats them, they are hidden.
"""

from __future__ import annotations

import base64
import email.utils
import html
import http.client
import io
import ipaddress
import json
import os
import random
import re
import select
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit, urlunsplit

from evenhand._files import limit
from evenhand.errors import ModelError, Words

T = TypeVar("T")
_HEADER = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_NAME = re.compile(r"\$\{(\w+)\}")
_SENSITIVE = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)
_KEYS = {"sig", "code", "pass", "pwd", "sas"}
"""What else secrets are called in the query of a URL."""
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 30.0
"""Seconds before the first retry, doubled each time, and the maximum."""
_PATIENCE = 300.0
"""Maximum seconds that a server may ask to wait."""
_MARGIN = 1.05
"""Requests are sent with this much more distance than the rate requires, because some arrive closer together."""
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_PIECE = 2**16
_OPEN = ("_lock", "_idle", "_busy", "_workers")
"""What a copy in another process creates for itself."""
_HEADERS = {"Accept": "application/json", "User-Agent": "python"}
_UNQUOTED = "/?%:@!$&'()*+,;=~[]"
"""Characters of a URL that stay as they are, besides letters and digits."""


class Failed(ModelError):
    """A request that failed finally; ``status`` is that of the last answer, None if there was none.

    ``reached``: whether there was a connection to a server of HTTP.
    """

    def __init__(self, problem: str, status: int | None = None, remedy: Words = "", reached: bool = True) -> None:
        super().__init__(problem, remedy=remedy)
        self.status, self.reached = status, reached


class Garbled(Exception):
    """An answer that cannot be read: it may be truncated, so the request is sent again."""


class RequestsSpent(ModelError):
    """The budget of requests was reached."""


class _Stopped(Exception):
    """Another request failed, or the caller gave up."""


class Secrets:
    """Headers whose values come from the environment.

    >>> os.environ["SCORING_TOKEN"] = "t-12345678"
    >>> secrets = Secrets({"Authorization": "Bearer ${SCORING_TOKEN}"})
    >>> secrets.headers()
    {'Authorization': 'Bearer t-12345678'}
    >>> secrets.hide("the token t-12345678 has expired")
    'the token *** has expired'
    """

    def __init__(self, templates: Mapping[str, str]) -> None:
        self.templates = dict(templates)
        for name, value in self.templates.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise ModelError("must be names and texts", parameter="headers", value=list(self.templates))
            if not _HEADER.fullmatch(name):
                raise ModelError("must have names of letters, digits and dashes", parameter="headers", value=name)
            if not value.isascii() or not value.isprintable():
                raise ModelError(f"the header {name} must be plain text", remedy="use ASCII characters on one line")
            if _SENSITIVE.search(name) and not _NAME.search(value):
                # The error must not contain the value.
                raise ModelError(
                    f"the header {name!r} must take its value from the environment",
                    remedy=f'write a name instead of the value, such as {name} = "${{MY_TOKEN}}", and set MY_TOKEN',
                )

    def headers(self) -> dict[str, str]:
        """Return the headers with their values."""
        return {name: _NAME.sub(self._value, template) for name, template in self.templates.items()}

    def _value(self, found: re.Match[str]) -> str:
        value = os.environ.get(found[1])
        if not value:
            raise ModelError(
                f"the environment variable {found[1]}, which a header needs, is not set", remedy=f"set {found[1]}"
            )
        if not value.isascii() or not value.isprintable():
            raise ModelError(
                f"the environment variable {found[1]} contains characters that a header must not have",
                remedy="set it to plain text on one line",
            )
        return value

    def hide(self, text: str) -> str:
        """Replace the values in a text."""
        for value in self._values():
            text = text.replace(value, "***")
        return text

    def inside(self, content: bytes) -> bool:
        """Whether some bytes repeat a value."""
        return any(value.encode() in content for value in self._values())

    def _values(self) -> list[str]:
        """Return the values and their words, also as JSON, HTML and URLs write them; the longest first."""
        names = {name for template in self.templates.values() for name in _NAME.findall(template)}
        found = {word for name in names for value in [os.environ.get(name, "")] for word in (value, *value.split())}
        for word in list(found):
            text = json.dumps(word)[1:-1]
            found |= {text, text.replace("/", "\\/"), html.escape(word), quote(word), quote(word, safe="")}
        return sorted((value for value in found if len(value) > 3), key=len, reverse=True)


def check_url(url: Any) -> str:
    """Return a URL that can be shown and stored.

    >>> check_url("http://127.0.0.1:8080/invocations")
    'http://127.0.0.1:8080/invocations'
    """
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.fragment
    except (ValueError, TypeError, AttributeError):
        parts, valid = urlsplit(""), False
    if parts.username or parts.password:
        # The error must not contain it, because it is secret.
        raise ModelError("the URL contains a user or a password", remedy="pass them in a header, from the environment")
    if any(_SENSITIVE.search(name) or name in _KEYS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise ModelError("the URL contains a key or a token", remedy="pass it in a header, from the environment")
    if not valid or not url.isprintable() or " " in url:
        shown = "***" if isinstance(url, str) and re.search("[@?#]", url) else url
        raise ModelError(
            "must be a URL of http or https",
            parameter="url",
            value=shown,
            remedy="such as http://127.0.0.1:8080/predict",
        )
    return str(url)


class Request(NamedTuple):
    """What to send where."""

    method: Literal["GET", "POST"]
    url: str
    content: bytes = b""


class Transport:
    """Sends requests to one server, and counts them."""

    def __init__(
        self, name: str, secrets: Secrets, in_flight: int, rate: float | None, retries: int, timeout: float
    ) -> None:
        self.name, self.secrets, self.in_flight = name, secrets, in_flight
        self.rate, self.retries, self.timeout = rate, retries, timeout
        self.sent = 0
        """Number of requests sent so far, including retries."""
        self.repeated = 0
        self.limit: int | None = None
        """The number of requests at which sending ends."""
        self._next = 0.0
        self._random = random.Random(0)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: deque[Connection] = deque()
        self._busy: set[Connection] = set()
        self._workers: ThreadPoolExecutor | None = None
        # Even if close() is never called.
        weakref.finalize(self, _close_all, self._idle)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _OPEN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def send(self, url: str, bodies: Sequence[Callable[[], bytes]], read: Callable[[int, bytes], T]) -> list[T]:
        """Post all bodies, several at once; ``read`` turns the bytes of each answer into a value.

        The answers come in the order of the bodies. The first failure ends the rest.
        """
        answers: dict[int, T] = {}
        faults: dict[int, Exception] = {}
        left, ready, stop = deque(range(len(bodies))), deque[tuple[int, bytes]](), threading.Event()
        many = min(self.in_flight, len(bodies))

        def prepare() -> None:
            at = _next(left) if len(ready) < many else None
            if at is not None:
                with noted(at):
                    ready.append((at, bodies[at]()))

        @contextmanager
        def noted(at: int) -> Iterator[None]:
            try:
                yield
            except _Stopped:
                pass
            except Exception as fault:  # raised again below, in the caller's thread
                faults[at] = fault
                stop.set()

        def work() -> None:
            while not stop.is_set():
                if not ready:
                    prepare()
                job = _next(ready)
                if job is None:
                    return
                at, body = job
                with noted(at):
                    # While the server answers, the next body is made.
                    answers[at] = self._exchange(Request("POST", url, body), partial(read, at), stop, prepare)

        try:
            if many == 1:
                work()
            else:
                if self._workers is None:
                    self._workers = ThreadPoolExecutor(self.in_flight, thread_name_prefix="evenhand asks")
                wait([self._workers.submit(work) for _ in range(many)])
        except BaseException:
            # Ctrl-C: nothing waits for answers that are not wanted any more.
            stop.set()
            for connection in list(self._busy):
                connection.abort()
            raise
        if faults:
            # The first in the order of the rows, so that the same fault gives the same error.
            raise faults[min(faults)] from None
        return [answers[at] for at in range(len(bodies))]

    def get(self, url: str) -> bytes:
        """Get a page of the server, such as the description of a model."""
        return self._exchange(Request("GET", url), lambda content: content, threading.Event())

    def close(self) -> None:
        """Close all connections."""
        _close_all(self._idle)
        if self._workers is not None:
            self._workers.shutdown(wait=False)
        self._workers = None

    def _exchange(
        self,
        request: Request,
        read: Callable[[bytes], T],
        stop: threading.Event,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> T:
        """Send a request until it is answered or has failed too often."""
        for attempt in range(self.retries + 1):
            status, asked_to_wait, reached = None, 0.0, True
            try:
                self._take_turn(stop, again=attempt > 0)
                # The server may have closed the idle ones: a second attempt is made with a new one.
                connection = (None if attempt else _next(self._idle)) or Connection(request.url)
                status, answer, wanted = self._once(connection, request, meanwhile)
                if status < 300:
                    return read(answer)
                problem = f"answered {status}{self._quoted(answer)}"
                if status not in _AGAIN:
                    raise Failed(f"{self.name} {problem}", status, _advice(status))
                asked_to_wait = _seconds(wanted)
            except Garbled as error:
                problem = f"gave an answer that cannot be read: {error}{self._quoted(answer)}"
            except Unanswered as error:
                problem, reached = self._shown(error.problem), error.reached
                if error.remedy:
                    raise Failed(f"{self.name} {problem}", remedy=error.remedy, reached=reached) from None
            if asked_to_wait > _PATIENCE:
                raise Failed(
                    f"{self.name} {problem}, and asks to wait for {asked_to_wait:,.0f} seconds", status, "try later"
                )
            if attempt < self.retries:
                self._pause(stop, attempt, asked_to_wait)
        times = f" {self.retries + 1} times" if self.retries else ""
        raise Failed(f"{self.name} {problem}{times}", status, "check the server, or allow more retries", reached)

    def _once(self, connection: Connection, request: Request, meanwhile: Callable[[], None]) -> tuple[int, bytes, str]:
        """Send a request once; return the status, the body, and how long the server asks to wait."""
        response = None
        self._busy.add(connection)
        try:
            response, answer = connection.exchange(request, self.secrets.headers(), self.timeout, meanwhile)
        finally:
            self._busy.remove(connection)
            if response is not None and len(self._idle) < self.in_flight:
                self._idle.append(connection)
            else:
                connection.close()
        if response.status < 300 and self.secrets.inside(answer):
            raise Failed(
                f"{self.name} repeats a secret of the request in its answer, where it would be stored", response.status
            )
        return response.status, answer, response.getheader("Retry-After", "")

    def _take_turn(self, stop: threading.Event, again: bool) -> None:
        """Wait until the next request may be sent, and count it."""
        while True:
            with self._lock:
                if stop.is_set():
                    raise _Stopped
                if self.limit is not None and self.sent >= self.limit:
                    raise RequestsSpent("the budget of requests was reached")
                now = time.monotonic()
                delay = self._next - now
                if delay <= 0:
                    self.sent += 1
                    self.repeated += again
                    if self.rate is not None:
                        self._next = now + _MARGIN / self.rate
                    return
            stop.wait(delay)

    def _pause(self, stop: threading.Event, attempt: int, asked: float) -> None:
        """Wait before a retry; if the server says how long, all requests wait."""
        with self._lock:
            spread = 0.5 + self._random.random()
            if asked:
                self._next = max(self._next, time.monotonic() + asked)
        if stop.wait(max(asked, min(_LONGEST_WAIT, spread * _FIRST_WAIT * 2**attempt))):
            raise _Stopped

    def _quoted(self, answer: bytes) -> str:
        text = self._shown(answer[:2000].decode("utf-8", "replace"))
        return f" ({text})" if text else ""

    def _shown(self, text: str) -> str:
        """Return the beginning of what a server sent, without secrets, and on one line."""
        return " ".join(self.secrets.hide(text).split())[:300]


class Unanswered(Exception):
    """A request without an answer. It is sent again, unless there is a remedy, which has to come first."""

    def __init__(self, problem: str, remedy: str = "", reached: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.reached = problem, remedy, reached


class AddressGuard:
    """Connects to public addresses only, and to those that are allowed.

    A name is resolved once. All its addresses are checked, and the connection is made to one that was checked, so a
    name that resolves to something else the next time gains nothing.

    >>> AddressGuard().check("127.0.0.1"), AddressGuard(["10.0.0.0/8"]).check("10.1.2.3")
    (False, True)
    """

    def __init__(self, allowed: Sequence[str] = (), resolve: Callable[..., Any] = socket.getaddrinfo) -> None:
        try:
            self.allowed = [ipaddress.ip_network(network) for network in allowed]
        except ValueError as error:
            raise ModelError(
                "must be networks", parameter="allowed", value=str(error), remedy="such as 10.0.0.0/8"
            ) from None
        self._resolve = resolve

    def check(self, address: str) -> bool:
        """Whether connections to an address are allowed."""
        found = ipaddress.ip_address(address.partition("%")[0])
        if any(found in network for network in self.allowed):
            return True
        if isinstance(found, ipaddress.IPv6Address):
            # An address of version 4 inside one of version 6 is where the connection ends.
            inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
            if any(found in network for network in _TRANSLATED):
                inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
            if inner is not None:
                return self.check(str(inner))
        return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)

    def connect(self, host: str, port: int, seconds: float) -> socket.socket:
        """Resolve a name, check all its addresses, and connect to the first that answers."""
        found = self._resolve(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not addresses or not all(map(self.check, addresses)):
            # The error must not contain the addresses: they would describe the network of the server.
            raise Unanswered(
                f"is at an address that is not allowed ({host})",
                "ask an administrator to allow it, or choose a model at a public address",
                reached=False,
            )
        fault: OSError | None = None
        for address in addresses:
            try:
                return socket.create_connection((address, port), seconds)
            except OSError as error:
                fault = error
        assert fault is not None
        raise fault


_TRANSLATED = [ipaddress.ip_network(one) for one in ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")]
"""Addresses of version 6 that stand for one of version 4, in their last bits."""


def guard_connections(guard: AddressGuard | None) -> None:
    """Have a guard make all connections of this process; proxies of the environment are then not used."""
    Connection.guard = guard


class Connection:
    """A connection to the server of a URL, made when the first request needs it.

    The time limit holds for an exchange as a whole, however slowly the server sends.
    """

    guard: ClassVar[AddressGuard | None] = None

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)
        self._proxy = None if self.guard else _proxy_for(self._url)
        self._open: tuple[http.client.HTTPConnection, _TimedSocket] | None = None

    def exchange(
        self, request: Request, headers: Mapping[str, str], seconds: float, meanwhile: Callable[[], None]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request, and do something else meanwhile; return the response and its body."""
        end = time.monotonic() + seconds
        if self._open is not None and self._open[1].is_readable():
            # The server has closed it: nothing was asked.
            self.close()
        reached = self._open is not None
        try:
            if self._open is None:
                self._open = self._opened(seconds)
                reached = True
            connection, sock = self._open
            sock.end = end
            target, login = self._target(request.url)
            headers = {**_HEADERS, **login, **headers}
            if request.content:
                headers["Content-Type"] = "application/json"
            connection.request(request.method, target, request.content or None, headers)
            sock.flush()
            meanwhile()
            with connection.getresponse() as response:
                answer = _read(response)
        except TimeoutError:
            raise Unanswered(f"did not answer within {seconds:g} seconds", reached=reached) from None
        except ssl.SSLCertVerificationError as error:
            raise Unanswered(
                f"has a certificate that is not trusted ({error.verify_message})",
                "name a file with the certificate of its authority in SSL_CERT_FILE",
            ) from None
        except http.client.IncompleteRead:
            raise Unanswered("sent an incomplete answer") from None
        except (OSError, UnicodeError, http.client.RemoteDisconnected) as error:
            what = "broke the connection" if reached else "cannot be reached"
            raise Unanswered(f"{what} ({error or type(error).__name__})", reached=reached) from None
        except http.client.HTTPException as error:
            raise Unanswered(
                f"does not answer in HTTP ({str(error).strip() or type(error).__name__})", reached=False
            ) from None
        if response.will_close:
            self.close()
        return response, answer

    def abort(self) -> None:
        """End an exchange that another thread waits for."""
        if self._open is not None:
            self._open[1].abort()

    def close(self) -> None:
        """Close it; the next request opens it again."""
        if self._open is not None:
            self._open[0].close()
            self._open = None

    def _opened(self, seconds: float) -> tuple[http.client.HTTPConnection, _TimedSocket]:
        url, proxy = self._url, self._proxy
        to = url if proxy is None else proxy
        host, port = str(to.hostname), to.port
        if url.scheme == "https":
            made: http.client.HTTPConnection
            made = http.client.HTTPSConnection(host, port or 443, timeout=seconds, context=_trusted())
            if proxy is not None:
                made.set_tunnel(str(url.hostname), url.port, _login(proxy))
        else:
            made = http.client.HTTPConnection(host, port, timeout=seconds)
        if self.guard is None:
            made.connect()
        else:
            plain = self.guard.connect(host, made.port, seconds)
            made.sock = _trusted().wrap_socket(plain, server_hostname=host) if url.scheme == "https" else plain
        sock: Any = _TimedSocket(made.sock)
        made.sock = sock
        return made, sock

    def _target(self, url: str) -> tuple[str, dict[str, str]]:
        """Return what a request asks for, and the headers for a proxy that reads it."""
        parts = urlsplit(url)
        path = quote(urlunsplit(("", "", parts.path or "/", parts.query, "")), safe=_UNQUOTED)
        if self._proxy is None or parts.scheme == "https":
            return path, {}
        return f"http://{parts.netloc}{path}", _login(self._proxy)


class _TimedSocket:
    """A socket of which all that is sent and received has to be done by one time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._unsent = sock, b""
        self.end = 0.0

    def is_readable(self) -> bool:
        """Whether something can be received, if only that the other side has closed it."""
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([self._sock], [], [], 0)[0])

    def sendall(self, data: bytes) -> None:
        # Kept, so that the head and the body of a request leave together.
        self._unsent += data

    def flush(self) -> None:
        self.allow()
        self._sock.sendall(self._unsent)
        self._unsent = b""

    def makefile(self, mode: Literal["rb"]) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._sock.makefile(mode, buffering=0)))

    def abort(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def allow(self) -> None:
        """Give the next operation the time that is left."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)


class _TimedReader(io.RawIOBase):
    """Receives from a timed socket."""

    def __init__(self, sock: _TimedSocket, file: socket.SocketIO) -> None:
        self._sock, self._file = sock, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.allow()
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def _next(queue: deque[T]) -> T | None:
    """Take the next of a queue that several threads take from."""
    try:
        return queue.popleft()
    except IndexError:
        return None


def _close_all(connections: deque[Connection]) -> None:
    while connections:
        connections.pop().close()


def _read(response: http.client.HTTPResponse) -> bytes:
    """Read the body of a response."""
    if response.getheader("Content-Encoding", "identity") != "identity":
        raise Unanswered("compresses its answers, though it was asked not to", "turn compression off")
    most, size, parts = limit("json_bytes"), 0, []
    while part := response.read(_PIECE):
        size += len(part)
        if size > most:
            raise Unanswered(f"answers with more than {most:,} bytes", "use smaller batches")
        parts.append(part)
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return b"".join(parts)


@cache
def _trusted() -> ssl.SSLContext:
    # Certificates as the environment says: SSL_CERT_FILE and SSL_CERT_DIR.
    return ssl.create_default_context()


def _proxy_for(url: SplitResult) -> SplitResult | None:
    """Return the proxy that the environment names for a server; none is used for this machine."""
    if url.hostname in _LOCAL:
        return None
    from urllib.request import getproxies, proxy_bypass

    named = getproxies()
    given = named.get(url.scheme) or named.get("all")
    if not given or proxy_bypass(str(url.hostname)):
        return None
    try:
        proxy = urlsplit(given if "://" in given else f"http://{given}")
        usable = proxy.scheme == "http" and bool(proxy.hostname) and proxy.port != 0
    except ValueError:
        usable = False
    if not usable:
        # Not repeated: it may have a password.
        raise ModelError(
            f"the proxy for {url.scheme} in the environment is not an HTTP proxy",
            remedy=f"set {url.scheme}_proxy to http://HOST:PORT, or no_proxy to {url.hostname}",
        )
    return proxy


def _login(proxy: SplitResult) -> dict[str, str]:
    """Return the header with the name and the password of a proxy's URL."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _advice(status: int) -> str:
    if status in (401, 403):
        return "check the header with the credentials"
    if status in (404, 405):
        return "check the URL and the protocol; 'evenhand probe URL' shows what an endpoint takes"
    return "'evenhand probe URL' shows what an endpoint takes" if status >= 400 else "give the URL that it points to"


def _seconds(wanted: str) -> float:
    """Read how long a server asks to wait: seconds, or a date.

    >>> _seconds("2"), _seconds("")
    (2.0, 0.0)
    """
    if re.fullmatch(r"\d{1,9}(\.\d+)?", wanted):
        return float(wanted)
    try:
        then = email.utils.parsedate_to_datetime(wanted).astimezone(UTC)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
