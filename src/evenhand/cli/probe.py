"""The command ``evenhand probe``: what an endpoint takes and gives, as a configuration to start from."""

from __future__ import annotations

import json
import re
import textwrap
import time
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import numpy as np

from evenhand._files import parse_json
from evenhand.cli.output import console, echo, emit
from evenhand.cli.plan import get_rows
from evenhand.config.file import Config, toml
from evenhand.errors import ConfigError, EvenhandError, ModelError
from evenhand.models.base import some
from evenhand.models.client import to_array
from evenhand.models.endpoint import Endpoint
from evenhand.models.protocols import PROTOCOLS, Batch, batch_of, guess, make_protocol
from evenhand.models.transport import Failed, Garbled, Secrets, Transport, check_url
from evenhand.spaces.text.readers import read_texts

ROWS, FIRST = 50, 3
"""Rows to ask about in total, and in the first request, which is shown."""
_NAMES = ("instances", "inputs", "data", "rows", "records", "texts", "")
"""Where the rows may be in a JSON request."""
_SECONDS = 30.0
LONGEST, WIDTH = 300, 112
"""Characters of a description, and columns of a comment."""
Settings = dict[str, Any]


def probe(config: Config) -> None:
    """Ask an endpoint about a few rows in several ways; print the way that it answers as a configuration."""
    url = check_url(config.call.url)
    server = _Server(config, url)
    places = list(server.places())
    rows = _rows(config, server)
    tried: list[str] = []
    for place in places:
        for settings in server.ways(place, rows):
            try:
                found = _Found(server, place, settings, rows)
            except (ModelError, Garbled) as error:
                if isinstance(error, Failed) and (not error.reached or error.status in (401, 403)):
                    raise
                tried.append(f"{place} as {_way(settings)}: {str(error)[:160]}")
                continue
            values = "\n".join(_written(config, found))
            if config.call.json:
                emit({"about": _about(found), "config": tomllib.loads(values)})
                return
            echo("\n".join((*_comments(_about(found)), "# Run with: evenhand audit FILE", "", values)))
            return
    raise ConfigError(
        f"{url} answers none of {len(tried)} kinds of requests; the first: {tried[0]}",
        remedy='describe its requests: --config FILE with [endpoint.mapping], such as rows = "data.people"',
    )


class _Server:
    """A server, and how it describes itself."""

    def __init__(self, config: Config, url: str) -> None:
        self.url, self.table = url, config.endpoint
        secrets = Secrets(config.endpoint.headers)
        self.transport = Transport(str(urlsplit(url).hostname), secrets, 1, config.endpoint.rate, 1, _SECONDS)

    def get(self, path: str) -> Any:
        """Get a page as JSON; None if there is none."""
        try:
            return parse_json(self.transport.get(urljoin(self.url, path)), path)
        except Failed as error:
            if not error.reached:
                raise
            return None
        except (EvenhandError, ValueError):
            return None

    def ask(self, url: str, body: Any) -> Any:
        """Post a request; return the answer."""

        def read(_: int, content: bytes) -> Any:
            try:
                return parse_json(content, url)
            except ValueError:
                raise ModelError(f"returns something other than JSON: {content[:60]!r}") from None

        return self.transport.send(url, [lambda: json.dumps(body).encode()], read)[0]

    def places(self) -> Iterator[str]:
        """Yield the URLs that may take requests: the given one, or those that the server lists."""
        path = urlsplit(self.url).path.strip("/")
        if path:
            yield self.url
            return
        try:
            index = self.ask(urljoin(self.url, "/v2/repository/index"), {})
        except ModelError as error:
            if isinstance(error, Failed) and not error.reached:
                raise
            index = []
        yield from (urljoin(self.url, f"/v2/models/{one['name']}") for one in index if isinstance(one, dict))
        described = (self.get("/openapi.json") or {}).get("paths", {})
        yield from (
            urljoin(self.url, place)
            for place, about in described.items()
            # A path that begins with two slashes names another server.
            if "post" in about and "{" not in place and place.startswith("/") and not place.startswith("//")
        )
        yield self.url

    def ways(self, place: str, rows: Batch) -> Iterator[Settings]:
        """Yield the protocol settings to try: those of the configuration, or all, likely ones first."""
        if self.table.mapping or self.table.protocol:
            yield {"type": self.table.protocol or "json", **self.table.mapping}
            return
        try:
            first = guess(place)
            yield {"type": first}
        except ModelError:
            first = ""
        yield from ({"type": name} for name in PROTOCOLS if name not in (first, "json"))
        names = dict.fromkeys((*self._described(place), *_NAMES))
        forms = ("records",) if rows.texts or rows.columns is None else ("records", "arrays")
        yield from ({"type": "json", "rows": name, "form": form} for form in forms for name in names)
        yield {"type": "json", "rows": "text" if rows.texts else "", "form": "row"}

    def _described(self, place: str) -> Iterator[str]:
        """Yield the names of lists in requests, as described by FastAPI and others."""
        page = self.get("/openapi.json") or {}
        for name, schema in page.get("components", {}).get("schemas", {}).items():
            if urlsplit(place).path in page.get("paths", {}) and "Error" not in name:
                parts = schema.get("properties", {}).items()
                yield from (part for part, about in parts if about.get("type") == "array")


