"""Audits of texts on the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.cli.audit import write_findings
from tests.cli import models
from tests.cli.conftest import MODELS, Command
from tests.reports.page import Page

TEXTS = [
    "The Muslim family next door is loud.",
    "My Christian friends were kind, and their food was awful.",
    'A Jew, a "Sikh" and an atheist walk into a [bold]bar[/bold].',
    "What a terrible film!",
]
MODEL = f"{MODELS}:classify"


@pytest.fixture
def comments(tmp_path: Path) -> Path:
    path = tmp_path / "comments.csv"
    pd.DataFrame({"id": range(len(TEXTS)), "said": TEXTS}).to_csv(path, index=False)
    return path


@pytest.fixture
def audit(evenhand: Command, comments: Path) -> Command:
    def call(*arguments: object, texts: Path = comments) -> Any:
        column = [] if texts.suffix == ".txt" else ["--column", "said"]
        return evenhand("audit", "--texts", texts, *column, "--model", MODEL, *arguments)

    return call


def write(folder: Path, **more: str) -> Path:
    path = folder / "evenhand.toml"
    lines = {"path": '"comments.csv"', "column": '"said"', "protected": '["religion"]'} | more
    body = "\n".join(f"{key} = {value}" for key, value in lines.items())
    path.write_text(f'[model]\npath = "{MODEL}"\n[text]\n{body}\n')
    return path


def test_flags_alone(audit: Command) -> None:
    done = audit("--protected", "religion", "--show-examples", "real")
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "family next door" not in " ".join(audit("--protected", "religion").stdout.split())
    assert "auto, seed 0, protected: religion" in text
    assert '"The [Muslim] family next door is loud.": toxic. The same text with [Christian]: fine.' in text
    assert "texts without a term 1" in text


def test_every_kind_of_file_gives_the_same(audit: Command, comments: Path, tmp_path: Path) -> None:
    frame = pd.DataFrame({"said": TEXTS})
    frame.to_json(tmp_path / "c.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "c.tsv.gz", index=False, sep="\t")
    (tmp_path / "c.txt").write_text("\n".join(TEXTS))
    told = [
        json.loads(audit("--protected", "religion", "--json", texts=tmp_path / name).stdout)["pairs"]
        for name in (comments.name, "c.jsonl", "c.tsv.gz", "c.txt")
    ]
    assert told[0]
    assert all(pairs == told[0] for pairs in told)


def test_flags_override_the_file(evenhand: Command, audit: Command, tmp_path: Path) -> None:
    words = np.array(["loud", "noisy", "kind", "awful"])
    np.savez(tmp_path / "v.npz", words=words, vectors=np.eye(4)[[0, 0, 1, 2]] + 0.1)
    comments = tmp_path / "comments.csv"
    pd.DataFrame({"id": range(len(TEXTS)), "said": TEXTS}).to_csv(comments, index=False)
    config = write(
        tmp_path, similar='"v.npz"', k="2", occurrences='"together"', ambiguous='"never"', protected='["race"]'
    )
    flags = ["--similar", tmp_path / "v.npz", "--k", "2", "--occurrences", "together", "--ambiguous", "never"]
    budget = ["--budget-tests", 40, "--json"]
    by_flags = json.loads(audit("--protected", "religion", *flags, *budget).stdout)
    by_file = json.loads(evenhand("audit", config, "--protected", "religion", *budget).stdout)
    assert by_file["identity"] == by_flags["identity"]
    assert by_file["pairs"] == by_flags["pairs"]
    space = by_file["identity"]["space"]
    assert (space["k"], space["occurrences"], space["ambiguous"]) == (2, "together", "never")
    assert by_file["tests"] > 3


def test_own_lexicons_by_file_and_by_table(evenhand: Command, comments: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lexicons"
    folder.mkdir()
    (folder / "kin.toml").write_text('terms = ["family", "friends"]')
    config = write(tmp_path, protected='["lexicons/kin.toml", {door = ["next", "last"]}]')
    values = json.loads(evenhand("audit", config, "--json").stdout)
    assert [lexicon["name"] for lexicon in values["identity"]["space"]["lexicons"]] == ["kin", "door"]
    assert values["tests"] == 2


def test_directory_resume_replay_and_limit(evenhand: Command, audit: Command, tmp_path: Path) -> None:
    kept = ["--protected", "religion", "--directory", tmp_path / "run"]
    assert audit(*kept, "--resume").exit_code == 2
    done = audit(*kept, "--fail-on-finding", "--findings", tmp_path / "f.csv", "--report", tmp_path / "p.html")
    assert done.exit_code == 1
    assert "2 confirmed findings, and --fail-on-finding allows none" in done.stderr
    assert pd.read_csv(tmp_path / "f.csv")["text"].tolist() == TEXTS[:2]
    assert '<span class="swapped">Muslim</span>' in (tmp_path / "p.html").read_text()
    assert audit(*kept, "--resume").exit_code == 0
    again = evenhand("replay", tmp_path / "run", "--model", MODEL)
    assert (again.exit_code, again.stdout) == (0, "2 of 2 findings confirmed, 0 not\n")
    changed = evenhand("replay", tmp_path / "run", "--model", f"{MODELS}:length")
    assert changed.exit_code == 1
    assert "[Christian]" in changed.stdout


def test_export_bundle_replay_and_compare(
    evenhand: Command, audit: Command, refused: Command, comments: Path, tmp_path: Path
) -> None:
    run, bundle = tmp_path / "run", tmp_path / "b.zip"
    assert audit("--protected", "religion", "--directory", run, "--quiet").exit_code == 0
    assert json.loads((run / "source.json").read_text())["data"] == str(comments)
    names = ["a.json", "a.csv", "a.parquet", "a.xml", "a.sarif", "a.md"]
    done = evenhand("export", run, *(tmp_path / name for name in names))
    assert done.exit_code == 0, done.output
    assert [pair["text"] for pair in json.loads((tmp_path / "a.json").read_text())["pairs"]] == TEXTS[:2]
    assert evenhand("bundle", run, "--output", bundle).exit_code == 0
    done = evenhand("replay", bundle, "--model", MODEL, "--list", tmp_path / "list.csv")
    assert (done.exit_code, "2 of 2 findings confirmed" in done.stdout) == (0, True), done.output
    assert pd.read_csv(tmp_path / "list.csv")["holds"].tolist() == ["yes", "yes"]
    whole = bundle.read_bytes()
    bundle.write_bytes(whole.replace(TEXTS[0].encode(), TEXTS[0].upper().encode(), 1))
    done = evenhand("replay", bundle, "--model", MODEL)
    assert (done.exit_code, "MISMATCH: data/comments.csv: it was changed" in done.stdout) == (1, True)
    refused(evenhand("compare", run, run, "--model-a", MODEL, "--model-b", MODEL), "space of texts", "evenhand replay")


def test_an_encoding_is_named_by_option_or_key(
    audit: Command, evenhand: Command, refused: Command, tmp_path: Path
) -> None:
    texts = tmp_path / "wide.csv"
    texts.write_text("said\nA Jew in a café.\n", encoding="utf-16")
    refused(audit("--protected", "religion", "--encoding", "utf-8", texts=texts), "wide.csv", "--encoding utf-16")
    assert audit("--protected", "religion", texts=texts).exit_code == 0
    assert audit("--protected", "religion", "--encoding", "utf-16", texts=texts).exit_code == 0
    config, start = tmp_path / "wide.toml", ("init", texts, "--protected", "religion", "--encoding", "utf-16")
    assert evenhand(*start, "--text", "--model", MODEL, "--output", config).exit_code == 0
    assert tomllib.loads(config.read_text())["text"]["encoding"] == "utf-16"
    assert evenhand("audit", config).exit_code == 0
    refused(evenhand(*start, "--output", tmp_path / "other.toml"), "--encoding are for texts")


def test_missing_texts_have_a_remedy_for_texts(audit: Command, refused: Command, tmp_path: Path) -> None:
    texts = tmp_path / "some.jsonl"
    texts.write_text('{"said": "A Jew came."}\n{"said": null}\n')
    done = audit("--protected", "religion", "--report", tmp_path / "page.html", texts=texts)
    assert "rows without a text 1, left out" in " ".join(done.stdout.split())
    assert "nearest bound" not in done.stdout + (tmp_path / "page.html").read_text()
    texts.write_text('{"said": null}\n')
    refused(audit("--protected", "religion", texts=texts), "all 1 are missing", "--texts FILE")


def test_settings_and_strategy(audit: Command) -> None:
    values = json.loads(
        audit(
            "--protected",
            "religion",
            "--strategy",
            "text-random",
            "--set",
            "max_iter=1",
            "--set",
            "phase=global",
            "--json",
        ).stdout
    )
    assert values["identity"]["strategy"]["max_iter"] == 1


def test_markup_and_controls_are_text(evenhand: Command, tmp_path: Path) -> None:
    lines = [json.dumps({"text": "[bold red]A Muslim, loud[/] \u202e \x1b[2J"})]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    given = ["--texts", tmp_path / "c.jsonl", "--protected", "religion", "--model", MODEL]
    done = evenhand(
        "audit", *given, "--findings", tmp_path / "f.csv", "--report", tmp_path / "p.html", "--show-examples", "real"
    )
    assert done.exit_code == 0, done.output
    assert "[bold red]A [Muslim], loud[/] \\u202e \\x1b[2J" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no lexicon", "--protected religion", "orientation"]),
        (["--protected", "religon"], ["--protected", "did you mean 'religion'"]),
        (["--protected", "no.toml"], ["--protected", "no.toml", "no such file"]),
        (["--protected", "religion", "--similar", "no.npz"], ["--similar: ", "no.npz"]),
        (["--protected", "religion", "--k", "0"], ["--k must", "at least 1"]),
        (["--protected", "religion", "--occurrences", "both"], ["--occurrences must", "'each' or 'together'"]),
        (["--protected", "religion", "--ambiguous", "maybe"], ["--ambiguous must", "'never'"]),
        (["--protected", "religion", "--column", "sad"], ["comments.csv", "'sad'"]),
        (["--protected", "religion", "--data", "x.csv"], ["texts and rows cannot be combined", "data.path"]),
        (["--protected", "religion", "--target", "y"], ["data.target"]),
        (["--protected", "religion", "--exclude", "y"], ["space.exclude"]),
        (["--protected", "religion", "--space", "y"], ["space.path"]),
        (["--protected", "religion", "--coverage"], ["coverage", "rows"]),
        (["--protected", "religion", "--strategy", "kosei"], ["kosei searches attributes", "--strategy auto"]),
        (["--protected", "orientation"], ["none of 4 texts can be tested"]),
        (["--protected", "religion", "--model", f"{MODELS}:raises_on_texts"], ["ZeroDivisionError"]),
    ],
)
def test_wrong_arguments(audit: Command, refused: Command, arguments: list[str], words: list[str]) -> None:
    refused(audit(*arguments), *words)


def test_wrong_files_are_refused_by_file_and_key(evenhand: Command, refused: Command, comments: Path) -> None:
    folder = comments.parent
    refused(evenhand("audit", write(folder, k='"ten"')), "evenhand.toml", "text.k", "'ten'")
    refused(evenhand("audit", write(folder, words="3")), "evenhand.toml", "unknown key 'text.words'")
    refused(evenhand("audit", write(folder, protected="[3]")), "evenhand.toml", "text.protected", "list of lexicons")
    refused(evenhand("audit", write(folder, encoding='"nope"')), "comments.csv", "'nope'", "latin-1")
    refused(evenhand("audit", write(folder, protected="[]")), "evenhand.toml", "no lexicon")
    refused(evenhand("audit", write(folder, protected='[{a = ["b"]}]')), "evenhand.toml", "text.protected")
    config = write(folder)
    config.write_text(config.read_text() + '[data]\ntarget = "y"\n')
    refused(evenhand("audit", config), "evenhand.toml", "data.target", "cannot be combined")
    config.write_text(f'text = 3\n[model]\npath = "{MODEL}"\n')
    refused(evenhand("audit", config), "evenhand.toml", "text")
    refused(evenhand("audit", "--column", "said", "--model", MODEL), "no texts", "--texts FILE")
    refused(evenhand("audit", "--data", comments, "--protected", "id", "--model", MODEL, "--strategy", "text-random"),
            "text-random searches texts", "--texts FILE")  # fmt: skip


def test_settings_of_rows_are_refused(evenhand: Command, refused: Command, comments: Path) -> None:
    refused(evenhand("repair", write(comments.parent)), "evenhand.toml", "evenhand repair", "for rows")


def test_init_then_audit(evenhand: Command, refused: Command, comments: Path, tmp_path: Path) -> None:
    output = tmp_path / "conf" / "e.toml"
    output.parent.mkdir()
    (output.parent / "kin.toml").write_text('terms = ["family", "friends"]')
    given = ["init", comments, "--text", "--column", "said", "--protected", "religion", "--output", output]
    done = evenhand(*given, "--protected", output.parent / "kin.toml")
    assert done.exit_code == 0, done.output
    assert "3 texts have a term, 1 have none" in done.stdout
    table = tomllib.loads(output.read_text())["text"]
    assert (table["path"], table["column"]) == ("../comments.csv", "said")
    assert table["protected"] == ["religion", "kin.toml"]
    assert json.loads(evenhand("audit", output, "--model", MODEL, "--json").stdout)["findings"] == 2
    refused(evenhand(*given), "--force")
    refused(evenhand(*given, "--force", "--target", "id"), "--target")
    refused(evenhand("init", comments, "--protected", "id", "--column", "said", "--output", tmp_path / "x"), "--text")
    refused(evenhand("init", comments, "--text", "--protected", "religion", "--output", tmp_path / "y"), "id, said")


def test_every_commented_line_is_valid(evenhand: Command, comments: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    np.savez(tmp_path / "vectors.npz", words=np.array(["loud", "noisy"]), vectors=np.ones((2, 2)))
    evenhand("init", comments, "--text", "--column", "said", "--protected", "religion", "--output", output)
    lines = output.read_text().splitlines()
    lines = [line.removeprefix("# ") if line.startswith("# ") and " = " in line[:22] else line for line in lines]
    output.write_text("\n".join(line for line in lines if not line.startswith(("workers =", "dask ="))))
    assert "similar = " in output.read_text()
    done = evenhand("audit", output, "--model", f"{MODELS}:text_score", "--json")
    assert done.exit_code == 1, done.output
    assert (tmp_path / "run" / "identity.json").exists()


def test_lone_surrogates_are_escaped(tmp_path: Path) -> None:
    run = eh.audit(models.classify, eh.TextSpace("religion"), "text-random", data=["A Muslim, loud \ud83d"])
    write_findings(run, tmp_path / "f.csv")
    assert "\\ud83d" in (tmp_path / "f.csv").read_text()


@pytest.fixture
def estimate(evenhand: Command, comments: Path) -> Command:
    def call(*arguments: object) -> Any:
        given = ["--texts", comments, "--column", "said", "--protected", "religion", "--model", MODEL]
        return evenhand("estimate", *given, *arguments)

    return call


def test_estimate(estimate: Command, tmp_path: Path) -> None:
    done = estimate("--plots", tmp_path / "plots")
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "66.7% of texts like those given with a protected term are treated differently" in text
    assert "(95% CI 9.42% to 99.2%)" in text
    assert "judged 3 texts, of which 2 are treated differently" in text
    assert "no term 1 texts" in text
    assert "ended because all were judged" in text
    # Five places for a term: one in each of two texts, three in the third, where no term comes twice.
    assert "Muslim 5 60% 40%" in text
    assert "Sikh 3 100% 0%" in text
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"convergence.svg", "gaps.svg", "intervals.svg"}


def test_estimate_about_rows_as_json(estimate: Command) -> None:
    found = json.loads(estimate("--about", "rows", "--json", "--fail-above", "70%").stdout)
    assert (found["rate"], found["exact"], found["population"]) == (2 / 3, True, "data")
    assert found["counts"] == {"rows": 4, "clipped": 0, "dropped": 0, "untestable": 1}
    assert [term["term"] for term in found["by_term"]][:2] == ["Christian", "Catholic"]
    assert estimate("--about", "rows", "--fail-above", "50%", "-q").exit_code == 1
    assert estimate("--fail-above", "50%", "-q").exit_code == 3
    assert json.loads(estimate("--samples", "2", "--seed", "4", "--json").stdout)["samples"] == 2


def test_an_estimate_with_a_file(evenhand: Command, refused: Command, comments: Path) -> None:
    config = write(comments.parent)
    config.write_text(config.read_text() + '[estimate]\nabout = "rows"\n')
    done = evenhand("estimate", config, "--json")
    assert json.loads(done.stdout)["exact"], done.output
    config.write_text(config.read_text() + "steps = 2\n")
    refused(evenhand("estimate", config), "evenhand.toml", "estimate.steps", "not for texts")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--population", "uniform"], ["--population", "'uniform'", "--population data", "--texts FILE"]),
        (["--groups"], ["groups is not for texts", "leave it out"]),
        (["--weights", "id"], ["weights is not for texts"]),
        (["--favourable", "fine"], ["favourable is not for texts"]),
        (["--steps", "2"], ["--steps is not for texts"]),
        (["--interval", "lln"], ["'lln' needs a fixed number of independent draws"]),
        (["--exact"], ["exact is not for texts"]),
        (["--repeats", "3"], ["repeats must be 1 or even"]),
        (["--data", "x.csv"], ["texts and rows cannot be combined"]),
        (["--about", "people"], ["--about must be"]),
        (["--gamma", "0.1"], ["scores"]),
    ],
)
def test_wrong_estimate_arguments(estimate: Command, refused: Command, options: list[str], words: list[str]) -> None:
    refused(estimate(*options), *words)


def test_a_report_of_a_kept_run_reads_the_texts(
    evenhand: Command, audit: Command, refused: Command, comments: Path, tmp_path: Path
) -> None:
    run, page = tmp_path / "run", tmp_path / "p.html"
    # A run by auto has an estimate of its own; the report of another search needs the texts.
    assert audit("--protected", "religion", "--directory", run, "--strategy", "text-random").exit_code == 0
    given = ["report", run, "--model", MODEL, "--output", page]
    done = evenhand(*given, "--texts", comments, "--column", "said")
    assert done.exit_code == 0, done.output
    assert "3 of 4 texts, 2 of them treated differently" in Page(page.read_text()).text
    assert evenhand(*given).exit_code == 0
    assert "the column of the texts is unknown" in page.read_text()
    assert evenhand(*given, "--config", write(comments.parent)).exit_code == 0
    assert "3 of 4 texts, 2 of them treated differently" in Page(page.read_text()).text
    refused(evenhand(*given, "--data", comments), "--data: ", "--texts FILE")
    refused(evenhand(*given, "--texts", comments, "--column", "sad"), "no column 'sad'")
