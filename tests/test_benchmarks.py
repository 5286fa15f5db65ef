"""The benchmarks: the page is what the results say, and the reference is what the search is."""

import json

import numpy as np
import pytest
from benchmarks import (
    coverage,
    estimates,
    faults,
    page,
    page_measuring,
    page_profanity,
    page_repairs,
    page_showing,
    page_text_speed,
    page_texts,
    profanity,
    realism,
    regions,
    repairs,
    round_trip,
    text_subjects,
    throughput,
)
from benchmarks.sequential import Sequential

import evenhand as eh
from evenhand._rng import Stream
from tests.helpers import optional

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
        eh.Kosei(samples=samples, wave=7, rounds=1),
        eh.Budget(tests=10**6),
        seed=seed,
    )
    sample, _ = where.sampler.draw(Stream(seed), 0, samples)
    reference = Sequential(model, DOMAINS, PROTECTED)
    seeds = reference.global_search(tuple(row) for row in (sample.rows + model.lows).tolist())
    expected = [*seeds, *reference.local_search(seeds)]

    def free(individual):
        return tuple(v for j, v in enumerate(individual) if j not in PROTECTED)

    found = [free(row) for row in run.findings[list("abcde")].itertuples(index=False, name=None)]
    assert found == [free(individual) for individual in expected]
    assert run.tests == len(reference.judged)


@pytest.mark.slow
def test_throughput_writes_what_the_page_needs(tmp_path):
    out = tmp_path / "throughput.json"
    throughput.main(["--models", "tree", "--scale", "0.001", "--seconds", "0.1", "--out", str(out)])
    result = json.loads(out.read_text())
    assert [row["search"] for row in result["efficiency"]] == ["themis", "kosei"]
    assert all(row["rows"] >= 2 * row["tests"] and row["efficiency"] > 0 for row in result["efficiency"])
    text = page.throughput(result)
    assert text.startswith("## ")
    assert "| tree |" in text


@pytest.mark.slow
def test_coverage_writes_what_the_page_needs(tmp_path):
    out = tmp_path / "coverage.json"
    coverage.main(["--models", "20", "--samples", "400", "--rates", "0.1", "0.5", "--out", str(out)])
    result = json.loads(out.read_text())
    assert set(result["shares"]) >= {"Clopper-Pearson", "anytime", "lln", "at most"}
    assert all(0 <= row["coverage"] <= 1 for part in ("shares", "others") for row in coverage.rows_of(result[part]))
    text = page_measuring.coverage(result)
    assert "| 10 |" in text
    assert "hypergeometric" in text


def test_simulated_models_have_the_share_that_they_should():
    unfair = np.concatenate([coverage.verdicts(0.1, number, 5_000) for number in range(8)])
    assert abs(unfair.mean() - 0.1) < 4 * np.sqrt(0.09 / len(unfair))


@pytest.mark.slow
def test_estimates_write_what_the_page_needs(tmp_path):
    out = tmp_path / "estimates.json"
    estimates.main(["--scale", "0.005", "--only", "aequitas", "--models", "tree", "--out", str(out)])
    result = json.loads(out.read_text())
    assert result["aequitas"]["tree"]["samples"] == 2_000
    papers = json.loads(page.PAPERS.read_text())["aequitas_table_5"]
    assert "| tree |" in page_measuring.estimates(result, papers)


@pytest.mark.slow
def test_regions_write_what_the_page_needs(tmp_path):
    out = tmp_path / "regions.json"
    regions.main(["--cases", "1", "--fair", "2", "--out", str(out)])
    result = json.loads(out.read_text())
    assert [r["right"] for r in result["planted"].values()] == [1] * len(regions.KINDS)
    assert "| two rules | **1** of 1 |" in page_showing.regions(result)


def test_planted_rules_are_what_decides():
    model = regions.planted("two rules", 3)
    people, _ = model.space.sampler.draw(Stream(1), 0, 2_000)
    numbers = model.space.array(people.rows)
    numbers[:, -1] = 0
    unfair = model.labels(numbers) != model.labels(numbers + np.eye(numbers.shape[1])[-1])
    met = np.logical_or.reduce([rule.inside(people.rows) for rule in model.rules])
    assert (unfair == met).all()
    assert met.any()


