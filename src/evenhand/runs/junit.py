"""A run as JUnit XML, as Ant and most servers of continuous integration read it: each finding is a failure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from evenhand._format import (visible)
from evenhand.engine.store import (RESULT)
from evenhand.words import (pairs_at, plain)

if TYPE_CHECKING:
    from evenhand.runs.run import (Run)
    from evenhand.text_words import (TextPair)
    from evenhand.words import (Pair)


def to_junit(run: Run, most: int) -> str:
    """Give a run as a test suite: one failed case for each of the first findings, or one case that passed.

    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    >>> 'tests="1" failures="0"' in to_junit(eh.audit(lambda f: f["age"] > 3, space, strategy="themis"), 10)
    True
    """
    name = plain(f"{run.identity.model} by {', '.join(run.space.protected)}")
    pairs = pairs_at(run, np.arange(min(run.found, most)))
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
        f"<system-out>{escape(plain(_told(run, len(pairs))))}</system-out>",
        "<system-err/>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(number: int, pair: Pair | TextPair, suite: str) -> str:
    says = visible(pair.sentence)
    title = f"finding {number}: {pair.swapped} must not matter"
    return (
        f'<testcase name={quoteattr(title)} classname={quoteattr(suite)} time="0">'
        f'<failure type="unequal treatment" message={quoteattr(says)}>{escape(says)}</failure></testcase>'
    )


def _passed(run: Run, suite: str) -> str:
    title = f"no difference found in {run.tests:,} tests"
    return f'<testcase name="{title}" classname={quoteattr(suite)} time="{run.seconds:.3f}"/>'


def _told(run: Run, listed: int) -> str:
    return f"{run!r}. {listed:,} of {run.found:,} findings are listed here."


def _when(run: Run) -> str:
    """When the run ended, where that is known; otherwise now."""
    try:
        assert run.directory is not None
        moment = datetime.fromtimestamp((run.directory / RESULT).stat().st_mtime, UTC)
    except (AssertionError, OSError):
        moment = datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S")
