"""Record digests of what evenhand produces, so that a restructuring can be shown to change nothing.

Compares with ``benchmarks/results/digests.json`` and prints each item that differs; ``--write`` records anew. ``--only
PATTERN`` (a regular expression) limits this to some groups, ``--show NAME`` prints the text behind a digest, ``--save
FOLDER`` writes all texts, to compare two versions with ``diff -r``. Groups that need a package that is not installed
are left out.

An item is ``group/part``. Renamed keys or new wording change the parts ``dict`` and ``repr`` only; ``numbers`` (every
number, sorted), ``findings``, ``log`` and ``asked`` stay.

``--runs`` writes the kept runs in ``tests/data/runs`` again. They stand for runs of earlier versions, so do that only
where the format has changed on purpose.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from benchmarks import digest_worlds as worlds
from benchmarks.machine import RESULTS
from evenhand.engine.store import About

# Names that may move: the rest of this file uses these.
STRATEGIES = (eh.Themis, eh.Aequitas, eh.Kosei, eh.Adf, eh.Symbolic, eh.TextRandom, eh.TextAdf, eh.TextImportance)
METHODS = {
    "retrain": lambda: eh.repairs.Retrain(samples=2000),
    "augment": lambda: eh.repairs.Augment(repeats=2, share=0.2, samples=2000),
    "augment votes": lambda: eh.repairs.Augment(repeats=1, share=0.2, samples=2000, voters=VOTERS),
    "counterfactual": lambda: eh.repairs.Counterfactual(),
    "counterfactual all": lambda: eh.repairs.Counterfactual(counterparts="all"),
    "marginal": lambda: eh.repairs.Marginal(),
    "marginal data": lambda: eh.repairs.Marginal(weights="data"),
}
examples, check_bundle, MarginalModel, Certified = eh.examples, eh.check_bundle, eh.MarginalModel, eh.repairs.Certified
ANSWERS = "answers.log"
KEPT_FILES = ("identity.json", "run.json", "answers.log", "answers.times")


def page(run: eh.Run, path: Path, with_people: bool = True, **options: Any) -> bytes:
    """Write a report and return its bytes."""
    given = {name: options.pop(name) for name in ("data", "favourable", "samples") if name in options}
    chosen = eh.ReportOptions(**options)
    return eh.report(run, path, show_examples="real" if with_people else "none", options=chosen, **given).read_bytes()


RECORDED = RESULTS / "digests.json"
RUNS = RESULTS.parents[1] / "tests" / "data" / "runs"
VOLATILE = {"seconds", "versions", "directory", "created", "started", "version", "evenhand"}
"""Keys of results that differ from run to run, or from version to version."""
BEGAN = "2026-01-01T00:00:00+00:00"
"""When runs began."""
FIXED_SECONDS = 0.25
"""What repairs, and runs that are reported and exported, have taken; how much a report asks depends on it."""

Items = Mapping[str, str | bytes]
GROUPS: dict[str, Callable[[], Items]] = {}


def group(name: str, needs: str | None = None) -> Callable[[Callable[[], Items]], Callable[[], Items]]:
    """Add a function that makes items to the groups, where what it needs is installed."""

    def add(make: Callable[[], Items]) -> Callable[[], Items]:
        if needs is None or importlib.util.find_spec(needs) is not None:
            GROUPS[name] = make
        return make

    return add


# From results to text.


def plain(value: Any) -> Any:
    """Make a value plain, without what differs from run to run; numbers with six significant digits."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items() if key not in VOLATILE}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else float(f"{value:.6g}") + 0.0
    return value if isinstance(value, bool | int | str) or value is None else str(value)


def numbers(value: Any) -> str:
    """List all numbers of a plain value, sorted, whatever their names."""

    def walk(one: Any) -> Iterator[float]:
        if isinstance(one, dict | list):
            for other in one.values() if isinstance(one, dict) else one:
                yield from walk(other)
        elif isinstance(one, int | float):
            yield float(one)

    return "\n".join(f"{number:.6g}" for number in sorted(walk(plain(value))))


def as_json(value: Any) -> str:
    """Write a value as indented JSON with sorted keys."""
    return json.dumps(plain(value), indent=1, sort_keys=True, ensure_ascii=False)


def table(frame: pd.DataFrame) -> str:
    """Write a frame: its columns and their types, then its index and rows."""
    head = [f"{name}: {dtype}" for name, dtype in frame.dtypes.items()]
    rows = zip(frame.index.tolist(), *(frame[name].tolist() for name in frame.columns), strict=True)
    return "\n".join([*head, *(json.dumps(plain(row), ensure_ascii=False) for row in rows)])


def told(result: Any) -> dict[str, str]:
    """Give what a result says: its repr, its values and its numbers."""
    values = result.to_dict() if hasattr(result, "to_dict") else result
    return {"repr": timeless(repr(result)), "dict": as_json(values), "numbers": numbers(values)}


