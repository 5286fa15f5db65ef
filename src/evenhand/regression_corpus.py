"""Findings kept between audits, to be tried first the next time: small files, one for each test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._files import parse_json, read_bytes, replacing, size_of
from evenhand.criteria import Criterion, Flip
from evenhand.engine.judge import Judge, ModelProbe, ask
from evenhand.errors import DataError, EvenhandError
from evenhand.models.wrap import wrap
from evenhand.runs.pair_sentences import Pair, pairs_at
from evenhand.spaces.individuals import Individuals
from evenhand.spaces.tabular import Space
from evenhand.spaces.text.space import TextSpace

MOST = 32
"""Cases kept for one test."""
FORMAT = 1
LARGEST = 2**22
"""Bytes of the largest file that is read."""


class Corpus:
    """The cases of one test, in a file of a folder.

    People are kept by their values, and texts as they are, so that cases outlive a change of the space; those it does
    not have any more are skipped. Fixed cases stay, after the others: a bug may come back.

    >>> Corpus(Path(".evenhand"), "test_loans.py::test_fair").path.name
    'test_loans.py_test_fair-406f2f93.json'
    """

    def __init__(self, folder: Path, test: str) -> None:
        self.test = test
        readable = "".join(c if c.isascii() and (c.isalnum() or c in ".-") else "_" for c in test)
        readable = "_".join(filter(None, readable.split("_")))
        mark = hashlib.sha256(test.encode("utf-8", "backslashreplace")).hexdigest()[:8]
        self.path = folder / f"{readable[-80:]}-{mark}.json"

    def load(self) -> list[dict[str, Any]]:
        """Read the people of the cases, the latest first; raise if the file is damaged."""
        try:
            if not self.path.exists():
                return []
            if size_of(self.path, DataError) > LARGEST:
                raise ValueError
            stored = parse_json(read_bytes(self.path, "json_bytes", DataError), self.path)
            people = stored["cases"]
            if stored["format"] != FORMAT or not all(isinstance(person, dict) for person in people):
                raise ValueError
            return list(people)[:MOST]
        except (EvenhandError, OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{self.path} cannot be read as findings of earlier runs, so it is not changed",
                remedy="after a merge, resolve the conflict in it, or delete the file to start without earlier "
                "findings",
            ) from None

    def save(self, failing: Sequence[dict[str, Any]]) -> None:
        """Put people first, and keep the others as long as there is room."""
        kept: dict[str, dict[str, Any]] = {}
        for person in [*failing, *self.load()]:
            kept.setdefault(json.dumps(person, sort_keys=True), person)
        if not kept:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, "test": self.test, "cases": list(kept.values())[:MOST]}
        # Renamed into place, so that tests that run in parallel never read half a file.
        with replacing(self.path) as file:
            file.write((json.dumps(content, indent=1) + "\n").encode())

    def retry(
        self,
        model: Any,
        space: Space | TextSpace,
        criterion: Criterion | None = None,
        seed: int = 0,
    ) -> Sequence[Pair]:
        """Judge the cases again, and return those that are still treated differently as pairs."""
        bound, people = _people(space, self.load())
        if not len(people):
            return []
        probe = ModelProbe(wrap(model), bound, criterion or Flip())
        families = Judge(probe, seed).families(people)
        if not len(families):
            return []
        judged = ask(probe, families)
        outputs, at = judged.outputs, np.flatnonzero(judged.unfair)
        first, second = judged.verdicts.first[at], judged.verdicts.second[at]
        found = bound.findings()
        assert outputs.labels is not None
        answer = {
            **found.pack(families, at, first, second),
            "decision": found.coding.encode(outputs.labels[at, first]),
            "counterpart_decision": found.coding.encode(outputs.labels[at, second]),
        }
        found.add(answer if outputs.scores is None else {**answer, "gap": judged.verdicts.gap[at]}, len(at))
        # An earlier run found them: this was the second time that they were asked.
        found.mark(np.ones(len(at), dtype=bool))
        return pairs_at(found, np.arange(len(at)))


def _people(space: Any, cases: list[dict[str, Any]]) -> tuple[Any, Any]:
    """Return the cases as individuals of a space, without those that it does not have."""
    if space.supports("attributes"):
        return space, _individuals(space, cases)
    if not space.supports("texts"):
        return None, ()
    texts = [case["text"] for case in cases if set(case) == {"text"} and isinstance(case["text"], str)]
    try:
        bound = space.begin(texts)
    except DataError:
        return None, ()
    return bound, bound.seeds


def _individuals(space: Space, people: list[dict[str, Any]]) -> Individuals:
    rows = [np.empty((0, len(space.names)), dtype=np.int32)]
    for person in people:
        if set(person) != set(space.names):
            continue
        try:
            rows.append(space.encode({name: [person[name]] for name in space.names}, strict=True).individuals.rows)
        except EvenhandError:
            continue
    return space.individuals(np.concatenate(rows))