def test_shrinking_finds_the_nearest_of_small_worlds():
    for number in (0, 1):
        nearest, of = realism.compared(number, exact=True)
        assert nearest == of == realism.PEOPLE


@pytest.mark.slow
def test_disturbed_runs_go_on_as_if_nothing_had_been():
    result = faults.measure(kills=9, fresh_kills=1, signals=6, tests=200, full_tests=40)
    rows = result["searches"]
    assert {name: row["faults"] for name, row in rows.items()} == {name: [] for name in faults.SEARCHES}
    # Most come before a short run has ended.
    assert sum(row["kills"] + row["fresh"] for row in rows.values()) >= 5
    assert all(row["writes"] >= 5 for row in rows.values())


def test_page_is_what_the_results_say(tmp_path):
    page.main(["--check"])
    other = tmp_path / "page.md"
    other.write_text("old")
    with pytest.raises(SystemExit, match="out of date"):
        page.main(["--check", "--page", str(other)])
    safety = tmp_path / "safety.md"
    safety.write_text(page.SAFETY.read_text().replace("| `nesting` | 100 |", "| `nesting` | 200 |"))
    with pytest.raises(SystemExit, match=r"safety\.md is out of date"):
        page.main(["--check", "--safety", str(safety)])


def test_results_name_no_machine_and_stay_small():
    files = sorted(page.RESULTS.glob("*.json"))
    assert [file.stem for file in files] == sorted([*page.NAMES, "digests", "imports"])
    sizes = {file.stem: file.stat().st_size for file in files}
    # Digests show that a change of the code changes nothing else; no page has figures of them.
    assert sizes.pop("digests") + sizes.pop("imports") < 40_000
    assert sum(sizes.values()) < 240_000
    for file in files:
        assert file.stat().st_size < 60_000, file.name
        assert "/home" not in file.read_text()
        assert "/work" not in file.read_text()


@pytest.mark.slow
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
    assert "Who labels" not in text


@pytest.mark.slow
def test_other_voters_write_what_the_page_needs(tmp_path):
    optional("torch")
    out = tmp_path / "votes.json"
    repairs.main(["--small", "--seeds", "1", "--rows", "votes/credit/sex", "--out", str(out)])
    result = json.loads(out.read_text())
    found = result["votes"]["credit/sex/1"]
    assert len({one["before"] for one in found.values()}) == 1
    assert "| credit, by sex | 1 |" in page_repairs.repairs(result, json.loads(page.PAPERS.read_text()))


@pytest.mark.slow
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
    text = page_profanity.profanity(result)
    assert "| generated | religion |" in text
    assert "| written by people | orientation | gay | 120 |" in text


def _text_results():
    """What ``benchmarks.texts`` writes, with made-up figures: ADF finds more than RP, and than its plain twin."""
    found = {"RP": 10, "ASC": 30, "ADF-ASC": 45, "HF": 60, "ADF-HF": 90}
    walked = {
        method: {"starts": 5, "found": 40, "tests": 50, "success": 0.8, "seconds": 2.0, "cpu_seconds": 3.0,
                 "stop": "tests", "quality": {"changed": 3.0, "jaccard": 0.9}}
        for method in text_subjects.WALKS
    }  # fmt: skip
    led = {
        name: {"found": n, "quality": {"changed": 2.0, "distance": 4.0, "jaccard": 0.9}} for name, n in found.items()
    }
    removed = {name: {"removed": 0.4, "accuracy": 0.85} for name in ("ADF-ASC", "certified", "ASC", "HF", "ADF-HF")}
    repaired = {"before": {"judged_by": 100, "accuracy": 0.9}, "again": {"removed": 0.3, "accuracy": 0.9}, **removed}
    answers = {
        "global": {"raw": 3, "seeds": 100, **led},
        "local": walked,
        "times": walked,
        "repair": repaired,
        "sources": repaired,
    }
    machine = {"cores": 2, "processor": "x", "load": [0, 0, 0], "python": "3", "versions": {}}
    return {
        "machine": machine,
        "settings": text_subjects.SHORT,
        **{q: {f"lstm/race/{seed}": a for seed in (0, 1)} for q, a in answers.items()},
    }