def timeless(text: str) -> str:
    """Take times, versions and temporary paths out of a text."""
    text = re.sub(r"\b[\d,.]+ (s|ms|seconds|min)\b", r"- \1", text)
    text = re.sub(r"(seconds\"?:? +)[\d.]+", r"\1-", text)
    text = re.sub(r"\"versions\": \{.*?\}", '"versions": {}', text, flags=re.DOTALL)
    return re.sub(r" +$", "", text, flags=re.MULTILINE).replace(eh.__version__, "VERSION")


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that goes when it is left."""
    return tempfile.TemporaryDirectory(prefix="digests")


# Searches.


class Asked:
    """Digests the rows that a model is asked, and how many there are, whatever the size of the calls."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows, self.hash = model, 0, hashlib.sha256()

    def __call__(self, X: Any) -> Any:
        """Note the rows, then answer as the model does."""
        content = X.to_numpy().tolist() if isinstance(X, pd.DataFrame) else list(X) if isinstance(X, list) else X
        for row in content.tolist() if isinstance(content, np.ndarray) else content:
            self.hash.update(repr(row).encode())
        self.rows += len(X)
        return self.model(X)


def search(
    name: str, model: Callable[[], Any], space: Any, strategy: Any, budget: eh.Budget | None = None, *,
    needs: str | None = None, exact: bool = True, input: Any = None, **options: Any,
) -> None:  # fmt: skip
    """Add a search: its findings, its log, what it asked and what it says.

    Without ``exact`` the log is left out: it has sums of a net, whose last digits are the processor's.
    """

    def make() -> Items:
        asked = None
        made = model()
        if callable(made) and not isinstance(made, eh.Model):
            asked = Asked(made)
            made = eh.wrap(asked, name=name, input=input or "frame")
        given = {key: value() if callable(value) else value for key, value in options.items()}
        with folder() as place:
            made = eh.wrap(made, chunk=given.pop("chunk", 1000))
            run = eh.audit(made, space, strategy, budget or eh.Budget(tests=1500), directory=Path(place) / "run",
                           **{"seed": 3, **given})  # fmt: skip
            log = (Path(place) / "run" / ANSWERS).read_bytes()
            loaded = eh.Run.load(Path(place) / "run")
        findings = table(run.findings)
        assert table(loaded.findings) == findings, name
        out = {"findings": findings, "curve": table(run.curve), **told(run)}
        if exact:
            out["log"] = log
        if asked is not None:
            out["asked"] = f"{asked.rows} {asked.hash.hexdigest()}"
        return out

    group(f"search/{name}", needs)(make)


def rows_of(model: Any) -> Callable[[], Any]:
    """Give a function on rows."""
    return lambda: model


TESTS, GAP = eh.Budget(tests=600), eh.Gap(0.03125)
AEQUITAS: tuple[Any, ...] = ("random", "semi", "full")
for _name, _model, _space, _more in (
    ("plain", worlds.plain, worlds.PLAIN, {"input": "array"}),
    ("people", worlds.decided, worlds.PEOPLE, {"data": worlds.rows}),
    ("linked", worlds.linked, worlds.LINKED, {}),
    ("sampled", worlds.sampled, worlds.SAMPLED, {}),
    ("huge", worlds.huge, worlds.HUGE, {"input": "array"}),
):
    for _strategy in ("themis", "kosei"):
        search(f"{_strategy} {_name}", rows_of(_model), _space, _strategy, **_more)
    for _variant in AEQUITAS:
        if _name in ("plain", "sampled") or _variant == "full":
            _settings = eh.Aequitas(variant=_variant, samples=40, steps=30, width=32)
            search(f"aequitas {_variant} {_name}", rows_of(_model), _space, _settings, TESTS, **_more)
    search(f"symbolic {_name}", rows_of(_model), _space, eh.Symbolic(neighbours=50), eh.Budget(tests=300),
           needs="z3" if _name in ("people", "linked") else None, **_more)  # fmt: skip
search("themis exhausted", rows_of(worlds.small), worlds.SMALL, "themis")
search("kosei finished", rows_of(worlds.small), worlds.SMALL, eh.Kosei(samples=20, rounds=1, wave=16))
search("kosei settings", rows_of(worlds.decided), worlds.PEOPLE, eh.Kosei(samples=50, per_seed=3, pops=40, wave=32))
search("aequitas width 1", rows_of(worlds.plain), worlds.PLAIN, eh.Aequitas(width=1, samples=20, steps=10), TESTS,
       input="array")  # fmt: skip
search("symbolic iterative", rows_of(worlds.plain), worlds.PLAIN,
       eh.Symbolic(neighbours=50, seeds="random", order="iterative", first="global"), eh.Budget(tests=300),
       input="array")  # fmt: skip
