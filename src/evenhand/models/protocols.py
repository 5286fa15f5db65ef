"""Requests and answers of endpoints: the Open Inference Protocol, and JSON of any other shape, described by paths."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import numpy as np

from evenhand.errors import FLIP, ModelError
from evenhand.models.base import some
from evenhand.spaces.attributes import suggest

Question: TypeAlias = Literal["labels", "scores"]
Form: TypeAlias = Literal["records", "arrays", "split", "columns", "row"]
EVERY = "*"
"""Stands for each row in a path."""


@dataclass(frozen=True)
class Batch:
    """Rows in Python's own values: tuples with the names of their columns, or texts without names."""

    rows: list[Any]
    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    """NumPy's kind of each column, for columns with only missing values in a request."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def texts(self) -> bool:
        """Whether the rows are texts."""
        return bool(self.rows) and isinstance(self.rows[0], str)

    def select(self, places: Sequence[int]) -> Batch:
        """Return some of the rows."""
        return replace(self, rows=[self.rows[place] for place in places])

    def by_column(self) -> dict[str, list[Any]]:
        """Return the values of each column."""
        return dict(zip(self.names, map(list, zip(*self.rows, strict=True)), strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, or made up ones."""
        return self.columns or tuple(f"x{place}" for place in range(len(self.rows[0])))


def batch_of(X: Any) -> Batch:
    """Make a batch of a frame, an array or texts; missing values become None.

    >>> batch_of(np.array([[1.0, np.nan]])).rows
    [(1.0, None)]
    """
    if isinstance(X, list):
        return Batch(list(X))
    if isinstance(X, np.ndarray):
        return Batch([tuple(map(_plain, row)) for row in X.tolist()])
    columns = [list(map(_plain, one.tolist())) if one.hasnans else one.tolist() for _, one in X.items()]
    kinds = tuple(kind.kind for kind in X.dtypes)
    return Batch(list(zip(*columns, strict=True)), tuple(map(str, X.columns)), kinds)


def _plain(value: Any) -> Any:
    # Only NaN and NaT differ from themselves.
    return None if value is None or value != value else value


class Protocol:
    """Writes requests, and reads answers."""

    classes: tuple[Any, ...] | None
    scores: str | bool

    @property
    def single(self) -> bool:
        """Whether a request has one row."""
        return False

    @property
    def one_answer(self) -> bool:
        """Whether the same request asks for labels and for scores."""
        return False

    def url(self, given: str) -> str:
        """Return where requests go."""
        return given

    def request(self, batch: Batch, question: Question, number: str) -> Any:
        """Write a request, as plain values."""
        raise NotImplementedError

    def answers(self, reply: Any, n: int, question: Question, number: str) -> list[Any]:
        """Read one answer for each of n rows; raise ``ModelError`` if they do not fit the request."""
        raise NotImplementedError


