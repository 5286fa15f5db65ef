"""The benchmarks: pages match results, and references match the searches."""

import json
import os
from functools import partial
from itertools import pairwise
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from benchmarks import (
    auto,
    coverage,
    estimates,
    faults,
    growth,
    larger,
    page,
    page_measuring,
    page_profanity,
    page_quality,
    page_showing,
    page_text_speed,
    page_texts,
    profanity,
    realism,
    regions,
    round_trip,
    text_subjects,
    throughput,
    workers,
)
from benchmarks.sequential import Sequential
from benchmarks.verdicts import KINDS

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
    assert [row["search"] for row in result["efficiency"]] == ["themis", "themis", "kosei", "kosei"]
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


def test_planted_rules_decide():
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


@pytest.mark.slow
def test_larger_spaces_and_runs_write_what_the_page_needs(tmp_path):
    with mock.patch.multiple(growth, ATTRIBUTES=(10, 20), VALUES=(2,), PROTECTED=(1,), ROUNDS=1):
        growth.main(["--rows", "2000", "--out", str(tmp_path / "growth.json")])
    result = json.loads((tmp_path / "growth.json").read_text())
    assert "2 times as many attributes" in page.growth(result)
    larger.main(["--sizes", "2000", "--out", str(tmp_path / "larger.json")])
    grown = json.loads((tmp_path / "larger.json").read_text())
    assert [row["tests"] for row in grown["sizes"]] == [2000]
    assert "costs 1.00 times as much" in page.larger(grown)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_million_tests_stay_within_bounds(tmp_path):
    larger.main(["--sizes", "1e8", "--out", str(tmp_path / "larger.json")])
    (row,) = json.loads((tmp_path / "larger.json").read_text())["sizes"]
    assert row["tests"] == 10**8
    assert row["peak_mb"] < larger.WANTED_MB
    assert row["page_rows"] == 100


@pytest.mark.slow
def test_workers_write_what_the_page_needs(tmp_path):
    with mock.patch.multiple(workers, TREES=5, KILLED_TREES=2, KILLED_TESTS=1_000, KILLED_CHUNK=64):
        given = ["--tests", "2000", "--most", "2", "--rounds", "1", "--kills", "1"]
        workers.main([*given, "--out", str(tmp_path / "workers.json")])
    result = json.loads((tmp_path / "workers.json").read_text())
    assert result["same_bytes"]
    assert result["kills"]["same_bytes"]
    assert result["kills"]["resumed_same"]
    assert "the same bytes in all ways" in page.workers(result)


def test_pages_match_the_results(tmp_path):
    page.main(["--check"])
    page.main(["--docs", str(tmp_path)])
    page.main(["--docs", str(tmp_path), "--check"])
    (tmp_path / "benchmarks" / "adf.md").write_text("old")
    with pytest.raises(SystemExit, match=r"adf\.md is out of date"):
        page.main(["--docs", str(tmp_path), "--check"])


def test_what_auto_promises_is_what_the_page_needs(tmp_path):
    with mock.patch.multiple(auto, SHARES=(0.1,), SIZES=(10,), WORLDS=dict(list(auto.WORLDS.items())[:1])):
        auto.main(["--scale", "0.002", "--only", "rare", "estimate", "width", "--out", str(tmp_path / "auto.json")])
    result = json.loads((tmp_path / "auto.json").read_text())
    intervals = result["estimate"]["0.1"]["intervals"]
    assert set(intervals) == {f"{stop}, {name}" for stop in auto.STOPS for name in auto.OF}
    assert all(0 < one["held"] <= one["of"] for one in intervals.values())
    written = page_quality.promises(result)
    assert "4 simulated models" in written
    assert "Speed" not in written


def test_limits_of_files_match_the_measurements(tmp_path):
    page.main(["--docs", str(tmp_path)])
    (tmp_path / "explanation").mkdir()
    safety = (page.DOCS / page.SAFETY).read_text().replace("| `nesting` | 100 |", "| `nesting` | 200 |")
    (tmp_path / page.SAFETY).write_text(safety)
    with pytest.raises(SystemExit, match=r"safety\.md is out of date"):
        page.main(["--docs", str(tmp_path), "--check"])


def test_results_name_no_machine_and_stay_small():
    files = sorted(page.RESULTS.glob("*.json"))
    assert [file.stem for file in files] == sorted([*page.NAMES, "digests", "entered", "imports"])
    sizes = {file.stem: file.stat().st_size for file in files}
    # Digests show that a change of the code changes nothing else; no page has figures of them.
    assert sizes.pop("digests") + sizes.pop("entered") + sizes.pop("imports") < 40_000
    assert sum(sizes.values()) < 600_000
    for file in files:
        assert file.stat().st_size < 300_000, file.name
        assert "/home" not in file.read_text()
        assert "/work" not in file.read_text()