search("symbolic global data", rows_of(worlds.plain), worlds.PLAIN, eh.Symbolic(neighbours=50, phase="global"),
       eh.Budget(tests=200), input="array", data=worlds.plain_rows)  # fmt: skip
search("kosei gap", rows_of(worlds.hopeful), worlds.PEOPLE, "kosei", criterion=GAP)
search("themis both", rows_of(worlds.hopeful), worlds.PEOPLE, "themis", criterion=eh.Flip() & GAP)
search("themis either", rows_of(worlds.hopeful), worlds.PEOPLE, "themis", criterion=eh.Flip() | GAP)
search("adf scores people", rows_of(worlds.hopeful), worlds.PEOPLE, "adf", data=worlds.rows)
search("adf scores plain", rows_of(worlds.plain_scores), worlds.PLAIN, eh.Adf(clusters=3, max_iter=5, trials=50),
       input="array", criterion=GAP)  # fmt: skip
search("adf scores local", rows_of(worlds.plain_scores), worlds.PLAIN, eh.Adf(phase="local", gradient="scores"),
       TESTS, input="array", data=worlds.plain_rows)  # fmt: skip
search("adf gradient", worlds.torch_rows, worlds.PLAIN, eh.Adf(gradient="model"), needs="torch", exact=False,
       data=worlds.plain_rows)  # fmt: skip
search("adf gradient global", worlds.torch_rows, worlds.PLAIN, eh.Adf(phase="global"), needs="torch", exact=False)
search("kosei budget rows", rows_of(worlds.plain), worlds.PLAIN, "kosei", eh.Budget(rows=1111), input="array")
search("kosei budget findings", rows_of(worlds.plain), worlds.PLAIN, "kosei", eh.Budget(findings=77), input="array")
search("kosei confirm", rows_of(worlds.plain), worlds.PLAIN, "kosei", input="array", confirm=10)
search("themis fair", rows_of(lambda X: X[:, 0] > 4), worlds.PLAIN, "themis", TESTS, input="array")


def _text(name: str, strategy: Any, model: Any = worlds.Reader, space: Any = worlds.TEXTS, **options: Any) -> None:
    search(name, model, space, strategy, eh.Budget(tests=400), **{"chunk": 128, "data": worlds.sentences, **options})


_text("text-random", "text-random")
_text("text-random rounds", eh.TextRandom(seeds=40, max_iter=3, trials=10, rounds=2))
_text("text-random together", "text-random", space=worlds.TOGETHER)
_text("text-random gap", "text-random", criterion=GAP)
_text("text-random function", "text-random", lambda: worlds.Reader().labels, input="text")
_text("text-random religion", eh.TextRandom(trials=5, rounds=1), lambda: _by_length, eh.TextSpace("religion"),
      input="text", data=lambda: list(eh.datasets.load("comments").test.texts[:60]))  # fmt: skip
for _direction in ("asc", "hotflip"):
    for _pair in (True, False):
        _text(f"text-adf {_direction} {'pair' if _pair else 'plain'}", eh.TextAdf(direction=_direction, pair=_pair))
_text("text-importance", "text-importance")
_text("text-importance plain", eh.TextImportance(pair=False, words=5, every=3))
for _phase in ("global", "local"):
    _text(f"text-adf {_phase}", eh.TextAdf(phase=_phase))
_text("text-adf net", "text-adf", worlds.torch_texts, needs="torch", exact=False)
_text("text-adf hotflip net", eh.TextAdf(direction="hotflip"), worlds.torch_texts, needs="torch", exact=False)
_text("text-importance net", "text-importance", worlds.torch_texts, needs="torch", exact=False)


def _by_length(texts: list[str]) -> list[str]:
    return ["toxic" if worlds.checksum(text) % 4 == 0 else "fine" for text in texts]


@group("strategies")
def strategies() -> Items:
    """Give each search's settings."""
    return {kind.__name__.lower(): repr(kind()) for kind in STRATEGIES}


# What is measured.


def estimate(name: str, model: Callable[[], Any], space: Any, *given: Any, **options: Any) -> None:
    """Add an estimate."""

    def make() -> Items:
        found = {key: value() if callable(value) else value for key, value in options.items()}

        def taken(*names: str) -> dict[str, Any]:
            return {name: found.pop(name) for name in names if name in found}

        of = taken("weights", "about", "steps", "exact")
        population = eh.populations.named(given[0] if given else "uniform", found.pop("data", None), **of)
        method = found.pop("interval", None)
        found["interval"] = eh.Interval(method, **taken("experiments", "repeats"))
        found["stop"] = eh.StopRule(**taken("half_width"))
        with mock.patch.object(importlib.import_module("evenhand.estimates.estimate"), "CHUNK", 2000):
            return told(eh.estimate(model(), space, population, **{"seed": 5, **found}))

    group(f"estimate/{name}")(make)