def _rows(config: Config, server: _Server) -> Batch:
    """Return rows to ask about: from the data, from the texts, or made from the server's description of its inputs."""
    if config.text is not None and config.text.path is not None:
        texts = read_texts(config.text.path, config.text.column, config.text.encoding)
        return Batch([text for text in texts if text][:ROWS])
    data = get_rows(config)
    if data is not None:
        lost = {config.data.target, *config.space.exclude}
        chosen = data[[name for name in data.columns if name not in lost]].dropna()
        places: Any = np.unique(np.linspace(0, len(chosen) - 1, ROWS).astype(int)) if len(chosen) else []
        return batch_of(chosen.iloc[places] if len(chosen) else data[chosen.columns][:ROWS])
    about = server.get(urlsplit(server.url).path.removesuffix("/infer")) or {}
    inputs = about.get("inputs") if isinstance(about, dict) else None
    if not inputs:
        raise ConfigError("no rows to ask about", remedy="name some: --data FILE, or --texts FILE")
    values = tuple("a" if one.get("datatype") == "BYTES" else 0 for one in inputs)
    return Batch([values] * FIRST, tuple(str(one["name"]) for one in inputs))


class _Found:
    """A way in which an endpoint answers, and its answers."""

    def __init__(self, server: _Server, place: str, settings: Settings, rows: Batch) -> None:
        self.server, self.place, self.rows = server, place, rows
        protocol = make_protocol(settings, place)
        asked = rows.select([0] if protocol.single else range(min(FIRST, len(rows))))
        self.request = protocol.request(asked, "labels", "probe")
        start = time.monotonic()
        self.reply = server.ask(protocol.url(place), self.request)
        self.seconds = time.monotonic() - start
        try:
            protocol.answers(self.reply, len(asked), "labels", "probe")
        except ModelError:
            path = None if settings["type"] == "oip" else _answers_in(self.reply, len(asked), protocol.single)
            if path is None:
                raise
            settings = {"rows": "instances", **settings, "labels": path}
            if settings["type"] != "json":
                start_with = PROTOCOLS[settings["type"]]
                settings |= {"type": "json", "rows": start_with.rows, "form": start_with.form}  # type: ignore[union-attr]
        self.settings = settings
        table = server.table
        self.model = Endpoint(
            place, settings, headers=table.headers, rate=table.rate, retries=0, in_flight=1, request_timeout=_SECONDS
        )
        self.answers = to_array(self._ask(rows), "the endpoint")
        self.gives_scores = self.answers.dtype.kind == "f"
        self.by_class = self.answers.ndim > 1 and self.answers.shape[1] > 1

    def _ask(self, rows: Batch, question: Any = "labels") -> list[Any]:
        return self.model._ask_fresh(rows, question)

    def scores(self) -> str:
        """Describe whether the endpoint returns scores."""
        if self.gives_scores:
            return f"returned without being asked for, such as {self.answers[0].tolist()}"
        some = range(min(FIRST, len(self.rows)))
        try:
            found = self._ask(self.rows.select(some), "scores")
        except EvenhandError as error:
            return f"none: {error.reason}" if isinstance(error, ModelError) else f"none: {error}"
        if found == self.answers[: len(found)].tolist():
            return "none: asked for scores, it returns the decisions"
        return f"returned, such as {json.dumps(found[0])}"

    def nulls(self) -> str:
        """Describe for which columns the endpoint accepts null."""
        columns = self.rows.columns or ()
        failed = []
        for at, name in enumerate(columns):
            row = tuple(None if place == at else value for place, value in enumerate(self.rows.rows[0]))
            try:
                self._ask(Batch([row], self.rows.columns, self.rows.kinds))
            except EvenhandError:
                failed.append(name)
        answered = [name for name in columns if name not in failed]
        said = [f"{what} for {some(names)}" for what, names in (("answered", answered), ("an error", failed)) if names]
        return "; ".join(said)