@dataclass(frozen=True)
class JsonProtocol(Protocol):
    """JSON whose parts are found by paths: names and positions separated by dots, with ``*`` for each row."""

    rows: str = "instances"
    """The place of the rows in the request; empty: the request is the list of rows."""
    form: Form = "records"
    """The form of the rows: objects, arrays, columns and data, one array for each column, or one request per row."""
    labels: str = "predictions"
    """The place of the labels in the answer."""
    scores: str | bool = True
    """The place of the scores; true: the place of the labels; false: there are none."""
    classes: tuple[Any, ...] | None = None
    """The labels of the scores, in their order."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Other contents of each request."""
    score_body: Mapping[str, Any] = field(default_factory=dict)
    """Additional contents of a request for scores."""
    id: str | None = None
    """The name of the number of each row."""
    ids: str | None = None
    """The place of these numbers in the answer."""

    @property
    def single(self) -> bool:
        """Whether a request has one row."""
        return self.form == "row"

    @property
    def one_answer(self) -> bool:
        """Whether the same request asks for labels and for scores."""
        return self.scores in (True, self.labels) and not self.score_body

    def request(self, batch: Batch, question: Question, number: str) -> Any:
        """Write a request."""
        del number
        body = {**self.body, **(self.score_body if question == "scores" else {})}
        return _placed(body, self.rows, self._written(batch))

    def _written(self, batch: Batch) -> Any:
        if batch.texts:
            return batch.rows[0] if self.single else batch.rows
        if self.form == "split":
            return {"columns": batch.names, "data": batch.rows}
        if self.form == "columns":
            return batch.by_column()
        if self.form == "arrays" or batch.columns is None:
            rows: list[Any] = batch.rows
        else:
            numbered = {} if self.id is None else {self.id: 0}
            rows = [
                {**dict(zip(batch.columns, row, strict=True)), **dict.fromkeys(numbered, at)}
                for at, row in enumerate(batch.rows)
            ]
        return rows[0] if self.single else rows

    def answers(self, reply: Any, n: int, question: Question, number: str) -> list[Any]:
        """Read the answers; if the rows have numbers, in their order."""
        del number
        path = self.scores if question == "scores" and isinstance(self.scores, str) else self.labels
        found = [_single(_found(reply, path))] if self.single and EVERY not in path else _each(reply, path)
        _check_count(found, n)
        if question == "scores":
            found = [_score(answer) for answer in found]
        if self.ids is not None:
            numbers = _each(reply, self.ids)
            if sorted(numbers, key=repr) != sorted(range(n), key=repr):
                raise ModelError(f"answered other rows than the ones sent: {some(numbers)}")
            found = [answer for _, answer in sorted(zip(numbers, found, strict=True), key=lambda pair: pair[0])]
        return found


@dataclass(frozen=True)
class OipProtocol(Protocol):
    """The Open Inference Protocol, version 2, of KServe, Triton and MLServer."""

    labels: str | None = None
    """The name of the output with the labels; by default the only one, or the one called ``predict``."""
    scores: str | bool = "predict_proba"
    """The name of the output with the scores; false: there is none."""
    classes: tuple[Any, ...] | None = None
    """The labels of the scores, in their order."""
    input: str | None = None
    """The name of a single input that takes whole rows, or texts; by default there is an input for each column."""
    datatype: str | None = None
    """The type of that input, such as FP32; by default that of the values."""
    column_shape: Literal["n", "n,1"] = "n"
    """The shape of the input of a column: Triton wants [n, 1], MLServer takes [n]."""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"content_type": "pd"})
    """Parameters of each request; MLServer needs to be told to make a frame of the inputs."""

    def url(self, given: str) -> str:
        """Return where requests go: the model's URL, and /infer."""
        return given if given.rstrip("/").endswith("/infer") else given.rstrip("/") + "/infer"

    def request(self, batch: Batch, question: Question, number: str) -> Any:
        """Write a request."""
        n = len(batch)
        body: dict[str, Any] = {"id": number}
        if batch.texts:
            body["inputs"] = [_tensor(self.input or "text", [n], batch.rows, self.datatype)]
        elif self.input is not None:
            flat = [value for row in batch.rows for value in row]
            body["inputs"] = [_tensor(self.input, [n, len(batch.rows[0])], flat, self.datatype)]
        else:
            shape = [n] if self.column_shape == "n" else [n, 1]
            kinds = batch.kinds or "f" * len(batch.rows[0])
            body["inputs"] = [
                _tensor(
                    name,
                    shape,
                    values,
                    None if any(value is not None for value in values) else _ABSENT.get(kind, "BYTES"),
                )
                for kind, (name, values) in zip(kinds, batch.by_column().items(), strict=True)
            ]
            if self.parameters:
                body["parameters"] = dict(self.parameters)
        wanted = self.scores if question == "scores" else self.labels
        if isinstance(wanted, str):
            body["outputs"] = [{"name": wanted}]
        return body

    def answers(self, reply: Any, n: int, question: Question, number: str) -> list[Any]:
        """Read the answers of the output that was asked for."""
        outputs = _found(reply, "outputs")
        if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
            raise ModelError("answers without a list of outputs", remedy="is this the Open Inference Protocol?")
        if isinstance(reply.get("id"), str) and reply["id"] != number:
            raise ModelError(f"answered a different request: {reply['id'][:80]!r}")
        names = [str(one.get("name")) for one in outputs]
        wanted = self.scores if question == "scores" else self.labels
        if not isinstance(wanted, str):
            wanted = names[0] if len(names) == 1 else "predict"
        if wanted not in names:
            what = f"was asked for {question}, the output {wanted!r}, and answers with {some(names)}"
            raise ModelError(what, remedy=f"name the output with {question}: {question} in the mapping of the protocol")
        output = outputs[names.index(wanted)]
        shape, data = output.get("shape"), output.get("data")
        if not isinstance(data, list) or not isinstance(shape, list) or not shape:
            raise ModelError(f"returned the output {wanted!r} without data or shape")
        if len(data) > 0 and isinstance(data[0], list):
            found = data
        else:
            if shape[0] != n:
                _check_count(range(shape[0] if isinstance(shape[0], int) else 0), n)
            width = len(data) // n if n and len(shape) > 1 else 1
            if len(data) != n * width:
                raise ModelError(f"returned {len(data)} values for the output {wanted!r} of shape {shape}")
            found = data if len(shape) == 1 else [data[at * width : (at + 1) * width] for at in range(n)]
        _check_count(found, n)
        return [_score(answer) for answer in found] if question == "scores" else [_single(one) for one in found]


