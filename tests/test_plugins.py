"""Searches, models and spaces of other packages are found by name, in Python and on the command line."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand import plugins
from evenhand._rng import Stream
from evenhand.errors import EstimateError, ModelError, RunError, SpaceError, StrategyError
from evenhand.reports.wording import call_of
from evenhand.search import Problem, judge
from evenhand.spaces.base import require
from evenhand.strategies import describe, known, make, names
from evenhand.testing import World, check_model, check_space, check_strategy, worlds_for
from tests.plugin_helpers import PLUGINS, evenhand, installed
from tests.reports.page import Page

__all__ = ["installed"]

WEIGHTS = np.random.default_rng(0).uniform(0.5, 1.5, 16)
CONFIG = """
[model]
path = "mine:model"
[space]
path = "mine:space"
[audit]
strategy = "pixelbox.search:Flips"
settings = {samples = 50}
"""
MINE = """
from pixelbox import Brightness, PixelSpace
space, model = PixelSpace(2, (0, 0, 1, 1)), Brightness(1.0, 1.2)
"""


@dataclass(frozen=True)
class Here:
    """A search that no entry point names."""

    samples: int = 9

    def search(self, problem: Problem) -> Any:
        yield from judge(problem.sample(self.samples))


def boxes() -> tuple[Any, Any]:
    from pixelbox import Brightness, PixelSpace

    return PixelSpace(), Brightness(WEIGHTS)


# Searches.


def test_a_search_is_found_by_the_name_of_its_entry_point(installed: None) -> None:
    assert describe(make("mirrored", samples=7)) == {"strategy": "mirrored", "samples": 7}
    assert describe(make("pixelbox:Mirrored"))["strategy"] == "mirrored"
    assert {"mirrored", "pixel-flips"} <= set(names())
    check_strategy(make("mirrored", samples=100), worlds_for(make("mirrored"))[1:])


def test_a_search_is_found_by_module_and_class() -> None:
    name = f"{__name__}:Here"
    assert make(name, samples=3) == Here(3)
    assert describe(Here()) == {"strategy": name, "samples": 9}
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    run = eh.audit(lambda frame: frame["age"] > 3, space, name)
    assert call_of(run).startswith(f"eh.audit(model, space, evenhand.strategies.make({name!r}, samples=9), ")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("koseii", "did you mean 'kosei'"),
        ("mirored", "did you mean 'mirrored'"),
        ("nowhere:Search", "nowhere"),
        ("evenhand.strategies:Kose", "Kose"),
        ("evenhand.strategies:make", "dataclass with a search"),
    ],
)
def test_a_wrong_name_is_reported(installed: None, name: str, words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        make(name)


def test_what_a_directory_names_is_never_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    eh.audit(lambda frame: frame["age"] > 3, space, Here(), directory=tmp_path / "run")
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    identity = tmp_path / "run" / "identity.json"
    stored = json.loads(identity.read_text())
    stored["strategy"] = {"strategy": "hostile:Search"}
    identity.write_text(json.dumps(stored))
    run = eh.Run.load(tmp_path / "run")
    with pytest.raises(RunError, match="hostile:Search"):
        eh.coverage(run, lambda frame: frame["age"] > 3)
    eh.report(run, None)
    assert known("hostile:Search") is None
    assert "hostile" not in sys.modules
    stored["space"]["kind"] = "hostile:Space"
    identity.write_text(json.dumps(stored))
    with pytest.raises(RunError, match="hostile:Space"):
        eh.Run.load(tmp_path / "run")
    assert "hostile" not in sys.modules


def test_coverage_repeats_an_installed_search(installed: None, tmp_path: Path) -> None:
    space = eh.Space([eh.Integer("age", 1, 90), eh.Boolean("member")], protected="member")

    def model(frame: Any) -> Any:
        return frame["age"] > 30

    run = eh.audit(model, space, "mirrored", eh.Budget(tests=40), directory=tmp_path)
    assert eh.coverage(eh.Run.load(tmp_path), model, samples=200) == eh.coverage(run, samples=200)


def test_a_broken_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[evenhand.strategies]\nbroken = broken:Search\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StrategyError, match=r"broken:Search.*uninstall"):
        make("broken")


# Models.


def test_a_package_adapts_its_own_models(installed: None) -> None:
    space, model = boxes()
    images = np.random.default_rng(1).integers(0, 4, (40, 4, 4)).astype(float)
    check_model(model, images)
    adapted = eh.wrap(model, threshold=0.4)
    assert (adapted.name, adapted.threshold, adapted.batch_size) == ("brightness", 0.4, 512)
    assert (adapted.calls_at_once, adapted.row_cost) == (4, 0.001)
    with pytest.raises(ModelError, match="PixelSpace"):
        # Ours, but nothing that the adapter knows.
        eh.wrap(space)


def test_plugins_for_known_frameworks_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr(plugins, "installed", lambda group: pytest.fail(f"looked {group} up"))
    eh.wrap(LogisticRegression().fit([[0], [1]], [0, 1]))
    eh.wrap(len, input="array")


@pytest.mark.parametrize("answer", ["an error", "no model"])
def test_a_failing_adapter_is_reported(installed: None, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    import pixelbox.models

    _, model = boxes()
    monkeypatch.setattr(pixelbox.models, "adapt", lambda model: 1 / 0 if answer == "an error" else "model")
    with pytest.raises(ModelError, match=r"pixelbox\.models:adapt"):
        eh.wrap(model)


def test_the_batch_size_of_a_model_is_used_unless_another_is_given() -> None:
    sizes: list[int] = []

    class Model(eh.Model):
        input, batch_size = "array", 3

        def labels(self, X: Any) -> Any:
            sizes.append(len(X))
            return X[:, 0] > 3

    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    eh.audit(Model(), space, "themis")
    assert max(sizes) == 3
    sizes.clear()
    eh.audit(eh.wrap(Model(), batch_size=5), space, "themis")
    assert max(sizes) == 5


@pytest.mark.parametrize(("name", "value"), [("calls_at_once", 0), ("row_cost", -1.0), ("batch_size", 2.5)])
def test_attributes_of_a_model_are_checked(name: str, value: Any) -> None:
    model = eh.wrap(lambda X: X[:, 0] > 3, input="array")
    setattr(model, name, value)
    with pytest.raises(AssertionError, match=name):
        check_model(model, np.zeros((9, 2)))


# Spaces.


def test_another_kind_of_space_passes_the_suite(installed: None) -> None:
    space, model = boxes()
    data = np.random.default_rng(2).integers(0, 4, (30, 16))
    data[:, space.inside] = space.fillings[np.arange(30) % 2][:, None]
    check_space(space, data, model)


def test_its_search_passes_the_suite(installed: None) -> None:
    space, model = boxes()
    check_strategy(make("pixel-flips", samples=50), [World(model, space)])


def test_a_report_names_unsupported_parts(installed: None, tmp_path: Path) -> None:
    space, model = boxes()
    run = eh.audit(model, space, "pixel-flips", eh.Budget(tests=300), criterion=eh.Gap(0.1), directory=tmp_path / "run")
    for one in (run, eh.Run.load(tmp_path / "run")):
        page = eh.report(one, None).decode()
        assert page.count("because this run is on images") == 3
        assert "patch" in page
    for name in ("x.json", "x.csv", "x.xml", "x.sarif", "x.md"):
        assert eh.export(run, tmp_path / name).stat().st_size
    with pytest.raises(RunError, match="favourable"):
        eh.report(run, None, favourable="bright")


def test_unsupported_features_are_refused(installed: None) -> None:
    space, model = boxes()
    run = eh.audit(model, space, "pixel-flips", eh.Budget(tests=300))
    for call in (lambda: eh.estimate(model, space, "uniform"), lambda: eh.regions(run), lambda: eh.coverage(run)):
        with pytest.raises((EstimateError, SpaceError), match="attributes.*images"):
            call()
    with pytest.raises(SpaceError, match="texts.*images"):
        require(space, "texts")
    with pytest.raises(StrategyError, match="pixel-flips"):
        eh.audit(model, space, "kosei")


def test_another_kind_of_space_is_measured_by_its_data(installed: None) -> None:
    space, model = boxes()
    images = space.random(Stream(3), 0, 400).rows
    found = eh.estimate(model, space, data=images)
    assert found.samples == len(images)
    assert 0 < found.low < found.rate < found.high
    assert found.sentence
    assert not found.comparisons


def test_another_kind_of_space_needs_its_package_to_be_read(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, model = boxes()
    eh.audit(model, space, "pixel-flips", eh.Budget(tests=300), directory=tmp_path)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(PLUGINS)])
    with pytest.raises(RunError, match=r"pixels.*evenhand\.spaces"):
        eh.Run.load(tmp_path)


# The command line.


@pytest.mark.slow
def test_the_command_finds_them(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "evenhand.toml").write_text(CONFIG)
    flags = ["--model", "mine:model", "--space", "mine:space", "--strategy", "pixel-flips", "--set", "samples=50"]
    first = evenhand(tmp_path, "audit", *flags, "--directory", "run", "--report", "page.html", "--json")
    assert first.returncode == 0, first.stderr
    second = evenhand(tmp_path, "audit", "evenhand.toml", "--json")
    assert second.returncode == 0, second.stderr
    told = [json.loads(done.stdout) for done in (first, second)]
    assert told[0]["identity"] == told[1]["identity"]
    assert told[0]["identity"]["strategy"] == {"strategy": "pixel-flips", "samples": 50, "flips": 4}
    page = (tmp_path / "page.html").read_text()
    assert page.count("because this run is on images") == 3
    assert "images found by the search" in Page(page).text
    assert "0 not" in evenhand(tmp_path, "replay", "run", "--model", "mine:model").stdout
    assert "pixel-flips" in evenhand(tmp_path, "strategies").stdout


@pytest.mark.slow
def test_the_command_names_missing_parts(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE + "text = 'no space'\n")
    for flags, words in (
        (["--space", "mine:nothing"], "nothing"),
        (["--space", "mine:text"], "mine:text is a str"),
        (["--space", "mine:space", "--protected", "patch"], "protected"),
        (["--space", "mine:space", "--strategy", "pixel-flip"], "pixel-flips"),
        (["--space", "mine:space", "--strategy", "mine:Nothing"], "Nothing"),
    ):
        done = evenhand(tmp_path, "audit", "--model", "mine:model", *flags)
        assert done.returncode == 2
        assert words in done.stderr
