"""Hundreds of attributes: nothing overflows, and results are correct."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand._format import count
from evenhand._rng import Stream
from evenhand.budget import Budget
from evenhand.engine.oracle import Status
from evenhand.errors import EstimateError
from evenhand.repairs.marginal import _chosen
from evenhand.runs.audit import line
from tests.helpers import slow

KINDS = (
    lambda name: eh.Integer(name, 0, 99_999),
    lambda name: eh.Nominal(name, [f"v{value}" for value in range(50)]),
    lambda name: eh.Real(name, 0, 1, step=1e-6),
    lambda name: eh.Boolean(name),
)
RULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "constraints": {"constraints": ["x0 <= x4", "x8 > 5 or x3 == True"]},
    "links": {"links": {"sex": {"x3": {"F": {True: False}, "M": {False: True}}}}},
}


def space_of(width: int, **rules: Any) -> eh.Space:
    free = [KINDS[j % len(KINDS)](f"x{j}") for j in range(width - 1)]
    return eh.Space([*free, eh.Nominal("sex", ["F", "M"])], protected="sex", **rules)


def score(frame: pd.DataFrame) -> Any:
    signal = frame["x0"] / 1e5 + frame["x2"] + 0.3 * frame["x3"] + 0.3 * (frame["sex"] == "F") - 1.2
    high = 1 / (1 + np.exp(-4 * signal.to_numpy(dtype=float)))
    return np.column_stack([1 - high, high])


def people_of(space: eh.Space, rows: int) -> pd.DataFrame:
    return space.frame(space.sampler.draw(Stream(3), 0, rows)[0].rows)


@given(st.integers(0, 10**30) | st.integers(0, 6_000).map(lambda power: 123 * 10**power))
def test_counts_are_written_exactly_or_to_two_digits(number: int) -> None:
    text = count(number)
    if number < 10**9:
        assert int(text.replace(",", "")) == number
        return
    digits, power = text.split("e+")
    written = int(digits.replace(".", "")) * 10 ** (int(power) - 1)
    assert abs(written - number) * 20 <= 10 ** int(power)


@pytest.mark.parametrize("width", [200, 1_000, 2_000])
def test_spaces_of_any_size_print_and_describe(width: int) -> None:
    space = space_of(width)
    assert space.tests > 10**400
    power = int(repr(space).splitlines()[0].split("e+")[1].split()[0])
    assert 10**power <= space.tests < 10 ** (power + 1)
    assert len(space.describe()["attributes"]) == width
    with pytest.raises(EstimateError, match=rf"e\+{power}"):
        eh.estimate(score, space, eh.populations.Uniform(exact=True))


def test_init_takes_a_file_of_many_columns(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from evenhand.cli.app import app

    people_of(space_of(250), 50).to_csv(tmp_path / "people.csv", index=False)
    file, out = tmp_path / "people.csv", tmp_path / "evenhand.toml"
    done = CliRunner().invoke(app, ["init", str(file), "--protected", "sex", "--output", str(out)])
    assert done.exit_code == 0, done.output
    assert "Space: 250 attributes" in done.output


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("search", ["themis", *slow(["aequitas"]), "kosei", *slow(["symbolic", "adf"])])
def test_searches_of_many_attributes_find_what_is_so(search: str, rules: str) -> None:
    space = space_of(200, **RULES[rules])
    run = eh.audit(score, space, search, eh.Budget(tests=150, rows=15_000), data=people_of(space, 60), seed=2)
    assert run.found
    one, other = (run.pairs.individuals(side).rows for side in ("individual", "counterpart"))
    assert space.valid(one).all()
    assert space.valid(other).all()
    said = [score(space.frame(rows)).argmax(axis=1) for rows in (one, other)]
    assert (said[0] != said[1]).all()
    assert len(np.unique(np.sort(np.stack([one, other]), axis=0)[0], axis=0)) == run.found
    follows = [space.column("sex"), *([space.column("x3")] if space.links else [])]
    assert not np.delete(one != other, follows, axis=1).any()


@pytest.mark.parametrize("rules", ["plain", *slow(["constraints", "links"])])
def test_many_attributes_are_summarised(rules: str, tmp_path: Path) -> None:
    space = space_of(200, **RULES[rules])
    data = people_of(space, 200)
    run = eh.audit(score, space, "themis", eh.Budget(tests=400), data=data, directory=tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(run.findings) == run.found
        page = eh.report(run, tmp_path / "report.html", data=data, favourable=1, samples=1_000)
    assert "could not be made" not in page.read_text("utf-8")
    assert eh.Run.load(tmp_path / "run").found == run.found
    assert eh.remaining(eh.estimate(score, space, samples=500), run).seen > 0


@pytest.mark.parametrize("sizes", [[10] * 18, [10] * 20, [2] * 200, [1_000] * 4 + [2] * 40])
def test_more_counterparts_than_64_bits_count_are_sampled(sizes: list[int]) -> None:
    attributes = [eh.Integer(f"p{j}", 0, size - 1) for j, size in enumerate(sizes)]
    space = eh.Space([eh.Integer("x", 0, 9), *attributes], [a.name for a in attributes], max_family_size=50)
    people = space.sampler.draw(Stream(1), 0, 20)[0]
    families = space.families(people, seed=3)
    assert (families.rows == space.families(people, seed=3).rows).all()
    assert (families.rows != space.families(people, seed=4).rows).any()
    assert (families.rows[np.arange(20), families.own] == people.rows).all()
    assert (families.rows[:, :, 0] == people.rows[:, None, 0]).all()
    assert ((families.rows >= 0) & (families.rows < space.sizes)).all()
    for family in families.rows:
        assert len(np.unique(family, axis=0)) == 50
    # Every value of every protected attribute is as likely: with 1,000 draws a mean is within 6 standard errors.
    for j, size in enumerate(sizes, 1):
        drawn = families.rows[:, :, j].mean()
        assert abs(drawn - (size - 1) / 2) < 6 * size / np.sqrt(12 * 1_000)
    run = eh.audit(lambda f: f["p0"] >= sizes[0] / 2, space, "themis", eh.Budget(tests=10))
    assert run.found == run.tests
    assert "sampled from" in repr(space)


def test_combinations_to_average_over_are_spread_evenly() -> None:
    attributes = [eh.Integer(f"p{j}", 0, 9) for j in range(30)]
    space = eh.Space([eh.Integer("x", 0, 9), *attributes], [a.name for a in attributes], max_family_size=100)
    codes, weights, left_out = _chosen(space, None)
    assert left_out
    assert weights.sum() == pytest.approx(1)
    # A hundred equal stretches of 30 digits: the first two digits count them, the third is the middle.
    assert codes[:, 0].tolist() == [place // 10 for place in range(100)]
    assert codes[:, 1].tolist() == [place % 10 for place in range(100)]
    assert set(codes[:, 2].tolist()) == {5}


def test_no_remaining_time_for_an_unlimited_space() -> None:
    status = Status(tests=50, findings=5, rows=100, seconds=2.0, budget=Budget())
    assert "left" not in line(status, 10**400)
    assert "left" not in line(status, 10**310)
    assert line(status, 100).endswith("2 s left")