PROTOCOLS: dict[str, JsonProtocol | OipProtocol] = {
    "oip": OipProtocol(),
    "mlflow": JsonProtocol(rows="dataframe_split", form="split"),
    "instances": JsonProtocol(),
    "json": JsonProtocol(),
}
"""Protocols by name; ``json`` is the base of custom descriptions."""


def make_protocol(given: Any, url: str) -> Protocol:
    """Return a protocol by its name, by a mapping with its settings, or by what the URL looks like.

    >>> make_protocol(None, "http://models:8080/v2/models/credit").url("http://models:8080/v2/models/credit")
    'http://models:8080/v2/models/credit/infer'
    >>> make_protocol({"rows": "input", "labels": "output"}, "http://models:8000/predict").request(
    ...     Batch([(1,)], ("age",)), "labels", "")
    {'input': [{'age': 1}]}
    """
    if isinstance(given, Protocol):
        return given
    settings = dict(given) if isinstance(given, Mapping) else {}
    name = settings.pop("type", "json") if isinstance(given, Mapping) else given or guess(url)
    if not isinstance(name, str) or name not in PROTOCOLS:
        raise ModelError(
            f"must be one of {', '.join(PROTOCOLS)}, or a table", parameter="protocol", value=name,
            remedy="'evenhand probe URL' shows what an endpoint takes",
        )  # fmt: skip
    start = PROTOCOLS[name]
    kind = type(start)
    known = [one.name for one in fields(kind)]
    for key, value in settings.items():
        if key not in known:
            raise ModelError(f"has no setting {key!r}", parameter="protocol", remedy=suggest(key, known))
        _check_setting(key, value)
    if "classes" in settings:
        settings["classes"] = tuple(settings["classes"])
    values = {one: getattr(start, one) for one in known} | settings
    return kind(**values)


def _check_setting(key: str, value: Any) -> None:
    if key in ("body", "score_body", "parameters"):
        good = isinstance(value, Mapping)
    elif key == "classes":
        good = isinstance(value, list | tuple) and len(value) > 1
    elif key == "scores":
        good = isinstance(value, str | bool)
    elif key == "form":
        good = value in get_args(Form)
    elif key == "column_shape":
        good = value in ("n", "n,1")
    else:
        good = isinstance(value, str)
    if not good:
        raise ModelError("has a wrong value", parameter=f"protocol.{key}", value=value)


def guess(url: str) -> str:
    """Guess the protocol from a URL.

    >>> guess("http://models:8080/v2/models/credit")
    'oip'
    """
    path = urlsplit(url).path.rstrip("/")
    if "/v2/models/" in path:
        return "oip"
    if path.endswith("/invocations"):
        return "mlflow"
    if path.endswith(":predict"):
        return "instances"
    raise ModelError(
        "is needed, because it cannot be guessed from the URL", parameter="protocol",
        remedy="give oip, mlflow, instances, or a table; 'evenhand probe URL' shows what an endpoint takes",
    )  # fmt: skip


_ABSENT = {"b": "BOOL", "i": "INT64", "u": "INT64", "f": "FP64"}
"""The type of a column without a value, by its kind."""