CONTENTS = {
    "aequitas": ["figure 2a", "figure 2b", "figure 5", "table 3", "table 4", "table 5"],
    "kosei": ["table I, findings", "table I, time", "table I, precision", "table I, duplicates"],
    "symbolic": ["comparison with THEMIS", "contribution", "time limit", "global search", "local search",
                 "path coverage", "training and random seeds", "figure: scatter", "figure: order", "figure: threshold",
                 "benchmarks", "without local search"],
    "adf": [*(f"table {number}" for number in range(3, 11)), "figure 3"],
    "texts": ["table 3", "table 8", "table 9", "table 11", "table 13", "table 14", "figure 4", "figure 8"],
}  # fmt: skip
"""Every table and figure of each paper that has results. Tables 4 to 7, 10 and 12 of the paper on texts are ADF's."""


def test_no_table_or_figure_is_without_a_verdict():
    every = page.judged(page.load(), json.loads(page.PAPERS.read_text()))
    assert list(every) == list(CONTENTS)
    for name, (_, verdicts) in every.items():
        for where in CONTENTS[name]:
            judged = [one for one in verdicts if one.where.startswith(where)]
            assert judged, (name, where)
            assert {one.kind for one in judged} <= set(KINDS), (name, where)
        for one in verdicts:
            # A claim that does not hold, or cannot be measured, has a reason.
            assert one.holds or one.why, (name, one.where)


def networks(folder):
    """Write a network in the place of each of those of ADF's authors, and rows for those of credit.

    Its last two outputs compare sums of two of the four numbers that its first layer makes of an individual, in which
    all attributes count alike; the layers between hand them on.
    """
    rng = np.random.default_rng(0)
    weights = {}
    for data, name in (("census", "adult"), ("credit", "german"), ("bank", "bank")):
        codes = eh.datasets.load(name).paper_frame().iloc[:, :-1].to_numpy(float)
        first = rng.normal(size=(codes.shape[1], 64)) / codes.std(axis=0)[:, None]
        sizes = [64, 32, 16, 8, 4]
        layers = [first, *(np.eye(before, after) for before, after in pairwise(sizes)), np.tile(np.eye(2), (2, 1))]
        biases = [-codes.mean(axis=0) @ first, *(np.zeros(layer.shape[1]) for layer in layers[1:])]
        for number, (layer, bias) in enumerate(zip(layers, biases, strict=True)):
            weights |= {f"{data}/w{number}": layer, f"{data}/b{number}": bias}
    np.savez(folder / "adf.npz", **weights)
    eh.datasets.load("german").paper_frame()[:600].to_csv(folder / "credit.csv", index=False)


def comments(folder):
    """Write comments with protected terms, and vectors of their words."""
    corpus = eh.datasets.load("comments")
    frame = pd.DataFrame({"text": corpus.texts, "toxic": corpus.labels})[:3_000]
    frame.loc[::7, "text"] = frame.loc[::7, "text"] + " A gay Asian man, says " + frame.index[::7].astype(str)
    frame.to_csv(folder / "comments.csv", index=False)
    words = sorted({word for text in corpus.texts[:300] for word in text.lower().split() if word.isalpha()})
    vectors = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float16)
    np.savez(folder / "vectors.npz", words=np.array(words), vectors=vectors)


@pytest.mark.slow
def test_the_papers_are_measured_in_a_minute(tmp_path, monkeypatch):
    """Everything that ``python -m benchmarks.papers`` does, with few seeds and tests, and the pages made of it."""
    optional("torch")
    optional("fairlearn")
    for name, write, variable in (
        ("nets", networks, "EVENHAND_PAPER_DATA"),
        ("comments", comments, "EVENHAND_TEXT_DATA"),
    ):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
        monkeypatch.setenv(variable, str(tmp_path / name))
    from benchmarks import papers, text_nets

    text_nets.corpus.cache_clear()
    text_nets.vectors.cache_clear()
    text_nets.encoder.cache_clear()
    papers.main(["--quick", "--jobs", "1", "--output", str(tmp_path)])
    # A second call has nothing to do.
    written = (tmp_path / "adf.json").read_text()
    papers.main(["--quick", "--jobs", "1", "--output", str(tmp_path)])
    assert (tmp_path / "adf.json").read_text() == written
    page.main(["--results", str(tmp_path), "--docs", str(tmp_path / "docs")])
    for name in CONTENTS:
        text = (tmp_path / "docs" / "benchmarks" / f"{name}.md").read_text()
        assert "## Verdicts" in text
        assert "nan" not in text
        assert (tmp_path / "docs" / "benchmarks" / f"{name}.svg").read_text().startswith("<svg")