_people = rows_of(worlds.decided)
_scored = rows_of(worlds.hopeful)
ORDER = eh.Order(["refused", "granted"])
estimate("uniform", _people, worlds.PEOPLE, samples=4000)
estimate("uniform favourable", _people, worlds.PEOPLE, samples=4000, favourable="granted")
estimate("uniform order", _people, worlds.PEOPLE, samples=4000, favourable=ORDER, confidence=0.99)
estimate("anytime", _people, worlds.PEOPLE, samples=4000, interval="anytime", favourable="granted")
estimate("half width", _people, worlds.PEOPLE, half_width=0.02)
estimate("lln", _people, worlds.PEOPLE, samples=4000, interval="lln", experiments=40)
estimate("exact", rows_of(worlds.small), worlds.SMALL, favourable="yes")
estimate("exact not", rows_of(worlds.small), worlds.SMALL, exact=False, samples=1000)
estimate("data", _people, worlds.PEOPLE, "data", data=worlds.rows, favourable="granted")
estimate("data rows", _people, worlds.PEOPLE, "data", data=worlds.rows, about="rows")
estimate("data some rows", _people, worlds.PEOPLE, "data", data=worlds.rows, about="rows", samples=50)
estimate("data weights", _people, worlds.PEOPLE, "data", data=worlds.rows, weights=worlds.weights, favourable="granted")
estimate("near", _people, worlds.PEOPLE, "near", data=worlds.rows, samples=3000, steps=2, favourable="granted")
estimate("near weights", _people, worlds.PEOPLE, "near", data=worlds.rows, weights=worlds.weights, samples=2000)
estimate("gap", _scored, worlds.PEOPLE, samples=4000, criterion=GAP)
estimate("scores favourable", _scored, worlds.PEOPLE, samples=2000, criterion=eh.Flip() | GAP, favourable=1)
estimate("regression", lambda: eh.wrap(lambda frame: worlds.hopeful(frame)[:, 1] * 100, regression=True, name="pay"),
         worlds.PEOPLE, samples=2000, criterion=eh.Gap(3.0), favourable="higher")  # fmt: skip
estimate("noisy", worlds.NoisyModel, worlds.SMALL, exact=False, samples=1500)
estimate("noisy repeats", worlds.NoisyModel, worlds.SMALL, exact=False, samples=1500, repeats=10, favourable="yes")
estimate("linked", rows_of(worlds.linked), worlds.LINKED, favourable=True)
estimate("sampled", rows_of(worlds.sampled), worlds.SAMPLED, samples=2000)
estimate("huge", lambda: eh.wrap(worlds.huge, input="array", name="huge"), worlds.HUGE, samples=2000)
estimate("none found", lambda: lambda frame: frame["a"] > 4, worlds.SMALL, samples=500, exact=False)
estimate("texts", worlds.Reader, worlds.TEXTS, "data", data=worlds.sentences)
estimate("texts rows", worlds.Reader, worlds.TEXTS, "data", data=worlds.sentences, about="rows", criterion=GAP)
estimate("texts religion", lambda: eh.wrap(_by_length, input="text"), eh.TextSpace("religion"), "data",
         data=lambda: list(eh.datasets.load("comments").test.texts[:80]))  # fmt: skip


@group("groups", needs="fairlearn")
def groups() -> Items:
    """Give selection rates of groups."""
    data = worlds.rows()
    y = np.where(np.arange(len(data)) % 3 == 0, "granted", "refused")
    one = eh.groups(worlds.decided, worlds.PEOPLE, data, "granted")
    more = eh.groups(worlds.decided, worlds.PEOPLE, data, "granted", y=y, weights=worlds.weights(), confidence=0.9)
    return {**told(one), **{f"{part} more": text for part, text in told(more).items()}}


@group("remaining")
def remaining() -> Items:
    """Say what is left to be found."""
    known = eh.estimate(worlds.decided, worlds.PEOPLE, samples=4000, seed=5)
    run = eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS)
    return {
        **told(eh.remaining(known)),
        **{f"{part} run": text for part, text in told(eh.remaining(known, run)).items()},
    }


@group("coverage")
def coverage() -> Items:
    """Say which leaves of a tree the tests reach, from memory and from a directory."""
    run = eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS, data=worlds.rows())
    with folder() as place:
        eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS, directory=Path(place) / "run")
        loaded = eh.Run.load(Path(place) / "run")
        kept = eh.coverage(loaded, worlds.decided, samples=3000)
    return {**told(eh.coverage(run, samples=3000)), "kept": timeless(repr(kept))}


@group("regions")
def regions() -> Items:
    """Say where discrimination happens."""
    run = eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS)
    found = eh.regions(run, data=worlds.rows(), samples=4000, rows=200_000, seed=2)
    scored = eh.audit(worlds.hopeful, worlds.PEOPLE, "kosei", TESTS, criterion=GAP)
    other = eh.regions(scored, samples=3000, rows=100_000, max_regions=2)
    return {**told(found), **{f"{part} gap": text for part, text in told(other).items()}}