def _answers_in(reply: Any, n: int, single: bool, path: str = "") -> str | None:
    """Find the path of the only list with one answer per row, or of the only value if one row was asked about.

    >>> _answers_in({"out": [{"label": "a", "rank": {}}, {"label": "b", "rank": {}}]}, 2, single=False)
    'out.*.label'
    """
    if not isinstance(reply, dict | list):
        return path if single and path else None
    if isinstance(reply, list) and len(reply) == n and not single:
        inner = reply[0]
        if not isinstance(inner, dict):
            return path
        plain = [name for name, value in inner.items() if not isinstance(value, dict | list)]
        return f"{path}{'.' * bool(path)}*.{plain[0]}" if plain else None
    parts = reply.items() if isinstance(reply, dict) else ()
    found = [_answers_in(value, n, single, f"{path}{'.' * bool(path)}{name}") for name, value in parts]
    return next((one for one in found if one is not None), None)


def _way(settings: Mapping[str, Any]) -> str:
    where = f" with rows in {settings['rows']!r}" if settings.get("rows") else ""
    return f"{settings['type']}{where}{' (arrays)' * (settings.get('form') == 'arrays')}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _about(found: _Found) -> dict[str, str]:
    """Describe what was found."""
    decisions = ", ".join(sorted({str(one) for one in found.answers.tolist()}))
    if found.gives_scores:
        decisions = "numbers; a threshold turns them into decisions"
        if found.by_class:
            decisions = "the class with the highest score"
    return {
        "takes": json.dumps(found.request),
        "gives": json.dumps(found.reply),
        "decisions": decisions,
        "scores": found.scores(),
        "null": found.nulls() if not found.rows.texts else "not for texts",
        "time": f"{1000 * found.seconds:,.0f} ms for the first request",
    }


def _comments(about: Mapping[str, str]) -> Iterator[str]:
    """Write a description as comments of a configuration."""
    for name, value in about.items():
        text = value if len(value) <= LONGEST else f"{value[:LONGEST]} ..."
        yield from textwrap.wrap(
            text, min(WIDTH, console().width), initial_indent=f"# {name:<10}", subsequent_indent=f"# {'':<10}",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


def _written(config: Config, found: _Found) -> Iterator[str]:
    """Write the configuration."""
    yield from ("[model]", f"path = {toml(found.place)}")
    if found.gives_scores and not found.by_class:
        yield "threshold = 0.5"
    settings = dict(found.settings)
    yield from ("", "[endpoint]", f"protocol = {toml(settings.pop('type'))}")
    yield from (f"{name} = {toml(value)}" for name, value in found.server.table.given("rate").items())
    yield from (
        "batch_size = 100            # Maximum rows per request",
        "in_flight = 4               # Maximum requests at once",
    )
    for part, table in (("mapping", settings), ("headers", found.server.table.headers)):
        if table:
            yield from (
                "",
                f"[endpoint.{part}]",
                *(f"{_key(name)} = {toml(value)}" for name, value in table.items()),
            )
    yield ""
    if found.rows.texts and config.text is not None:
        protected = config.space.protected or config.text.protected or ["religion"]
        yield from ("[text]", *(f"{key} = {toml(value)}" for key, value in config.text.given("path", "column").items()))
    else:
        protected = config.space.protected
        yield from ("[data]", *(f"{key} = {toml(value)}" for key, value in config.data.given().items()))
        yield from ("", "[space]")
    yield (
        f"protected = {toml(protected)}" if protected else "protected = []              # Name the protected attributes"
    )
