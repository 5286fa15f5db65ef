from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import FlakyModel, ModelError, RunError
from evenhand.estimates.compare import _counted, compare

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M", "X"])], protected="sex")


def younger(age: int, sex: str = "F") -> Any:
    return eh.wrap(lambda frame: (frame["age"] < age) & (frame["sex"] == sex), name=f"below {age}")


def audit(model: Any, space: eh.Space = SPACE, **settings: Any) -> eh.Run:
    return eh.audit(model, space, "themis", **settings)


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 2**12 - 1), min_size=2, max_size=2),
    st.lists(st.integers(1, 12), min_size=2, max_size=2),
)
def test_against_plain_counting(tables: list[int], budgets: list[int]) -> None:
    """Any two models of twelve tests, any searches: the counts are those of two sets."""
    space = eh.Space([eh.Integer("n", 0, 11), eh.Boolean("b")], protected="b")
    models = [lambda f, t=t: ((t >> f["n"].to_numpy()) & 1).astype(bool) & f["b"].to_numpy() for t in tables]
    runs = [eh.audit(m, space, "themis", eh.Budget(tests=n)) for m, n in zip(models, budgets, strict=True)]
    found = compare(*runs)
    unfair = [{n for n in range(12) if t >> n & 1} for t in tables]
    people = [run.findings["n"].to_numpy() for run in runs]
    assert set(people[0][found.fixed]) == set(people[0]) - unfair[1]
    assert set(people[0][found.still]) == set(people[0]) & unfair[1]
    assert set(people[1][found.new]) == set(people[1]) - unfair[0]
    assert set(people[1][found.known]) == set(people[1]) & unfair[0]
    rates = found.rates
    assert (rates.samples, rates.both) == (24, 2 * len(unfair[0] & unfair[1]))
    assert rates.difference == pytest.approx((len(unfair[1]) - len(unfair[0])) / 12)
    assert rates.low == rates.high == rates.difference
    assert rates.exact


def test_any_counterpart_counts() -> None:
    """The pair that was found is fixed, but the same person is treated otherwise than another counterpart."""
    found = compare(audit(younger(10)), audit(younger(10, "X")))
    assert (len(found.fixed), len(found.still), len(found.new), len(found.known)) == (0, 9, 0, 9)


def test_a_sample_has_an_interval_that_holds() -> None:
    space = eh.Space([eh.Integer("age", 0, 99), eh.Integer("n", 0, 10**6), eh.Boolean("b")], protected="b")
    models = [lambda f, k=k: (f["age"] < k) & f["b"] for k in (30, 20)]
    runs = [eh.audit(m, space, "themis", eh.Budget(tests=50)) for m in models]
    rates = compare(*runs, samples=4000, seed=3).rates
    assert (rates.samples, rates.exact, rates.only_b) == (4000, False, 0)
    assert rates.low < -0.1 < rates.high < 0
    # Both models judge the same people, so that the interval is much narrower than that of two samples.
    assert rates.high - rates.low < 0.8 * ((rates.high_a - rates.low_a) + (rates.high_b - rates.low_b))
    assert rates.p_value is not None
    assert rates.p_value < 1e-9
    assert "fewer" in rates.sentence
    assert compare(*runs, samples=4000, seed=3).rates == rates


def test_intervals_of_a_difference_cover() -> None:
    """Simulated pairs of verdicts with a known difference: the interval misses it at most as often as it may."""
    rng, missed = np.random.default_rng(0), 0
    for _ in range(400):
        counts = rng.multinomial(300, [0.9, 0.06, 0.02, 0.02])
        rates = _counted(counts, 0.9, exact=False)
        missed += not rates.low <= 0.04 <= rates.high
    assert missed <= 40


def test_models_come_from_where_it_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit(younger(10), directory=tmp_path / "a")
    audit(younger(5), directory=tmp_path / "b")
    runs = [eh.Run.load(tmp_path / name) for name in "ab"]
    with pytest.raises(ModelError, match="model_a=..."):
        compare(*runs)
    found = compare(*runs, younger(10), younger(5))
    assert (len(found.fixed), len(found.still), len(found.new)) == (5, 4, 0)
    with pytest.raises(ModelError, match=r"is not the run's model \(.*other answers"):
        compare(*runs, younger(5), younger(5))
    # What a directory says must not make us import anything.
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    source = dict.fromkeys(("model_sha256", "threshold", "data", "data_sha256")) | {"model": "evil:x"}
    (tmp_path / "a" / "source.json").write_text(json.dumps(source))
    with pytest.raises(ModelError, match="runs code when it is loaded"):
        compare(eh.Run.load(tmp_path / "a"), runs[1], None, younger(5))
    (tmp_path / "a" / "source.json").write_text("{}")
    with pytest.raises(RunError, match="cannot be read"):
        compare(eh.Run.load(tmp_path / "a"), runs[1], None, younger(5))


def test_runs_that_cannot_be_compared() -> None:
    run = audit(younger(10))
    others = {
        "only the second has 'pay'": eh.Space([*SPACE.attributes, eh.Boolean("pay")], "sex"),
        "'age' is .* 1 to 40 .* 1 to 50": eh.Space([eh.Integer("age", 1, 50), SPACE.attributes[1]], "sex"),
        "order of the attributes": eh.Space(SPACE.attributes[::-1], "sex"),
        "differ in constraints": eh.Space(SPACE.attributes, "sex", ["age < 40"]),
    }
    for words, space in others.items():
        with pytest.raises(RunError, match=words):
            compare(run, audit(younger(10), space))
    scored = eh.audit(lambda f: f["age"] / 40, SPACE, "themis", criterion=eh.Gap(0.1))
    with pytest.raises(RunError, match="one criterion"):
        compare(run, scored)
    with pytest.raises(RunError, match="must be an eh.Run"):
        compare(run, "run")  # type: ignore[arg-type]


def test_a_noisy_model_is_refused() -> None:
    rng = np.random.default_rng(0)
    steady = [True]

    def noisy(frame: Any) -> Any:
        return (frame["age"] < 10).to_numpy() ^ (False if steady[0] else rng.random(len(frame)) < 0.3)

    run = audit(noisy)
    calls = 0

    def later(frame: Any) -> Any:
        nonlocal calls
        calls += 1
        steady[0] = calls <= 2
        return noisy(frame)

    with pytest.raises((FlakyModel, ModelError)):
        compare(run, audit(younger(3)), later)
