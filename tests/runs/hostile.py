"""Runs whose names and values would do harm where they are not taken as text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from hypothesis import strategies as st

import evenhand as eh

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    '=HYPERLINK("http://x","y")',
    "+1+1",
    "-2",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    "a\r\nb",
    "\uff1d1+1",
    "'=1",
    "a;=cmd|' /C calc'!A0",
    'a;"=1',
    "a\t@b\n-c,+d;'e",
    "a|b\\|c",
    "``` `x` ``",
    "](javascript:x) [y](z) *b* _i_ ~s~",
    "\n\n# head\n\n- item\n\n",
    "@someone #1 https://example.org www.example.org",
    "]]><x/>&amp;&#0;",
    "\x00\x01\x1b[31m\x7f\x85",
    "\u202eabc\u2066\u200b\ufeff",
    "\ufffe\uffff\U0001f600",
    "\u2028\u2029",
    "   ",
    "${7*7}{{7*7}}{% x %}",
    "../../etc/passwd",
    "missing",
    "NaN",
    "True",
]
texts = st.sampled_from(NASTY) | st.text(min_size=1, max_size=12)


@st.composite
def runs(draw: Any) -> eh.Run:
    """A run of a small space with such names and values, in which one value is always decided about otherwise."""
    names = draw(st.lists(texts, min_size=2, max_size=3, unique=True))
    values = [draw(st.lists(texts, min_size=2, max_size=3, unique=True)) for _ in names]
    decisions = draw(st.lists(texts, min_size=2, max_size=2, unique=True))
    space = eh.Space([eh.Nominal(n, v) for n, v in zip(names, values, strict=True)], protected=names[-1])

    def decide(frame: Any) -> Any:
        first = np.asarray(frame[names[-1]].astype(object) == values[-1][0])
        return np.array(decisions, dtype=object)[first.astype(int)]

    return eh.audit(eh.wrap(decide, name=draw(texts)), space, "themis")


def texts_of(run: eh.Run) -> set[str]:
    """Everything of the user's that a run holds."""
    frame = run.findings
    said = {str(v) for name in ("decision", "counterpart_decision") for v in run.pairs.decisions(name)}
    return {str(v) for v in frame.to_numpy().ravel() if isinstance(v, str)} | set(run.space.names) | said


def unguarded(text: str) -> str:
    """Take away the apostrophes that keep a spreadsheet from calculating: in front, and where it may split a text."""
    return re.sub(r"""([;,\t\r\n]"*)'""", r"\1", text.removeprefix("'"))


def seen(text: str) -> str:
    """Write out what is not printed, but for joiners and what stands between lines and columns."""
    return "".join(c if c.isprintable() or c in "\t\r\n\u200c\u200d" else repr(c)[1:-1] for c in text)
