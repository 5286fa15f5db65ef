"""Formats for continuous integration: JUnit XML, as Ant and most servers read it, and SARIF 2.1.0."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from evenhand._format import plain, visible
from evenhand._version import __version__
from evenhand.engine.store import RESULT
from evenhand.errors import RunError
from evenhand.runs.pairs import Pair, pairs_at

if TYPE_CHECKING:
    from evenhand.runs.run import Run

MEANING = (
    "The model's decision changes if only the protected attribute changes. Whether that is unlawful or justified is "
    "for people to judge."
)


def to_junit(run: Run, max_findings: int) -> str:
    """Return a run as a test suite: one failed case for each of the first findings, or one passed case.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> 'tests="1" failures="0"' in to_junit(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"), 10)
    True
    """
    name = plain(f"{run.identity.model} by {', '.join(run.space.protected)}")
    pairs = pairs_at(run.pairs, np.arange(min(run.found, max_findings)))
    cases = [_case(number, pair, name) for number, pair in enumerate(pairs, 1)] or [_passed(run, name)]
    facts = {
        "strategy": run.identity.search,
        "seed": run.identity.seed,
        "criterion": run.identity.criterion,
        "tests judged": run.tests,
        "findings": run.found,
        "findings confirmed": run.confirmed,
        "findings refuted": run.refuted,
        "findings listed": len(pairs),
        "evenhand": run.versions.get("evenhand", ""),
    }
    if run.note is not None:
        facts["note"] = run.note
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<testsuites>",
        f'<testsuite name={quoteattr(name)} package="evenhand" id="0" timestamp="{_when(run)}" hostname="localhost" '
        f'tests="{len(cases)}" failures="{len(pairs)}" errors="0" time="{run.seconds:.3f}">',
        "<properties>",
        *(f"<property name={quoteattr(key)} value={quoteattr(plain(value))}/>" for key, value in facts.items()),
        "</properties>",
        *cases,
        f"<system-out>{escape(plain(_summary(run, len(pairs))))}</system-out>",
        "<system-err/>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(number: int, pair: Pair, suite: str) -> str:
    text = visible(pair.sentence)
    title = f"finding {number}: {pair.swapped} must not matter"
    return (
        f'<testcase name={quoteattr(title)} classname={quoteattr(suite)} time="0">'
        f'<failure type="unequal treatment" message={quoteattr(text)}>{escape(text)}</failure></testcase>'
    )


def _passed(run: Run, suite: str) -> str:
    title = f"no difference found in {run.tests:,} tests"
    return f'<testcase name="{title}" classname={quoteattr(suite)} time="{run.seconds:.3f}"/>'


def _summary(run: Run, listed: int) -> str:
    return f"{run!r}. {listed:,} of {run.found:,} findings are listed here."


def _when(run: Run) -> str:
    """When the run ended if that is known, otherwise now."""
    try:
        assert run.directory is not None
        moment = datetime.fromtimestamp((run.directory / RESULT).stat().st_mtime, UTC)
    except (AssertionError, OSError):
        moment = datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")


def to_sarif(run: Run, max_findings: int, artifact: str | None = None) -> str:
    """Return a run as a SARIF log in ASCII, with its first findings and the number of all.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["member"], space, strategy="themis")
    >>> json.loads(to_sarif(run, 10))["runs"][0]["results"][0]["ruleId"]
    'unequal-treatment/member'
    """
    pairs = pairs_at(run.pairs, np.arange(min(run.found, max_findings)))
    broken = [f"unequal-treatment/{pair.broken}" for pair in pairs]
    rules = sorted(set(broken))
    place = None if artifact is None else {"artifactLocation": {"uri": _uri(artifact)}, "region": {"startLine": 1}}
    log = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "evenhand", "version": __version__, "rules": [_described(r) for r in rules]}
                },
                "invocations": [_invocation(run, len(pairs))],
                "results": [_result(*it, rules, place) for it in zip(pairs, broken, strict=True)],
                "properties": {
                    "findings": run.found,
                    "confirmed": run.confirmed,
                    "refuted": run.refuted,
                    "listed": len(pairs),
                    "tests": run.tests,
                },
            }
        ],
    }
    return json.dumps(log, allow_nan=False) + "\n"


def _described(rule: str) -> dict[str, Any]:
    names = rule.partition("/")[2]
    return {
        "id": rule,
        "name": "UnequalTreatment",
        "shortDescription": {"text": f"A change of {names} alone changes the decision"},
        "fullDescription": {"text": MEANING},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(pair: Pair, rule: str, rules: list[str], place: dict[str, Any] | None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"name": "individual", "fullyQualifiedName": visible(pair.who), "kind": "object"}]
    }
    if place is not None:
        location["physicalLocation"] = place
    return {
        "ruleId": rule,
        "ruleIndex": rules.index(rule),
        "level": "warning",
        "message": {"text": visible(pair.sentence)},
        "locations": [location],
        "partialFingerprints": {"individual/v1": hashlib.sha256(json.dumps(pair.shared).encode()).hexdigest()[:32]},
        "properties": {key: value for key, value in pair.to_dict().items() if key != "sentence"},
    }


def _invocation(run: Run, listed: int) -> dict[str, Any]:
    note = {"level": "note", "message": {"text": plain(_summary(run, listed))}}
    return {"executionSuccessful": True, "toolExecutionNotifications": [note]}


def _uri(artifact: str) -> str:
    path = PurePath(artifact)
    if path.is_absolute() or ".." in path.parts or "\\" in artifact or not path.parts:
        raise RunError(
            "must be a path within the repository", parameter="artifact", value=artifact, remedy="use 'evenhand.toml'"
        )
    return quote(path.as_posix(), errors="surrogatepass")
