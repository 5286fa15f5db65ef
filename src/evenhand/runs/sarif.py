"""A run as SARIF 2.1.0: each finding is a result, by a rule for each set of protected attributes that changed it."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from evenhand._format import (visible)
from evenhand._version import (__version__)
from evenhand.errors import (RunError)
from evenhand.text_words import (TextPair, lexicons_of)
from evenhand.words import (Pair, pairs_at, plain)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evenhand.runs.run import (Run)

MEANING = (
    "The model decides otherwise about a person if nothing but the protected attribute is different. Whether that is "
    "unlawful or justified is for people to say."
)


def to_sarif(run: Run, most: int, artifact: str | None = None) -> str:
    """Give a run as a SARIF log, in pure ASCII; the first findings are listed, and how many there are is said.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> run = eh.audit(lambda f: f["member"], space, strategy="themis")
    >>> json.loads(to_sarif(run, 10))["runs"][0]["results"][0]["ruleId"]
    'unequal-treatment/member'
    """
    pairs = pairs_at(run, np.arange(min(run.found, most)))
    broken = _broken(run, pairs)
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
                "results": [_result(run, *it, rules, place) for it in zip(pairs, broken, strict=True)],
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


def _broken(run: Run, pairs: Sequence[Pair | TextPair]) -> list[str]:
    """Give the rule that each pair breaks, named like what must not matter."""
    changed = [
        "+".join(plain(name) for name in run.space.protected if name in pair.changes)
        for pair in pairs
        if isinstance(pair, Pair)
    ] or lexicons_of([pair for pair in pairs if isinstance(pair, TextPair)], getattr(run.space, "lexicons", ()))
    return [f"unequal-treatment/{plain(names)}" for names in changed]


def _described(rule: str) -> dict[str, Any]:
    names = rule.partition("/")[2]
    return {
        "id": rule,
        "name": "UnequalTreatment",
        "shortDescription": {"text": f"A change of {names} alone changes the decision"},
        "fullDescription": {"text": MEANING},
        "defaultConfiguration": {"level": "warning"},
    }


def _result(
    run: Run, pair: Pair | TextPair, rule: str, rules: list[str], place: dict[str, Any] | None
) -> dict[str, Any]:
    told = pair.to_dict()
    free = pair.shared if isinstance(pair, TextPair) else [[n, told["individual"][n]] for n in _free(run, pair)]
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
        "partialFingerprints": {"individual/v1": hashlib.sha256(json.dumps(free).encode()).hexdigest()[:32]},
        "properties": {key: value for key, value in told.items() if key != "sentence"},
    }


def _free(run: Run, pair: Pair) -> Sequence[str]:
    """Name what makes the pair a test of its own."""
    if run.space.supports("attributes"):
        return tuple(run.space.free)
    return [name for name in pair.individual if name not in pair.changes]


def _invocation(run: Run, listed: int) -> dict[str, Any]:
    told = f"{run!r}. {listed:,} of {run.found:,} findings are listed here."
    return {
        "executionSuccessful": True,
        "toolExecutionNotifications": [{"level": "note", "message": {"text": plain(told)}}],
    }


def _uri(artifact: str) -> str:
    path = PurePath(artifact)
    if path.is_absolute() or ".." in path.parts or "\\" in artifact or not path.parts:
        raise RunError(f"artifact must be a path within the repository, such as 'evenhand.toml', got {artifact!r}")
    return quote(path.as_posix(), errors="surrogatepass")
