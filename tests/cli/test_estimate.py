from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MODELS, Command
from tests.helpers import optional


@pytest.fixture
def estimate(evenhand: Command, people: Path) -> Command:
    """Estimate a model of ``models.py`` on the people, by sex."""

    def call(model: str, *arguments: object) -> Any:
        given = ["--data", people, "--target", "paid", "--protected", "sex"]
        return evenhand("estimate", "--model", f"{MODELS}:{model}", *given, *arguments)

    return call


def values(done: Any) -> Any:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_small_space_is_exact(estimate: Command) -> None:
    done = estimate("refuse", "--favourable", "granted")
    text = " ".join(done.stdout.split())
    # 26 ages by 31 hours by 3 kinds of work by 2 sexes, of which those of 20 to 29 are treated differently.
    assert "Exactly 38.5% of all 4,836 valid individuals are treated differently" in text
    assert "sex M favoured over sex F: net 38.5%" in text
    assert (done.exit_code, done.stderr) == (0, "")


def test_json_is_the_estimate(estimate: Command) -> None:
    found = values(estimate("refuse", "--sample", "--samples", 2000, "--seed", 3, "--json", "--confidence", 0.9))
    assert found["low"] < 930 / 2418 < found["high"]
    assert (found["samples"], found["confidence"], found["interval"]) == (2000, 0.9, "Clopper-Pearson")
    assert found["groups"] is None
    assert values(estimate("refuse", "--half-width", 0.03, "--json"))["stop"] == "half_width"
    assert values(estimate("refuse", "--interval", "lln", "--experiments", 10, "--samples", 100, "--json"))["low"] > 0


def test_populations(estimate: Command) -> None:
    data = values(estimate("refuse", "--population", "data", "--json"))
    assert (data["samples"], data["rate"]) == (4, 0.25)
    assert values(estimate("refuse", "--population", "data", "--about", "rows", "--json"))["exact"]
    near = values(estimate("refuse", "--population", "near", "--steps", 1, "--samples", 500, "--json"))
    assert near["population"] == "near"
    assert "at most" in values(estimate("fair", "--sample", "--samples", 100, "--json"))["sentence"]


def test_weights_are_not_an_attribute(evenhand: Command, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("age,sex,w\n20,F,3\n40,M,1\n45,F,1\n50,M,1\n")
    given = ["--data", path, "--protected", "sex", "--population", "data", "--weights", "w", "--json"]
    assert values(evenhand("estimate", "--model", f"{MODELS}:refuse", *given))["rate"] == 0.5


def test_groups_and_pictures(estimate: Command, evenhand: Command, people: Path, tmp_path: Path) -> None:
    optional("fairlearn")
    plots = tmp_path / "plots"
    done = estimate("refuse", "--population", "data", "--favourable", "granted", "--groups", "--plots", plots)
    assert done.exit_code == 2
    assert "high, low" in done.stderr
    given = ["--data", people, "--protected", "sex", "--exclude", "paid", "--favourable", "granted"]
    done = evenhand("estimate", "--model", f"{MODELS}:refuse", *given, "--groups", "--plots", plots)
    assert done.exit_code == 0, done.output
    assert "impact ratio" in done.stdout
    assert {path.name for path in plots.iterdir()} == {"convergence.svg", "intervals.svg", "gaps.svg", "groups.svg"}


@pytest.mark.parametrize(("limit", "status"), [("38%", 1), ("38.5%", 0), ("0%", 1), ("100%", 0)])
def test_fail_above(estimate: Command, limit: str, status: int) -> None:
    done = estimate("refuse", "--fail-above", limit, "--quiet")
    assert (done.exit_code, done.output) == (status, "")
    if status:
        assert "more than" in estimate("refuse", "--fail-above", limit).stderr


def test_noise_is_shown(estimate: Command) -> None:
    done = estimate("noisy", "--samples", 1000)
    assert "most frequent answer counts" in " ".join(done.stdout.split())


def test_a_configuration(evenhand: Command, people: Path) -> None:
    config = people.parent / "evenhand.toml"
    config.write_text(
        f'[model]\npath = "{MODELS}:refuse"\n[data]\npath = "people.csv"\ntarget = "paid"\n'
        '[space]\nprotected = ["sex"]\n[audit]\nseed = 4\n'
        '[estimate]\npopulation = "near"\nsamples = 300\nfavourable = "granted"\n'
    )
    found = values(evenhand("estimate", config, "--samples", 200, "--json"))
    assert (found["samples"], found["seed"], found["favourable"]) == (200, 4, "granted")


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("refuse", ["--population", "all"], ["uniform"]),
        ("refuse", ["--interval", "wald"], ["clopper-pearson"]),
        ("refuse", ["--half-width", "0.01", "--interval", "lln"], ["--interval", "half_width"]),
        ("refuse", ["--samples", "0"], ["samples"]),
        ("refuse", ["--confidence", "95"], ["confidence"]),
        ("refuse", ["--favourable", "perhaps"], ["perhaps", "granted"]),
        ("refuse", ["--groups"], ["--favourable"]),
        ("refuse", ["--weights", "w", "--population", "data"], ["'w'"]),
        ("refuse", ["--weights", "age"], ["--population data"]),
        ("refuse", ["--fail-above", "5"], ["percentage"]),
        ("refuse", ["--fail-above", "x%"], ["percentage"]),
        ("refuse", ["--gamma", "0.1"], ["--gamma flip"]),
        ("noisy", ["--repeats", "1", "--samples", "100"], ["--repeats 1"]),
        ("flaky", ["--samples", "100"], ["two answers"]),
        ("raises", [], ["ZeroDivisionError"]),
        ("nan", [], ["nan"]),
    ],
)
def test_wrong_input(estimate: Command, refused: Command, model: str, arguments: list[str], words: list[str]) -> None:
    refused(estimate(model, *arguments), *words)


