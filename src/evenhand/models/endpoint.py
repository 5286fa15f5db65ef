"""A model behind HTTP: rows become requests, and answers are assigned to the rows.

The rows of a call are spread over requests and shuffled, so that an individual and its counterparts are not in the same
request. Rows with known answers are mixed in, to detect a model that changes or answers in the wrong order.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from evenhand._files import open_file, open_plain, parse_json
from evenhand._validate import check_int, check_number
from evenhand.errors import FlakyModel, LimitExceeded, ModelError
from evenhand.models.base import Array, Floats, Model, Rows
from evenhand.models.client import as_scores, refuse_labels, to_array
from evenhand.models.protocols import Batch, Protocol, Question, batch_of, make_protocol
from evenhand.models.transport import Failed, Garbled, Secrets, Transport, check_url
from evenhand.spaces.frames import pd

KNOWN = 64
"""Maximum number of rows with known answers."""
ALONE = 4
"""Number of them that are first sent alone, to check that answers come in the order of the rows."""
DOUBTED = 16
"""Maximum number of known rows that are sent again, alone, to find out why an answer differs."""
EVERY = 20
"""One in this many rows has a known answer; with smaller requests, one in this many requests."""
Keep: TypeAlias = Callable[[Sequence[int], list[Any]], None]
"""Takes the places of rows and their answers."""


class Endpoint(Model):
    """A model that answers over HTTP.

    Failed requests are sent again where that can help: after the states 429 and 5xx,
    timeouts, broken connections and answers that were cut off.

    Parameters
    ----------
    url
        The URL of the model: ``.../v2/models/NAME`` for the Open Inference Protocol, otherwise where requests are sent.
    protocol
        "oip" (Open Inference Protocol 2: KServe, Triton, MLServer), "mlflow" (also SageMaker), "instances" (TensorFlow
        Serving, Vertex AI), or a mapping that describes requests and answers; by default guessed from the URL.
    headers
        Headers of each request. Secrets come from the environment: ``{"Authorization": "Bearer ${TOKEN}"}``.
    batch_size
        Maximum rows in one request.
    in_flight
        Maximum simultaneous requests.
    rate
        Maximum requests per second; by default no limit.
    retries
        Maximum number of times a request is sent again. If the server says how long to wait (Retry-After), evenhand
        waits.
    request_timeout
        Seconds to wait for an answer before the request is sent again.
    name
        A name for reports; by default the end of the URL.

    Examples
    --------
    >>> model = Endpoint("http://127.0.0.1:8080/v2/models/credit", headers={"Authorization": "Bearer ${TOKEN}"})
    >>> model.name, model.rows_per_request
    ('credit', 100)
    """

    has_scores = True
    remote: Remote

    def __init__(
        self,
        url: str,
        protocol: str | Mapping[str, Any] | Protocol | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        batch_size: int = 100,
        in_flight: int = 4,
        rate: float | None = None,
        retries: int = 5,
        request_timeout: float = 30.0,
        name: str | None = None,
    ) -> None:
        self.url = check_url(url)
        self.protocol = make_protocol(protocol, url)
        path = urlsplit(self.protocol.url(url)).path.removesuffix("/infer").rstrip("/")
        self.name = name or path.rpartition("/")[2].partition(":")[0] or str(urlsplit(url).hostname)
        self.rows_per_request = check_int("batch_size", batch_size, ModelError, 1)
        check_int("in_flight", in_flight, ModelError, 1)
        check_int("retries", retries, ModelError, 0)
        check_number("request_timeout", request_timeout, ModelError, above=0)
        if rate is not None:
            check_number("rate", rate, ModelError, above=0, remedy="leave it out for no limit")
        self.classes = None if self.protocol.classes is None else np.asarray(self.protocol.classes)
        self.has_scores = self.protocol.scores is not False
        self.decides = self.has_scores and (self.classes is not None or self.protocol.one_answer)
        secrets = Secrets(headers or {})
        self.calls_at_once = in_flight
        self.remote = Remote(Transport(self.name, secrets, in_flight, rate, retries, request_timeout))
        self._resize()

    def _resize(self) -> None:
        if self.protocol.single:
            self.rows_per_request = 1
        self.least_call = self.call_size = self._fresh_rows * self.calls_at_once

    @property
    def _fresh_rows(self) -> int:
        """Number of rows of a request, without those with known answers."""
        return self.rows_per_request - self.rows_per_request // EVERY

    def check(self) -> None:
        """Raise ModelError if an option does not fit; the batch size is that of requests."""
        super().check()
        if self.batch_size is not None:
            self.rows_per_request, self.batch_size = self.batch_size, None
            self._resize()

    def labels(self, X: Rows) -> Array:
        """Return the endpoint's labels, or decide from its scores if it returns these or a threshold is set."""
        if self.has_scores and (self.classes is not None or self.threshold is not None):
            return self.decide(self.scores(X))
        answer = to_array(self._ask(X, "labels"), self.name)
        if answer.ndim == 2 and answer.shape[1] > 1:
            return self.decide(as_scores(answer, len(answer), self.name))
        return answer

    def scores(self, X: Rows) -> Floats:
        """Return the endpoint's scores."""
        if not self.has_scores:
            return super().scores(X)
        answer = to_array(self._ask(X, "scores"), self.name)
        if self.threshold is None:
            refuse_labels(answer, self.name)
        return as_scores(answer, len(answer), self.name)

    def _ask(self, X: Rows, question: Question) -> list[Any]:
        """Query rows, each once, except those that an unfinished block already has answers for."""
        X = self.pick(X)
        batch, journal = batch_of(X), self.remote.journal
        if not len(batch):
            return []
        if journal is None:
            return self._ask_fresh(batch, question)
        keys = _keys(X, question)
        answers = [journal.take(key) for key in keys]
        places = [place for place, answer in enumerate(answers) if answer is _MISSING]

        def keep(part: Sequence[int], found: list[Any]) -> None:
            journal.add([keys[places[at]] for at in part], found)

        if places:
            fresh = batch if len(places) == len(batch) else batch.select(places)
            for place, answer in zip(places, self._ask_fresh(fresh, question, keep), strict=True):
                answers[place] = answer
        return answers

    def _ask_fresh(self, batch: Batch, question: Question, keep: Keep | None = None) -> list[Any]:
        """Query the server about rows, and check its answers to known rows."""
        ask = partial(self._ask_known, question, batch)
        known = self.remote.known(question, (batch.columns, self.protocol), Known(self.name, ask))
        fresh = len(batch)
        requests = max(math.ceil(fresh / self._fresh_rows), min(fresh, self.calls_at_once))
        size = math.ceil(fresh / requests)
        added = known.next(requests * (self.rows_per_request // EVERY) if size >= EVERY else 0)
        rows = [*batch.rows, *(known.rows[at] for at in added)]
        parts = spread(len(rows), requests, seed=_seed(batch.rows[0]))
        answers = self._send(replace(batch, rows=rows), parts, question, keep, fresh)
        known.compare(added, answers[fresh:])
        known.learn(batch.rows, answers[:fresh], in_batch=self.rows_per_request > 1)
        if not added:
            known.count(requests)
        return answers[:fresh]

    def _ask_known(self, question: Question, like: Batch, rows: Sequence[Any], alone: bool) -> list[Any]:
        """Query rows with the columns of a batch, one by one or in as few requests as possible."""
        size = 1 if alone else self.rows_per_request
        parts = [list(range(at, min(at + size, len(rows)))) for at in range(0, len(rows), size)]
        return self._send(replace(like, rows=list(rows)), parts, question)

    def _send(
        self, batch: Batch, parts: list[list[int]], question: Question, keep: Keep | None = None, fresh: int = 0
    ) -> list[Any]:
        """Send a request for each part of the rows; return the answers, in the order of the rows.

        ``keep`` gets the answers of a request as soon as they are there, to the ``fresh`` first rows only.
        """
        answers: list[Any] = [None] * len(batch)

        def number(at: int) -> str:
            return f"{len(parts[at])}-{at}"

        def body(at: int) -> bytes:
            request = self.protocol.request(batch.select(parts[at]), question, number(at))
            try:
                return json.dumps(request, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise ModelError(
                    f"a row cannot be written as JSON ({error})", remedy="give plain numbers and texts"
                ) from None

        def read(at: int, content: bytes) -> None:
            try:
                reply = parse_json(content, self.name)
            except LimitExceeded:
                raise
            except (ValueError, RecursionError) as error:
                raise Garbled(f"it is not JSON, {str(error)[:100]}" if content.strip() else "it is empty") from None
            try:
                found = self.protocol.answers(reply, len(parts[at]), question, number(at))
            except ModelError as error:
                raise ModelError(f"{self.name} {error.reason}", remedy=error.remedy) from None
            pairs = list(zip(parts[at], found, strict=True))
            if keep is not None:
                mine = [pair for pair in pairs if pair[0] < fresh]
                keep([place for place, _ in mine], [answer for _, answer in mine])
            for place, answer in pairs:
                answers[place] = answer

        url = self.protocol.url(self.url)
        try:
            self.remote.transport.send(url, [partial(body, at) for at in range(len(parts))], read)
        except Failed as error:
            self._explain(error, batch, url, question)
            raise
        return answers

    def _explain(self, error: Failed, batch: Batch, url: str, question: Question) -> None:
        """Raise a better error if the endpoint fails for missing values only."""
        rows = batch.rows
        if error.status in (401, 403, 404, 429, 503) or batch.texts or not any(None in row for row in rows):
            return
        whole = next((row for row in rows if None not in row), tuple(map(_stand_in, zip(*rows, strict=True))))
        if None in whole:
            return
        body = json.dumps(self.protocol.request(replace(batch, rows=[whole]), question, "whole")).encode()
        try:
            self.remote.transport.send(url, [lambda: body], lambda _, content: content)
        except ModelError:
            return
        names = batch.columns or tuple(map(str, range(len(whole))))
        lacking = [name for at, name in enumerate(names) if any(row[at] is None for row in rows)]
        raise ModelError(
            f"{self.name} fails for rows with missing values in {', '.join(lacking)}, but answers others: "
            f"{error.reason}",
            remedy="exclude missing values from the space, or make the server accept null",
        ) from None


def _stand_in(values: tuple[Any, ...]) -> Any:
    return next((value for value in values if value is not None), None)


class _Missing:
    """Marks a missing answer."""


_MISSING = _Missing()


def _keys(X: Rows, question: Question) -> list[str]:
    """Return a key for each row, which another process gives the same row."""
    frame = pd.DataFrame({"text": X}) if isinstance(X, list) else pd.DataFrame(X)
    return [f"{question} {key:x}" for key in pd.util.hash_pandas_object(frame, index=False).tolist()]


def _seed(row: Any) -> int:
    return int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "little")


def spread(n: int, requests: int, seed: int) -> list[list[int]]:
    """Distribute positions over requests, so that neighbours are in different ones, and shuffle both.

    >>> parts = spread(7, 3, seed=0)
    >>> sorted(map(sorted, parts))
    [[0, 3, 6], [1, 4], [2, 5]]
    """
    rng = np.random.default_rng([seed % 2**63, n])
    return [rng.permutation(np.arange(at, n, requests)).tolist() for at in rng.permutation(requests).tolist()]


class Known:
    """Rows with known answers, and the comparison of new answers with these.

    ``ask`` queries rows: if ``alone``, each in a request of its own.

    >>> known = Known("rule", lambda rows, alone: [row < 3 for row in rows])
    >>> known.learn([1, 2, 3, 4], [True, True, False, False], in_batch=True)
    >>> known.compare([0], [False])
    Traceback (most recent call last):
    evenhand.errors.FlakyModel: rule answers a row differently in a request with other rows: its answers are not in the
    order of the rows, or depend on the other rows; answer each row independently and in order, or use batch_size=1
    """

    def __init__(self, name: str, ask: Callable[[Sequence[Any], bool], list[Any]]) -> None:
        self.name, self._ask = name, ask
        self.rows: list[Any] = []
        self.answers: list[Any] = []
        self._different: set[str] = set()
        self._at = self._requests = 0
        self._over = False
        """Whether answers are no longer compared, because one differed."""

    def next(self, n: int) -> list[int]:
        """Return the positions of the next n known rows."""
        if not self.rows or self._over:
            return []
        self._at += n
        return [at % len(self.rows) for at in range(self._at - n, self._at)]

    def learn(self, rows: list[Any], answers: list[Any], in_batch: bool) -> None:
        """Record some rows and their answers, those with unique answers first."""
        first = not self.rows
        new = [at for at, answer in enumerate(answers) if self._is_new(answer)] if len(self.rows) < KNOWN else []
        if first:
            new += [at for at in range(len(rows)) if at not in new]
        new = new[: KNOWN - len(self.rows)]
        self.rows += [rows[at] for at in new]
        self.answers += [answers[at] for at in new]
        if first and in_batch and len(rows) > 1:
            # These answers came in requests with other rows.
            places = range(min(ALONE, len(self.rows)))
            self.compare(places, self._ask(self.rows[:ALONE], True), learned=False)

    def _is_new(self, answer: Any) -> bool:
        text = repr(answer)
        if text in self._different or len(self._different) >= KNOWN:
            return False
        self._different.add(text)
        return True

    def count(self, requests: int) -> None:
        """Query the known rows after a number of requests, if these have no room for them."""
        self._requests += requests
        if self._requests >= EVERY * max(1, len(self.rows)):
            self._requests = 0
            self.check()

    def check(self) -> None:
        """Query the known rows again."""
        if self.rows and not self._over:
            self.compare(range(len(self.rows)), self._ask(self.rows, False))

    def compare(self, places: Sequence[int], answers: list[Any], learned: bool = True) -> None:
        """Compare new answers to known rows; raise if they show that the model changed or mixes up rows."""
        wrong = [at for at, new in zip(places, answers, strict=True) if not _same(self.answers[at], new)]
        if not wrong:
            return
        self._over = True
        doubted = list(dict.fromkeys([*wrong, *range(len(self.rows))]))[:DOUBTED]
        rows = [self.rows[at] for at in doubted]
        now, again = self._ask(rows, True), self._ask(rows, True)
        if not all(map(_same, now, again)):
            # The answer is random: the caller repeats the request and reports this.
            return
        if learned and not all(map(_same, [self.answers[at] for at in doubted], now)):
            raise FlakyModel(
                f"the model behind {self.name} changed: it answers {len(wrong)} of {len(places)} rows differently "
                "than when they were first sent",
                len(wrong) / len(places),
                remedy="audit one version of the model, in a new directory",
            )
        raise FlakyModel(
            f"{self.name} answers a row differently in a request with other rows: its answers are "
            "not in the order of the rows, or depend on the other rows",
            1.0,
            remedy="answer each row independently and in order, or use batch_size=1",
        )


def _same(one: Any, other: Any) -> bool:
    """Whether two answers are the same except for rounding."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, float | int) and isinstance(other, float | int)
        return numbers and math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6)
    return bool(one == other)


class Journal:
    """The answers to an unfinished block, so that a killed run repeats only the requests in flight.

    Each line of the file has the answers of one request, by digests of the rows. They belong to the block that begins
    at a position of the log, and are dropped once the log has grown. Each answer is used once.
    """

    def __init__(self, path: Path, position: Callable[[], int]) -> None:
        self.path, self._position = path, position
        self._loaded: dict[str, deque[Any]] | None = None
        self._file: IO[bytes] | None = None
        self._of = -1
        self._lock = threading.Lock()

    def take(self, key: str) -> Any:
        """Return the stored answer for a key, or a marker if there is none."""
        stored = self._current().get(key)
        return stored.popleft() if stored else _MISSING

    def add(self, keys: list[str], answers: list[Any]) -> None:
        """Store the answers of a request."""
        with self._lock:
            self._current()
            if self._file is None:
                self._file = open_plain(self.path)
                self._file.seek(0, os.SEEK_END)
            line = json.dumps({"of": self._of, "keys": keys, "answers": answers}) + "\n"
            # One call, so that a kill leaves complete lines and at most one truncated line.
            self._file.write(line.encode())
            self._file.flush()

    def close(self, delete: bool) -> None:
        """Stop writing; delete the file if the run has ended."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
            if delete:
                self.path.unlink(missing_ok=True)

    def _current(self) -> dict[str, deque[Any]]:
        """Return the stored answers to the current block."""
        position = self._position()
        if self._loaded is None:
            self._loaded = self._read(position)
        elif position != self._of:
            self._loaded = {}
            if self._file is not None:
                self._file.truncate(0)
                self._file.seek(0)
        self._of = position
        return self._loaded

    def _read(self, position: int) -> dict[str, deque[Any]]:
        found: dict[str, deque[Any]] = defaultdict(deque)
        if not self.path.exists():
            return found
        end = 0
        with open_file(self.path, ModelError) as file:
            for line in file:
                try:
                    stored = parse_json(line, self.path)
                    of, keys, answers = stored["of"], stored["keys"], stored["answers"]
                    pairs = list(zip(keys, answers, strict=True))
                except (ValueError, TypeError, KeyError):
                    break
                end += len(line)
                for key, answer in pairs if of == position else []:
                    found[key].append(answer)
        os.truncate(self.path, end if found else 0)
        return found


class Remote:
    """The state that copies of an endpoint share, and what a run does with it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.journal: Journal | None = None
        self._known: dict[Any, Known] = {}
        self._before = 0

    @property
    def sent(self) -> int:
        """Requests sent so far."""
        return self.transport.sent

    def known(self, question: str, shape: tuple[Any, ...], fresh: Known) -> Known:
        """Return the known rows for one kind of query and shape of rows."""
        # A protocol may contain mappings, which are not hashable.
        return self._known.setdefault((question, repr(shape)), fresh)

    @property
    def spent(self) -> int:
        """Requests sent since the run began."""
        return self.sent - self._before

    def start(self) -> None:
        """Forget known rows at the start of a run."""
        self._known, self._before = {}, self.sent
        self.allow(None)

    @contextmanager
    def same_model(self) -> Iterator[None]:
        """Raise if the model changes: known rows are sent again at the end, and if answers are not reproducible."""
        try:
            yield
        except FlakyModel:
            with suppress(Failed):
                self.finish()
            raise
        self.finish()

    def finish(self) -> None:
        """Query all known rows once more; raise if the model has changed."""
        for known in self._known.values():
            known.check()

    def allow(self, requests: int | None) -> None:
        """Limit the number of further requests; None: no limit."""
        self.transport.limit = None if requests is None else self.sent + requests

    def keep(self, path: Path, position: Callable[[], int]) -> None:
        """Store the answers to an unfinished block in a file."""
        self.journal = Journal(path, position)

    def release(self, ended: bool) -> None:
        """Stop storing answers; ``ended``: the stored ones are no longer needed."""
        if self.journal is not None:
            self.journal.close(delete=ended)
            self.journal = None
