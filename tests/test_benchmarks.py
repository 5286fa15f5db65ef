"""The benchmarks: the page is what the results say, and the reference is what the search is."""

import json

import numpy as np
import pytest
from benchmarks import (
    coverage,
    estimates,
    killing,
    page,
    page_measuring,
    page_repairs,
    page_texts,
    profanity,
    repairs,
    throughput,
)
from benchmarks.sequential import Sequential

import evenhand as eh
from evenhand.stream import Stream

DOMAINS = [(1, 9), (0, 7), (-3, 4), (0, 1), (0, 5)]
PROTECTED = [3]


class Lookup:
    """A random table over the free attributes: ``share`` of them are treated differently."""

    def __init__(self, share, seed):
        sizes = [high - low + 1 for j, (low, high) in enumerate(DOMAINS) if j not in PROTECTED]
        self.unfair = np.random.default_rng(seed).random(sizes) < share
        self.lows = np.array([low for low, _ in DOMAINS])

    def predict(self, X):
        codes = (X - self.lows).astype(int)
        free = tuple(np.delete(codes, PROTECTED, axis=1).T)
        return self.unfair[free] & (codes[:, PROTECTED[0]] == 1)


def space():
    names = "abcde"
    attributes = [eh.Integer(name, *bounds) for name, bounds in zip(names, DOMAINS, strict=True)]
    return eh.Space(attributes, protected=[names[p] for p in PROTECTED])


@pytest.mark.parametrize(("share", "samples"), [(0.05, 200), (0.3, 40), (0.6, 5)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kosei_equals_the_sequential_reference_in_order(share, samples, seed):
    model, where = Lookup(share, seed), space()
    run = eh.audit(
        eh.wrap(model.predict, input="array"),
        where,
        eh.Kosei(samples=samples, wave=7),
        eh.Budget(tests=10**6),
        seed=seed,
    )
    sample, _ = where.sampler.deal(Stream(seed), 0, samples)
    reference = Sequential(model, DOMAINS, PROTECTED)
    seeds = reference.global_search(tuple(row) for row in (sample.rows + model.lows).tolist())
    expected = [*seeds, *reference.local_search(seeds)]

    def free(individual):
        return tuple(v for j, v in enumerate(individual) if j not in PROTECTED)

    found = [free(row) for row in run.findings[list("abcde")].itertuples(index=False, name=None)]
    assert found == [free(individual) for individual in expected]
    assert run.tests == len(reference.judged)


def test_throughput_writes_what_the_page_needs(tmp_path):
    out = tmp_path / "throughput.json"
    throughput.main(["--models", "tree", "--scale", "0.001", "--seconds", "0.1", "--out", str(out)])
    result = json.loads(out.read_text())
    assert [row["search"] for row in result["efficiency"]] == ["themis", "kosei"]
    assert all(row["rows"] >= 2 * row["tests"] and row["efficiency"] > 0 for row in result["efficiency"])
    text = page.throughput(result)
    assert text.startswith("## ")
    assert "| tree |" in text


def test_coverage_writes_what_the_page_needs(tmp_path):
    out = tmp_path / "coverage.json"
    coverage.main(["--models", "20", "--samples", "400", "--rates", "0.1", "0.5", "--out", str(out)])
    result = json.loads(out.read_text())
    assert {row["interval"] for row in result["shares"]} >= {"Clopper-Pearson", "anytime", "lln", "at most"}
    assert all(0 <= row["coverage"] <= 1 for row in result["shares"] + result["others"])
    text = page_measuring.coverage(result)
    assert "| 10 |" in text
    assert "hypergeometric" in text


def test_simulated_models_have_the_share_that_they_should():
    unfair = np.concatenate([coverage.verdicts(0.1, number, 5_000) for number in range(8)])
    assert abs(unfair.mean() - 0.1) < 4 * np.sqrt(0.09 / len(unfair))


def test_estimates_write_what_the_page_needs(tmp_path):
    out = tmp_path / "estimates.json"
    estimates.main(["--scale", "0.005", "--only", "aequitas", "--models", "tree", "--out", str(out)])
    result = json.loads(out.read_text())
    assert result["aequitas"]["tree"]["samples"] == 2_000
    papers = json.loads(page.PAPERS.read_text())["aequitas_table_5"]
    assert "| tree |" in page_measuring.estimates(result, papers)


def test_a_killed_run_resumes(tmp_path):
    whole = killing.undisturbed(tmp_path)
    row = killing.disturbed(tmp_path, whole, "kill", whole.seconds / 3)
    assert row is None or killing.holds(row)


def test_page_is_what_the_results_say(tmp_path):
    page.main(["--check"])
    other = tmp_path / "page.md"
    other.write_text("old")
    with pytest.raises(SystemExit, match="out of date"):
        page.main(["--check", "--page", str(other)])


def test_results_name_no_machine_and_stay_small():
    files = sorted(page.RESULTS.glob("*.json"))
    assert [file.stem for file in files] == sorted(page.NAMES)
    assert sum(file.stat().st_size for file in files) < 200_000
    for file in files:
        assert "/home" not in file.read_text()
        assert "/work" not in file.read_text()


def test_repairs_write_what_the_page_needs(tmp_path):
    parts = [tmp_path / "retrain.json", tmp_path / "marginal.json"]
    for part, row in zip(parts, ["retrain/tree", "marginal/logistic regression"], strict=True):
        repairs.main(["--small", "--seeds", "1", "--rows", row, "--out", str(part)])
    out = tmp_path / "repairs.json"
    repairs.main(["--merge", *map(str, parts), "--out", str(out)])
    result = json.loads(out.read_text())
    assert result["marginal"]["logistic regression/0"]["after"]["found"] == 0
    text = page_repairs.repairs(result, json.loads(page.PAPERS.read_text()))
    assert "| tree |" in text
    assert "1 of 1 meet the target" in text


def test_profanity_writes_what_the_page_needs(tmp_path):
    out, comments = tmp_path / "profanity.json", tmp_path / "c.csv"
    comments.write_text("text,toxic\n" + "A gay man lives here.,0\nA straight man lives here.,0\n" * 60)
    profanity.main(["--most", "120", "--lexicons", "orientation", "--comments", str(comments), "--out", str(out)])
    result = json.loads(out.read_text())
    written = result["written"]["orientation"]
    assert written["tests"] == 1  # one text, with one term or another
    places = {name: counts[0] for name, counts in written["identities"].items()}
    assert places["gay"] == places["straight"] == 120
    # Every place is either as it was, or flipped one way.
    assert all(n >= flagged >= only for n, flagged, only, _ in written["identities"].values())
    text = page_texts.profanity(result)
    assert "| generated | religion |" in text
    assert "| written by people | orientation | gay | 120 |" in text