def test_results_of_several_folders_are_put_together(tmp_path):
    from benchmarks.machine import Results
    from benchmarks.tasks import Task, answers, chosen, gather, measure

    tasks = [Task("a", "q", key, partial(dict, value=value), value) for value, key in enumerate(["x/0", "y/0", "y/1"])]
    assert [task.key for task in chosen(tasks, ["a/q/y"])] == ["y/1", "y/0"]
    for folder, some in (("one", tasks[:1]), ("two", tasks[1:])):
        file = Results(tmp_path / folder / "a.json", False, {"tests": 1}, ["q"])
        assert measure(some, {"a": file}) == []
    whole = Results(tmp_path / "a.json", False, {"tests": 1}, ["q"])
    gather([tmp_path / "one" / "a.json", tmp_path / "two" / "a.json"], whole)
    stored = json.loads((tmp_path / "a.json").read_text())
    assert {key: one["value"] for key, one in stored["q"].items()} == {"x/0": 0, "y/0": 1, "y/1": 2}
    with pytest.raises(SystemExit, match="other settings"):
        gather([tmp_path / "one" / "a.json"], Results(tmp_path / "b.json", False, {"tests": 2}, ["q"]))
    changed = Results(tmp_path / "a.json", False, {"tests": 1, "size": 3}, ["q", "other"], {"other": ("size",)})
    assert (len(changed.all["q"]), changed.all["other"], changed.all["settings"]["size"]) == (3, {}, 3)
    changed.all["machine"] |= {"cores": 0}
    changed.add("other", "x", {"value": 1})
    assert [one["cores"] for one in changed.all["machines"]["other"]] == [os.cpu_count()]
    changed.drop("q", "x/0")
    assert changed.lacks("q", "x/0")
    # The size is a setting of the other question alone.
    later = Results(tmp_path / "a.json", False, {"tests": 1, "size": 4}, ["q", "other"], {"other": ("size",)})
    assert (len(later.all["q"]), later.all["other"], later.all["machines"]) == (3, {}, {})
    failing = Task("a", "q", "z/0", partial(int, "none"))  # type: ignore[arg-type]
    assert [answer for _, answer in answers([failing], 1, None)] == [None]


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


def test_published_text_figures_have_their_stated_means():
    """The paper's own means are over its sixteen rows; those of two data sets are taken together here."""
    papers = json.loads(page.PAPERS.read_text())["texts"]
    assert list(papers["global"]) == list(text_subjects.SUBJECTS)
    assert np.mean([row["augmented"] for row in papers["repair"].values()]) == pytest.approx(60.2, abs=0.1)
    assert np.mean([row["certified"] for row in papers["repair"].values()]) == pytest.approx(61.0, abs=0.1)
    assert np.mean([row["ADF-ASC"]["success"] for row in papers["local"].values()]) == pytest.approx(91.7, abs=0.1)
    assert np.mean([row["RP"]["success"] for row in papers["local"].values()]) == pytest.approx(82.69, abs=0.01)


@pytest.mark.slow
def test_round_trips_write_what_the_page_needs(tmp_path, monkeypatch):
    (tmp_path / "comments.csv").write_text("text\nA Jew.\n😀\n")
    monkeypatch.setenv("EVENHAND_TEXT_DATA", str(tmp_path))
    round_trip.main(["--strings", "500", "--out", str(tmp_path / "out.json")])
    written = page_texts.round_trip(json.loads((tmp_path / "out.json").read_text()))
    assert "| random strings | 500 |" in written
    assert "| comments | 2 |" in written


def test_the_text_speed_page_names_missed_targets():
    row = {"findings": 5, "rows": 900, "cpu_seconds": 2.0, "bare_cpu_seconds": 1.5, "efficiency": 0.75,
           "one_by_one_cpu_seconds": 30.0, "gain": 15.0}  # fmt: skip
    machine = {"cores": 2, "processor": "x", "load": [0, 0, 0], "python": "3", "versions": {}}
    rows = {"text-random": row, "text-adf asc": row | {"efficiency": 0.4}}
    wanted = {"efficiency": 0.5, "gain": 5.0}
    written = page_text_speed.text_speed({"machine": machine, "wanted": wanted, "searches": rows})
    assert "1 of 2 searches meet the target; missed by `text-adf asc` (0.40, 15.0)" in written