@group("examples")
def people_shown() -> Items:
    """Choose pairs to show, with data and without."""
    run = eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS)
    near = told(examples(run, data=worlds.rows(), n=6, seed=1, rows=50_000))
    far = told(examples(run, n=4, rows=50_000))
    return {**near, **{f"{part} no data": text for part, text in far.items()}}


@group("quality")
def quality() -> Items:
    """Say how far texts are from what they were."""
    run = eh.audit(worlds.Reader(), worlds.TEXTS, "text-adf", eh.Budget(tests=300), data=worlds.sentences())
    found = eh.quality(run, vectors=(worlds.WORDS, worlds.VECTORS), bleu=False)
    return {"frame": table(found.frame), "repr": repr(found)}


@group("compare")
def compare() -> Items:
    """Compare a model with a later one."""
    before, after = (eh.wrap(model, input="array", name="plain") for model in (worlds.plain, worlds.plain_later))
    runs = [eh.audit(model, worlds.PLAIN, "kosei", TESTS) for model in (before, after)]
    found = eh.compare(*runs, samples=3000, seed=4)
    positions = {name: np.asarray(getattr(found, name)) for name in ("fixed", "still", "new", "known")}
    exact = eh.compare(*[eh.audit(model, worlds.SMALL, "themis") for model in (worlds.small, small_later)])
    return {**told(found), "positions": as_json(positions), "exact": repr(exact)}


def small_later(frame: pd.DataFrame) -> Any:
    """Decide as a later version of ``worlds.small``."""
    return np.where(frame["a"] + frame["b"] + 2 * (frame["sex"] == "M") * (frame["b"] < 5) > 14, "yes", "no")


# Repairs.


def repaired(
    name: str, train: Any, space: Any, method: Any, data: Any, *, needs: str | None = None, **options: Any
) -> None:
    """Add a repair: what it says, and what its model decides."""

    def make() -> Items:
        X, y = data()
        given = {"samples": 2000, **options}
        evidence = {name: given.pop(name) for name in [*given] if name in eh.repairs.RepairOptions.__annotations__}
        done = eh.repair(
            train(), X, y, space, method(), options=eh.repairs.RepairOptions(**evidence), **{"seed": 4, **given}
        )
        done.seconds = FIXED_SECONDS
        out = told(done)
        out["frame"] = table(done.frame)
        asked = list(X)[:80] if isinstance(X, list) else X.head(80)
        labels = done.model.labels(asked) if hasattr(done.model, "labels") else done.model.predict(asked)
        return {**out, "labels": as_json(np.asarray(labels).tolist())}

    group(f"repair/{name}", needs)(make)