def _tensor(name: str, shape: list[int], values: list[Any], datatype: str | None = None) -> dict[str, Any]:
    kinds = {type(value) for value in values if value is not None}
    if datatype is None:
        if kinds <= {bool}:
            datatype = "BOOL"
        elif kinds <= {int, bool}:
            datatype = "INT64"
        elif kinds <= {int, float, bool}:
            datatype = "FP64"
        elif kinds == {str}:
            datatype = "BYTES"
        else:
            raise ModelError(
                f"the column {name!r} mixes texts and numbers, which a tensor cannot hold",
                remedy="make its values texts in the space",
            )
    made: dict[str, Any] = {"name": name, "shape": shape, "datatype": datatype, "data": values}
    if datatype == "BYTES":
        made["parameters"] = {"content_type": "str"}
    return made


def _placed(body: dict[str, Any], path: str, rows: Any) -> Any:
    """Put rows into a request."""
    if not path:
        return rows
    *outer, last = path.split(".")
    place = body
    for name in outer:
        inner = place.get(name)
        place[name] = dict(inner) if isinstance(inner, dict) else {}
        place = place[name]
    place[last] = rows
    return body


def _found(value: Any, path: str) -> Any:
    """Follow a path.

    >>> _found({"a": [{"b": 1}]}, "a.0.b")
    1
    """
    for name in filter(None, path.split(".")):
        if isinstance(value, list) and name.lstrip("-").isdigit() and -len(value) <= int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            names = f"the names {some(list(value))}" if value else "no names"
            has = names if isinstance(value, dict) else f"a {_kind(value)}"
            raise ModelError(
                f"answers without {path!r}: where {name!r} should be, it has {has}",
                remedy="say where the answers are: labels in the mapping of the protocol",
            )
    return value


def _each(reply: Any, path: str) -> list[Any]:
    """Return what a path leads to for each row.

    >>> _each({"out": [{"label": "a"}, {"label": "b"}]}, "out.*.label")
    ['a', 'b']
    """
    parts = path.split(".")
    outer, inner = (parts[: parts.index(EVERY)], parts[parts.index(EVERY) + 1 :]) if EVERY in parts else (parts, [])
    rows = _found(reply, ".".join(outer))
    if not isinstance(rows, list):
        raise ModelError(f"returned a {_kind(rows)} at {'.'.join(outer)!r} instead of a list with one answer per row")
    found = [_found(row, ".".join(inner)) for row in rows] if inner else rows
    if found and isinstance(found[0], dict):
        raise ModelError(
            f"answers each row with an object of {some(list(found[0]))}",
            remedy=f'name the one that is the label: labels = "{path}.*.NAME" in the mapping of the protocol',
        )
    return [_single(one) for one in found]


def _check_count(found: Sequence[Any], n: int) -> None:
    if len(found) != n:
        raise ModelError(
            f"gives {len(found)} answers for {n} rows", remedy="it must return one for each row, in their order"
        )


def _single(answer: Any) -> Any:
    """Take a label out of a list of one; a list of numbers are scores.

    >>> _single(["yes"]), _single([0.2, 0.8])
    ('yes', [0.2, 0.8])
    """
    if not isinstance(answer, list):
        return answer
    if len(answer) == 1:
        return answer if isinstance(answer[0], float) else answer[0]
    if all(type(one) in (int, float) for one in answer[:2]):
        return answer
    raise ModelError(
        f"answers a row with {len(answer)} values such as {json.dumps(answer)[:80]}",
        remedy="say where the label of a row is: labels in the mapping of the protocol",
    )


def _score(answer: Any) -> Any:
    """Return an answer that is a score; raise if it is a label."""
    values = answer if isinstance(answer, list) else [answer]
    if values and all(isinstance(one, float) or (isinstance(answer, list) and type(one) is int) for one in values):
        return answer
    if isinstance(answer, int) and not isinstance(answer, bool):
        # A whole number is a label, unless others are fractions; the caller checks this.
        return answer
    raise ModelError(
        f"was asked for scores but answers with labels such as {json.dumps(answer)[:80]}",
        remedy=(
            "name where they are: scores in the mapping of the protocol; or use ",
            FLIP,
        ),
    )


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "null")
