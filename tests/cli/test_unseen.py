"""Invisible characters and control characters are escaped in everything that readers see."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.runs.pair_sentences import select_pairs
from tests.cli import models
from tests.cli.conftest import MODELS, Command

UNSEEN = "\x1b]8;;x\x07\u202e\u2066\u2028\u200b\ufeff\U000e0041"
"""A link and a bell of terminals, what turns text round, a separator, no width at all, a tag of the last planes."""
NUMBER, TEXT, SEX, PAID = f"n{UNSEEN}", f"t{UNSEEN}", "s\x1b\u202e", f"p{UNSEEN}"
WANTED = "yes\u2066"
LINES = "\r\n\u200c\u200d"


def raw(text: str) -> set[str]:
    return {hex(ord(c)) for c in text if not c.isprintable() and c not in LINES}


@pytest.fixture
def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            NUMBER: draw.integers(0, 10, 80),
            TEXT: draw.choice([f"a{UNSEEN}", "b\u2029"], 80),
            SEX: draw.choice(["F\u2028", "M\u202d"], 80),
            PAID: draw.choice(["no\u202e\x1b[31m", WANTED], 80),
        }
    )


@pytest.fixture
def data(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / f"data{chr(0x202E)}.csv"
    frame.to_csv(path, index=False)
    return path


def written(folder: Path, data: Path) -> Iterator[tuple[str, str]]:
    """Every text file that there is, also within archives, but for the data."""
    for path in folder.rglob("*"):
        if path == data or not path.is_file():
            continue
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                contents = {f"{path.name}/{n}": archive.read(n) for n in archive.namelist() if "data/" not in n}
        else:
            contents = {path.name: path.read_bytes()}
        for name, content in contents.items():
            try:
                yield name, content.decode()
            except UnicodeDecodeError:
                # Parquet, pickles and the log hold values as they are.
                continue


@pytest.mark.slow
def test_no_command_writes_invisible_characters(
    evenhand: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ["--model", f"{MODELS}:unseen"]
    train = ["--model", f"{MODELS}:train_unseen", "--method", "augment", "--budget-tests", "50"]
    rows = ["--data", data, "--protected", SEX, "--target", PAID]
    outs = [f"o{UNSEEN[6:9]}.{ending}" for ending in ("json", "csv", "parquet", "xml", "sarif", "md")]
    known = ["compare", "run", "run", *(f"--{m}={MODELS}:unseen" for m in ("model-a", "model-b"))]
    calls: list[list[Any]] = [
        ["init", data, "--protected", SEX, "--target", PAID, *model, "--output", f"e{chr(0x202E)}.toml"],
        ["audit", *model, *rows, "--directory", "run", "--strategy", "themis", "--coverage", "--findings", "f.csv"],
        ["audit", *model, *rows, "--strategy", "themis", "--json", "--report", f"p{chr(0x202E)}.html"],
        ["audit", f"e{chr(0x202E)}.toml", "--strategy", "themis"],
        ["audit", *model, "--data", data, "--protected", f"q{UNSEEN}"],
        ["audit", *model, "--data", f"q{UNSEEN}.csv", "--protected", SEX],
        ["estimate", *model, *rows, "--favourable", WANTED, "--groups", "--plots", "plots"],
        ["estimate", *model, *rows, "--favourable", WANTED, "--json"],
        ["estimate", *model, *rows, "--favourable", f"q{UNSEEN}"],
        ["repair", *train, *rows, "--watch", TEXT, "--plot", "t.svg", "--samples", "100"],
        [*known, "--samples", "100"],
        [*known, "--samples", "100", "--json"],
        ["report", "run", *model, "--data", data, "--target", PAID, "--title", f"T{UNSEEN}", "--samples", "100"],
        ["export", "run", *outs],
        ["bundle", "run", "--data", data, "--output", f"b{chr(0x202E)}.zip"],
        ["replay", "run", *model, "--list", "list.csv"],
        ["replay", "run", "--model", f"{MODELS}:length", "--json"],
        ["replay", f"b{chr(0x202E)}.zip", *model],
        ["export", f"q{UNSEEN}", "x.csv"],
    ]  # fmt: skip
    for call in calls:
        done = evenhand(*call)
        assert "unexpected error" not in done.stderr, done.stderr
        assert not raw(done.output), (call, done.output)
    for name, text in written(tmp_path, data):
        assert not raw(text), (name, raw(text))
    names = [path.name for path in tmp_path.rglob("*")]
    assert {*outs, "f.csv", "list.csv", "t.svg", "report.html", "intervals.svg"} <= set(names)


def test_no_result_prints_invisible_characters(frame: pd.DataFrame) -> None:
    space = eh.Space.infer(frame, SEX, PAID)
    run = eh.audit(eh.wrap(models.unseen, name=f"m{UNSEEN}"), space, strategy="themis")
    people = frame.drop(columns=PAID)
    found = eh.estimate(models.unseen, space, "data", data=people, favourable=WANTED)
    shown = [
        space,
        *space.attributes,
        run,
        found,
        found.sentence,
        *found.comparisons,
        eh.groups(models.unseen, space, people, WANTED),
        eh.regions(run, data=people),
        eh.examples(run, data=people),
        eh.compare(run, run),
        eh.coverage(run),
        eh.MarginalModel(models.unseen, space),
        *(pair.sentence for pair in select_pairs(run)),
    ]
    for one in shown:
        text = one if isinstance(one, str) else repr(one)
        assert not raw(text), text
    assert not raw(run._repr_html_())


@pytest.mark.parametrize("text", [UNSEEN, "a\\b\"c'\t\x7f\x00", "\u200c\u200d", "plain", "\U0001f469\u200d\U0001f4bb"])
def test_a_space_is_read_back_the_same(text: str, tmp_path: Path) -> None:
    space = eh.Space([eh.Nominal(f"n{text}", ["x", f"v{text}"]), eh.Boolean(f"b{text}")], protected=f"b{text}")
    space.save(tmp_path / "space.toml")
    assert eh.Space.load(tmp_path / "space.toml") == space
    assert not raw((tmp_path / "space.toml").read_text("utf-8"))


def test_errors_escape_names(frame: pd.DataFrame) -> None:
    space = eh.Space.infer(frame, SEX, PAID)
    with pytest.raises(eh.errors.EvenhandError) as caught:
        space.encode(frame.drop(columns=TEXT))
    assert not raw(str(caught.value))
    assert "\\u202e" in str(caught.value)