class Coded:
    """A tree on rows of ``SMALL`` that codes sexes itself; trained in the manner of scikit-learn."""

    def __init__(self, depth: int = 6, random_state: int | None = None) -> None:
        self.depth, self.random_state = depth, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Give the settings."""
        return {"depth": self.depth, "random_state": self.random_state} if deep else {}

    def set_params(self, **given: Any) -> Coded:
        """Change settings."""
        vars(self).update(given)
        return self

    def __repr__(self) -> str:
        return f"Coded({self.depth}, {self.random_state})"

    def fit(self, X: pd.DataFrame, y: Any) -> Coded:
        """Grow the tree."""
        tree = DecisionTreeClassifier(max_depth=self.depth, random_state=self.random_state)
        self.tree_ = tree.fit(self.codes(X), y)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        """Decide."""
        return self.tree_.predict(self.codes(X))

    def predict_proba(self, X: pd.DataFrame) -> Any:
        """Score."""
        return self.tree_.predict_proba(self.codes(X))

    @staticmethod
    def codes(X: pd.DataFrame) -> Any:
        """Turn rows into numbers."""
        return np.column_stack([X["a"], X["b"], X["sex"] == "M"]).astype(float)


VOTERS = (Coded(3, 1), Coded(5, 2), Coded(4, 3))
_QUICK: dict[str, Any] = {"budget": eh.Budget(tests=150), "favourable": 1}
for _method, _kind in METHODS.items():
    repaired(
        _method,
        lambda: Coded(random_state=0),
        worlds.SMALL,
        _kind,
        lambda: worlds.small_rows(240, 0),
        needs="fairlearn",
        **_QUICK,
    )


def _reading(X: list[str], y: Any) -> Any:
    assert len(X) == len(y)
    return worlds.Reader(share=40 if len(X) == 80 else 15)


def _labelled() -> tuple[list[str], Any]:
    texts = worlds.sentences(80)
    return texts, np.where([worlds.checksum(text) % 3 == 0 for text in texts], "bad", "good")


_HELD = worlds.sentences(90, seed=2)
_HELD_Y = np.where([worlds.checksum(text) % 3 == 0 for text in _HELD], "bad", "good")
repaired("text augment", lambda: _reading, worlds.TEXTS, lambda: eh.repairs.Augment(repeats=2, share=0.2), _labelled,
         held_out=(_HELD, _HELD_Y), budget=eh.Budget(tests=300), strategy=eh.TextRandom(trials=20))  # fmt: skip


def _net(X: list[str], y: Any) -> Any:
    assert len(X) == len(y)
    return worlds.torch_texts(logits=True)


repaired("text certified", lambda: _net, worlds.TEXTS, lambda: Certified(epochs=1, rate=0.02),
         lambda: (_labelled()[0], (_labelled()[1] == "good").astype(int)), needs="torch",
         held_out=(_HELD, (_HELD_Y == "good").astype(int)), budget=eh.Budget(tests=60),
         strategy=eh.TextRandom(trials=5))  # fmt: skip


@group("marginal model")
def marginal_model() -> Items:
    """Average a model over protected values, by hand."""
    X, y = worlds.small_rows(200, 1)
    fitted = eh.wrap(Coded(random_state=0).fit(X, y), input="frame", name="coded")
    model = MarginalModel(fitted, worlds.SMALL, weights={"F": 0.25, "M": 0.75})
    run = eh.audit(model, worlds.SMALL, "themis")
    return {"labels": as_json(model.predict(X)), "scores": as_json(model.predict_proba(X)), "repr": timeless(repr(run))}


# What is written.


def still(run: eh.Run) -> eh.Run:
    """Give a run the same times and versions always."""
    run.seconds, run.versions = FIXED_SECONDS, {"evenhand": "0", "python": "0"}
    return run


def reported(texts: bool = False, directory: Path | None = None) -> eh.Run:
    """Make a run to be written in all formats."""
    if texts:
        given: tuple[Any, ...] = (worlds.Reader(), worlds.TEXTS, "text-random", eh.Budget(tests=200))
        return still(eh.audit(*given, data=worlds.sentences(), directory=directory))
    return still(eh.audit(worlds.decided, worlds.PEOPLE, "kosei", TESTS, data=worlds.rows(), directory=directory))


def exports(run: eh.Run) -> Items:
    """Write a run in each format."""
    out: dict[str, str | bytes] = {}
    with folder() as place:
        for ending in ("json", "csv", "md", "sarif", "xml"):
            written = eh.export(run, Path(place) / f"run.{ending}").read_text()
            written = re.sub(r'timestamp="[^"]*"', 'timestamp="-"', written)
            out[ending] = as_json(json.loads(written)) if ending in ("json", "sarif") else timeless(written)
        out["csv raw"] = eh.export(run, Path(place) / "raw.csv", raw=True).read_bytes()
        out["sarif few"] = timeless(
            eh.export(run, Path(place) / "few.sarif", max_findings=3, artifact="m.py").read_text()
        )
        if importlib.util.find_spec("pyarrow") is not None:
            out["parquet"] = table(pd.read_parquet(eh.export(run, Path(place) / "run.parquet")))
    return out


@group("export")
def export() -> Items:
    """Write a run of people in each format."""
    return exports(reported())


@group("export texts")
def export_texts() -> Items:
    """Write a run of texts in each format."""
    return exports(reported(texts=True))


@group("report")
def report() -> Items:
    """Write reports of a run of people."""
    with folder() as place:
        path = Path(place) / "report.html"
        run = reported()
        data = worlds.rows()
        full = page(run, path, data=data, favourable="granted", title="Title", note="Note", samples=2000)
        bare = page(run, path, with_people=False, samples=1000)
        scored = still(eh.audit(worlds.hopeful, worlds.PEOPLE, "kosei", TESTS, criterion=GAP))
        other = still(eh.audit(worlds.hopeful, worlds.PEOPLE, "themis", TESTS, criterion=GAP))
        return {"full": full, "bare": bare, "not asked": page(run, path, ask=False),
                "scores": page(scored, path, samples=1000, favourable=1, others=[other], examples=2)}  # fmt: skip


@group("report texts")
def report_texts() -> Items:
    """Write a report of a run of texts."""
    with folder() as place:
        return {"full": page(reported(texts=True), Path(place) / "report.html", data=worlds.sentences())}


@group("notebook")
def notebook() -> Items:
    """Show runs in a notebook."""
    return {"people": reported()._repr_html_(), "texts": reported(texts=True)._repr_html_()}


@group("bundle")
def bundle() -> Items:
    """Bundle kept runs, without what has times or versions; then check and replay them."""
    out: dict[str, str | bytes] = {}
    for name, model in (("people", worlds.decided), ("texts", worlds.Reader())):
        with folder() as place:
            run = reported(name == "texts", Path(place) / "run")
            path = Path(place) / "run.zip"
            digest = eh.bundle(run, path)
            assert eh.bundle(run, path) == digest
            checked = check_bundle(path)
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    content = archive.read(member)
                    if member.endswith("manifest.json"):
                        content = as_json(sorted(json.loads(content)["members"])).encode()
                    elif member.endswith("run.json"):
                        content = as_json(json.loads(content)).encode()
                    if not member.endswith(".times"):
                        out[f"{name} {member.replace('/', ' ')}"] = content
            out[f"{name} checked"] = as_json({"problems": checked.problems, "members": checked.members})
            out[f"{name} replayed"] = replayed(path, model)
    return out


def replayed(path: Path, model: Any) -> str:
    """Ask again about each finding of a kept run."""
    again = eh.replay(path, model)
    return as_json({"repr": repr(again), "held": again.held, "same": again.same_model, "positions": again.positions})


@group("replay")
def replay() -> Items:
    """Replay kept runs with their own models and with others."""
    with folder() as place:
        reported(False, Path(place) / "people")
        reported(True, Path(place) / "texts")
        return {
            "people": replayed(Path(place) / "people", worlds.decided),
            "other": replayed(Path(place) / "people", lambda frame: worlds.decided(frame.assign(race="x"))),
            "texts": replayed(Path(place) / "texts", worlds.Reader()),
            "texts other": replayed(Path(place) / "texts", worlds.Reader(share=20)),
        }


@group("resume")
def resume() -> Items:
    """Go on with unfinished runs."""
    out: dict[str, str | bytes] = {}
    with folder() as place:
        for name, make in KEPT.items():
            first = make(Path(place) / name, 150)
            run = make(Path(place) / name, 400)
            out[f"{name} prefix"] = table(first.findings)
            out[f"{name} findings"] = table(run.findings)
            out[f"{name} log"] = (Path(place) / name / ANSWERS).read_bytes()
            out[f"{name} identity"] = as_json(run.identity)
    return out


@group("spaces")
def spaces() -> Items:
    """Describe spaces, and write them as TOML."""
    out: dict[str, str | bytes] = {}
    inferred = eh.Space.infer(worlds.rows(), protected=["sex", "race"])
    named = {"plain": worlds.PLAIN, "people": worlds.PEOPLE, "linked": worlds.LINKED, "sampled": worlds.SAMPLED,
             "huge": worlds.HUGE, "inferred": inferred}  # fmt: skip
    for name in ("adult", "german", "bank"):
        data = eh.datasets.load(name)
        named |= {name: data.space(), f"{name} paper": data.paper_space()}
    with folder() as place:
        for name, space in named.items():
            path = Path(place) / "space.toml"
            space.save(path)
            out[f"{name} toml"] = path.read_text()
            out[f"{name} repr"] = repr(space)
            out[f"{name} dict"] = as_json(space.describe())
            assert as_json(eh.Space.load(path).describe()) == out[f"{name} dict"], name
    for name, texts in (("team", worlds.TEXTS), ("religion", eh.TextSpace("religion"))):
        out |= {f"{name} repr": repr(texts), f"{name} dict": as_json(texts.describe())}
    return out


@group("datasets")
def datasets() -> Items:
    """Digest the data sets."""
    out = {name: table(eh.datasets.load(name).frame.head(300)) for name in ("adult", "german", "bank")}
    comments = eh.datasets.load("comments").train
    return {**out, "comments": "\n".join(comments.texts[:500])}


# The command line.

MODULE = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.digest_worlds import decided, small, Reader
read = Reader().labels
"""