def test_the_page_on_texts_says_what_was_found_and_what_the_paper_says():
    written = page_texts.texts(_text_results(), json.loads(page.PAPERS.read_text())["texts"])
    assert "| LSTM, race | 100 | 3 ± 0 / 36.5 | 10 ± 0 / 38.5 |" in written
    assert "ADF-ASC finds 4.50 times as many as RP (more in 1 of 1 rows); the paper's mean: 4.40" in written
    assert "ADF-HF finds 1.50 times as many as HF" in written
    assert "(to 40)" in written
    assert "removes more than training again with another seed in 2 of 2 runs" in written
    empty = _text_results() | {question: {} for question in text_subjects.QUESTIONS}
    assert page_texts.texts(empty, json.loads(page.PAPERS.read_text())["texts"]).count("Nothing has been measured") == 6


def test_the_papers_figures_on_texts_have_the_means_that_it_says():
    """The paper's own means are over its sixteen rows; those of two data sets are taken together here."""
    papers = json.loads(page.PAPERS.read_text())["texts"]
    assert list(papers["global"]) == list(text_subjects.SUBJECTS)
    assert np.mean([row["augmented"] for row in papers["repair"].values()]) == pytest.approx(60.2, abs=0.1)
    assert np.mean([row["certified"] for row in papers["repair"].values()]) == pytest.approx(61.0, abs=0.1)
    assert np.mean([row["ADF-ASC"]["success"] for row in papers["local"].values()]) == pytest.approx(91.7, abs=0.1)
    assert np.mean([row["RP"]["success"] for row in papers["local"].values()]) == pytest.approx(82.69, abs=0.01)


def test_parts_on_texts_are_put_together(tmp_path):
    optional("torch")
    from benchmarks import texts

    parts = [tmp_path / "a.json", tmp_path / "b.json"]
    for part, seed in zip(parts, (1, 0), strict=True):
        whole = _text_results()
        for question in text_subjects.QUESTIONS:
            whole[question] = {f"lstm/race/{seed}": whole[question][f"lstm/race/{seed}"]}
        part.write_text(json.dumps(whole))
    texts.main(["--merge", *map(str, parts), "--out", str(tmp_path / "whole.json")])
    assert json.loads((tmp_path / "whole.json").read_text()) == json.loads(json.dumps(_text_results()))


@pytest.mark.slow
def test_round_trips_write_what_the_page_needs(tmp_path, monkeypatch):
    (tmp_path / "comments.csv").write_text("text\nA Jew.\n😀\n")
    monkeypatch.setenv("EVENHAND_TEXT_DATA", str(tmp_path))
    round_trip.main(["--strings", "500", "--out", str(tmp_path / "out.json")])
    written = page_texts.round_trip(json.loads((tmp_path / "out.json").read_text()))
    assert "| random strings | 500 |" in written
    assert "| comments | 2 |" in written


def test_the_page_on_the_speed_on_texts_says_who_misses_the_target():
    row = {"findings": 5, "rows": 900, "cpu_seconds": 2.0, "bare_cpu_seconds": 1.5, "efficiency": 0.75,
           "one_by_one_cpu_seconds": 30.0, "gain": 15.0}  # fmt: skip
    machine = {"cores": 2, "processor": "x", "load": [0, 0, 0], "python": "3", "versions": {}}
    rows = {"text-random": row, "text-adf asc": row | {"efficiency": 0.4}}
    wanted = {"efficiency": 0.5, "gain": 5.0}
    written = page_text_speed.text_speed({"machine": machine, "wanted": wanted, "searches": rows})
    assert "1 of 2 searches meet the target; missed by `text-adf asc` (0.40, 15.0)" in written
