"""A reading sheet: a page on which a person says which findings of texts are sound, and the precision that follows.

A finding of texts is sound if both texts read naturally, and if the label of one should be that of the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import parse_json, read_bytes, replacing
from evenhand._format import percent
from evenhand._intervals import clopper_pearson
from evenhand._rng import Stream
from evenhand._validate import check_int
from evenhand.errors import RunError
from evenhand.runs.run import Run

READING = "reading.json"
ANSWERS = ("sound", "unnatural", "meaning", "term")
_WORDS = ("sound", "ungrammatical or incoherent", "another label is right", "not an identity")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Reading sheet</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}
fieldset{margin:1rem 0;border:1px solid #999}
p{white-space:pre-wrap;overflow-wrap:anywhere}label{margin-right:1rem}</style>
<h1>Which findings are sound?</h1>
<p>The model decides differently about the two texts of each pair. A pair is sound if both texts read
naturally and the same decision would be right for both.</p>
PAIRS
<button onclick="save()">Save the answers</button>
<script>function save(){const out={run:RUN,answers:{}};document.querySelectorAll("input:checked").forEach(
i=>{out.answers[i.name]=i.value});const a=document.createElement("a");a.download="labels.json";
a.href=URL.createObjectURL(new Blob([JSON.stringify(out)],{type:"application/json"}));a.click()}</script></html>
"""


@dataclass(frozen=True)
class Reading:
    """What a person said of a random sample of a run's findings.

    >>> [round(bound, 3) for bound in Reading(41, 50).interval]
    [0.686, 0.914]
    """

    sound: int
    read: int

    @property
    def precision(self) -> float:
        """The share of the findings read that are sound."""
        return self.sound / self.read

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% Clopper-Pearson interval of the precision."""
        low, high = clopper_pearson(self.sound, self.read)
        return float(low), float(high)

    @property
    def sentence(self) -> str:
        """The result in one sentence.

        >>> Reading(41, 50).sentence
        'A reader found 41 of 50 findings sound: precision 82% (95% CI 68.6% to 91.4%)'
        """
        low, high = map(percent, self.interval)
        found = f"A reader found {self.sound:,} of {self.read:,} findings sound"
        return f"{found}: precision {percent(self.precision)} (95% CI {low} to {high})"


def sheet(run: Run, n: int = 50, seed: int = 0) -> bytes:
    """Return a page to label up to ``n`` random findings of texts; the decisions are not shown."""
    n = check_int("n", n, RunError, 1)
    if not run.space.supports("texts") or not run.found:
        problem = "has no finding to read" if run.space.supports("texts") else "is not of texts"
        raise RunError(f"the run {problem}", remedy="give a run of texts with findings")
    at = np.sort(Stream(seed).shuffled(np.arange(run.found), run.found, "reading")[:n])
    pairs = []
    for number, (text, other, *_) in zip(at.tolist(), run.pairs.records(at), strict=True):  # type: ignore[attr-defined]
        choices = "".join(
            f'<label><input type="radio" name="{number}" value="{value}"> {words}</label>'
            for value, words in zip(ANSWERS, _WORDS, strict=True)
        )
        legend = f"<legend>Finding {number + 1:,}</legend>"
        pairs.append(f"<fieldset>{legend}<p>{_safe(text)}</p><hr><p>{_safe(other)}</p>{choices}</fieldset>")
    return _PAGE.replace("RUN", str(run.found)).replace("PAIRS", "\n".join(pairs)).encode("utf-8", "replace")


def _safe(text: str) -> str:
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))


def read_labels(run: Run, path: Path) -> Reading:
    """Read the answers of a sheet; they are kept with the run, and its report states the precision."""
    content = parse_json(read_bytes(path, "json_bytes", RunError), path)
    reading = _reading(content, run.found, path)
    if run.directory is not None:
        with replacing(run.directory / READING) as file:
            file.write(json.dumps(content).encode())
    return reading


def reading_of(run: Run) -> Reading | None:
    """Return what was said of a kept run's findings; None if they were not read."""
    path = None if run.directory is None else run.directory / READING
    if path is None or not path.is_file():
        return None
    return _reading(parse_json(read_bytes(path, "json_bytes", RunError), path), run.found, path)


def _reading(content: Any, found: int, path: Path) -> Reading:
    answers = content.get("answers") if isinstance(content, dict) else None
    fits = isinstance(answers, dict) and all(
        number.isdecimal() and int(number) < found and answer in ANSWERS for number, answer in answers.items()
    )
    if not fits or not answers or content.get("run") != found:
        problem = f"{path} does not have answers about the {found:,} findings of this run"
        raise RunError(problem, remedy="save them on the page that 'evenhand read' writes for it")
    return Reading(sum(answer == "sound" for answer in answers.values()), len(answers))