def commands(*lines: str) -> Items:
    """Run commands in one folder; give what each printed and its exit status, then the files that are left."""
    out: dict[str, str | bytes] = {}
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    with folder() as place:
        rows = worlds.rows(80)
        rows.to_csv(Path(place) / "people.csv", index=False)
        worlds.PEOPLE.save(Path(place) / "space.toml")
        (Path(place) / "texts.txt").write_text("\n".join(worlds.sentences(30)) + "\n")
        (Path(place) / "team.toml").write_text(TEAM)
        (Path(place) / "shop.py").write_text(MODULE.format(root=str(RESULTS.parents[1])))
        for line in lines:
            done = subprocess.run([sys.executable, "-m", "evenhand", *line.split()], cwd=place, env=environment,
                                  capture_output=True, text=True, check=False)  # fmt: skip
            printed = f"{done.stdout}\n--\n{done.stderr}\n--\n{done.returncode}"
            out[line] = timeless(printed.replace(place, "FOLDER"))
        for path in sorted(Path(place).glob("evenhand*.toml")):
            out[f"file {path.name}"] = path.read_text()
    return {name.replace("/", "|"): text for name, text in out.items()}


TEAM = """
forms = [{ name = "people", speech = "noun", number = "plural" }]
terms = [["reds"], ["blues"], ["greens"]]
"""
_COMMANDS = ("demo", "init", "audit", "estimate", "repair", "compare", "report", "export", "bundle", "replay")