def test_plots_need_a_folder(estimate: Command, refused: Command, people: Path) -> None:
    refused(estimate("refuse", "--plots", people), "folder")
    refused(estimate("refuse", "--population", "near", "--data", people.parent / "none.csv"), "none.csv")


def test_without_data(evenhand: Command, refused: Command, people: Path, tmp_path: Path) -> None:
    evenhand("init", people, "--protected", "sex", "--target", "paid", "--output", tmp_path / "e.toml")
    given = ["--model", f"{MODELS}:refuse", "--space", tmp_path / "e.space.toml"]
    assert values(evenhand("estimate", *given, "--json"))["exact"]
    refused(evenhand("estimate", *given, "--population", "data"), "--data")


def test_several_outcomes_and_an_order(estimate: Command, evenhand: Command, people: Path, tmp_path: Path) -> None:
    several = values(estimate("three", "--favourable", "granted", "--favourable", "reduced", "--json"))
    assert several["favourable"] == ["granted", "reduced"]
    # Ages go from 20 to 45: 5 of 26 are refused, 10 of 26 get less than a man would.
    assert several["comparisons"][0]["net"] == pytest.approx(-5 / 26)
    order = [part for name in ("refused", "reduced", "granted") for part in ("--order", name)]
    ordered = values(estimate("three", *order, "--json"))
    assert ordered["favourable"] == {"order": ["refused", "reduced", "granted"]}
    assert ordered["comparisons"][0]["net"] == pytest.approx(-10 / 26)
    config = tmp_path / "order.toml"
    config.write_text(
        f'[model]\npath = "{MODELS}:three"\n[data]\npath = "{people}"\ntarget = "paid"\n[space]\nprotected = ["sex"]\n'
        '[estimate]\norder = ["refused", "reduced", "granted"]\n'
    )
    from_file = values(evenhand("estimate", config, "--json"))
    assert from_file["comparisons"] == ordered["comparisons"]
    # What the command line says overrides the file, whichever way it says it.
    flag = values(evenhand("estimate", config, "--json", "--favourable", "granted", "--favourable", "reduced"))
    assert flag["comparisons"] == several["comparisons"]


def test_wrong_orders(estimate: Command, refused: Command, evenhand: Command, tmp_path: Path) -> None:
    refused(estimate("three", "--order", "refused", "--order", "granted"), "--order", "'reduced'", "name every outcome")
    refused(estimate("three", "--order", "granted"), "at least two outcomes")
    refused(
        estimate("three", "--favourable", "granted", "--order", "refused", "--order", "granted"), "cannot be combined"
    )
    refused(estimate("three", "--favourable", "granted", "--favourable", "yes"), "--favourable", "'yes'", "'reduced'")


def test_estimates_of_numbers_compare_means(estimate: Command) -> None:
    text = " ".join(estimate("score", "--gamma", 0.05).stdout.split())
    assert "sex F gets 0.1 more than sex M on average" in text
    assert "favoured" not in text
    text = " ".join(estimate("score", "--gamma", 0.05, "--favourable", "lower").stdout.split())
    assert "sex M favoured over sex F" in text


def test_labels_are_not_scores(estimate: Command, refused: Command) -> None:
    refused(estimate("pay", "--gamma", 100), "labels", "--gamma flip", "eh.wrap(model, regression=True)")