@group("command/help")
def command_help() -> Items:
    """Show the command's help."""
    return commands("--help", "strategies", "datasets", *(f"{name} --help" for name in _COMMANDS))


@group("command/people")
def command_people() -> Items:
    """Audit people by the command."""
    return commands(
        "init people.csv --protected sex --protected race --model shop:decided",
        "audit --model shop:decided --space space.toml --data people.csv --budget-tests 200 --directory run --seed 2",
        "audit --model shop:decided --space space.toml --budget-tests 200 --strategy themis --json --fail-above 0",
        "estimate --model shop:decided --space space.toml --samples 500 --favourable granted",
        "replay run --model shop:decided",
        "export run run.csv run.md",
        "audit --model shop:nothing --space space.toml",
        "audit --model shop:decided --space space.toml --strategy koseii",
    )


@group("command/texts")
def command_texts() -> Items:
    """Audit texts by the command."""
    return commands(
        "init texts.txt --text --protected team.toml --model shop:read",
        "audit --model shop:read --texts texts.txt --protected team.toml --budget-tests 60 --directory run",
        "estimate --model shop:read --texts texts.txt --protected team.toml",
        "replay run --model shop:read",
    )


# The harness.


def digest(content: str | bytes) -> str:
    """Give the first digits of a content's SHA-256."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:16]


def made(names: Iterable[str]) -> Iterator[tuple[str, str | bytes]]:
    """Make the items of some groups."""
    for name in names:
        with warnings.catch_warnings(), mock.patch.object(About, "now", return_value=About(BEGAN)):
            warnings.simplefilter("ignore")
            items = GROUPS[name]()
        for part, content in items.items():
            yield f"{name}/{part}", content


def write(digests: Mapping[str, str], path: Path) -> None:
    """Write digests, one short line each."""
    lines = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in sorted(digests.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def in_group(item: str) -> str:
    """Say to which group an item belongs."""
    return item.rsplit("/", 1)[0]


# Runs that are kept with the tests.

KEPT: dict[str, Callable[[Path, int], eh.Run]] = {
    "kosei": lambda directory, tests: eh.audit(
        eh.wrap(worlds.decided, name="decided", chunk=64), worlds.PEOPLE, eh.Kosei(samples=50, wave=32),
        eh.Budget(tests=tests), seed=8, data=worlds.rows(), directory=directory),
    "text-adf": lambda directory, tests: eh.audit(
        eh.wrap(worlds.Reader(), chunk=64), worlds.TEXTS, eh.TextAdf(trials=30), eh.Budget(tests=tests),
        seed=8, data=worlds.sentences(), directory=directory),
}  # fmt: skip
"""The same calls write the kept runs, go on with them and repeat them."""
KEPT_TESTS = {"kosei": 297, "text-adf": 300}
"""Where a block ends: only then has a run that goes on the log of one that was never broken off, byte for byte."""
MODELS: dict[str, Any] = {"kosei": worlds.decided, "text-adf": worlds.Reader()}


def write_runs() -> None:
    """Write the kept runs: unfinished, so that they can be resumed."""
    for name, make in KEPT.items():
        with folder() as place:
            make(Path(place) / "run", KEPT_TESTS[name])
            shutil.rmtree(RUNS / name, ignore_errors=True)
            (RUNS / name).mkdir(parents=True)
            for file in KEPT_FILES:
                shutil.copyfile(Path(place) / "run" / file, RUNS / name / file)


def main(argv: list[str] | None = None) -> int:
    """Compare, or write; return how many items differ, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="record digests instead of comparing")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only groups with this regular expression")
    parser.add_argument("--show", metavar="NAME", help="print the text behind an item's digest")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write the text of every item into a folder")
    parser.add_argument("--list", action="store_true", help="print the names of the groups")
    parser.add_argument("--runs", action="store_true", help="write the kept runs of tests/data/runs again")
    options = parser.parse_args(argv)
    if options.runs:
        write_runs()
        return 0
    if options.list:
        print("\n".join(GROUPS))
        return 0
    if options.show:
        items = dict(made([in_group(options.show)]))
        content = items[options.show]
        print(content if isinstance(content, str) else content.decode(errors="backslashreplace"))
        return 0
    names = [name for name in GROUPS if re.search(options.only, name)]
    found = {}
    for item, content in made(names):
        found[item] = digest(content)
        if options.save:
            file = options.save / (item + ".txt")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if options.write:
        kept = {item: value for item, value in recorded.items() if in_group(item) in set(GROUPS) - set(names)}
        write(kept | found, RECORDED)
        print(f"{len(found)} items recorded")
        return 0
    wanted = {item: value for item, value in recorded.items() if in_group(item) in names}
    differing = [item for item in sorted(wanted | found) if wanted.get(item) != found.get(item)]
    for item in differing:
        print(f"{'new' if item not in wanted else 'gone' if item not in found else 'differs'}: {item}")
    print(f"{len(found)} items, {len(differing)} differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
