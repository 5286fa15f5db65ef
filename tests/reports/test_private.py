"""Shared files contain no complete data row, unless the user asks for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.runs.pair_sentences import select_pairs

FREE = ["first", "second", "third", "amount"]


def people(rows: int) -> pd.DataFrame:
    """Every cell has a marker of its own."""
    frame = {name: [f"{name}{row:03}x" for row in range(rows)] for name in FREE[:3]}
    return pd.DataFrame(
        {
            **frame,
            "amount": 1_000_003 + 7_919 * np.arange(rows),
            "sex": ["F", "M"] * (rows // 2),
            "name": [f"name{row:03}x" for row in range(rows)],
        }
    )


def space(data: pd.DataFrame) -> eh.Space:
    nominal = [eh.Nominal(name, list(data[name])) for name in FREE[:3]]
    return eh.Space([*nominal, eh.Integer("amount", 1_000_000, 2_000_000), eh.Nominal("sex", ["F", "M"])], "sex")


@cache
def markers(rows: int) -> list[set[str]]:
    data = people(rows)
    return [{str(value) for value in line} for line in data[FREE].itertuples(index=False)]


def exposed(parts: Iterable[str], rows: int) -> list[str]:
    """Give the parts that have all free values of a row, or one of an excluded column."""
    out = []
    for part in parts:
        words = set(re.findall(r"\w+", part.replace(",", "")))
        if any(row <= words for row in markers(rows)) or any(word.startswith("name0") for word in words):
            out.append(part)
    return out


def documents(run: eh.Run, folder: Path, **shown: str) -> dict[str, list[str]]:
    """Give everything that is passed on, in parts that have one individual each; a report is one part."""
    texts = {
        ending: eh.export(run, folder / f"x{ending}", **shown).read_text("utf-8")
        for ending in (".md", ".xml", ".sarif")
    }
    results = [json.dumps(one) for one in json.loads(texts[".sarif"])["runs"][0]["results"]]
    assert len(results) == min(run.found, 1_000) == texts[".xml"].count("<failure")
    pairs = select_pairs(run, **{"show": shown["show_examples"]} if shown else {})
    return {
        # What commands print, but with all attributes.
        "summary": [" ".join(pair.brief(99)) for pair in pairs],
        "short": re.findall(r"<article.*?</article>", run._repr_html_(), re.DOTALL),
        "markdown": texts[".md"].split("</table>"),
        "junit": texts[".xml"].splitlines(),
        "sarif": results,
    }


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.sampled_from([10, 40]),
    strategy=st.sampled_from(["kosei", "auto", "themis", "symbolic"]),
    share=st.sampled_from([0.02, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_no_row_of_the_data_is_passed_on(
    tmp_path_factory: pytest.TempPathFactory, rows: int, strategy: str, share: float, seed: int
) -> None:
    data, folder = people(rows), tmp_path_factory.mktemp("private")

    def decide(frame: pd.DataFrame) -> Any:
        chance = pd.util.hash_pandas_object(frame[FREE], index=False).to_numpy() / 2.0**64
        return np.where((chance < share) & (frame["sex"] == "F"), "refused", "granted")

    run = eh.audit(decide, space(data), strategy, eh.Budget(tests=300), seed, data=data, directory=folder / "r")
    page = eh.report(run, folder / "x.html", data=data, favourable="granted", samples=200).read_text("utf-8")
    assert exposed([re.sub(r"<[^>]*>", " ", page)], rows) == []
    for one in (run, eh.Run.load(folder / "r")):
        assert np.array_equal(one.from_data, run.from_data)
        for name, parts in documents(one, folder).items():
            assert exposed(parts, rows) == [], name


def test_who_asks_for_real_people_gets_them_with_a_banner(tmp_path: Path) -> None:
    data = people(10)
    run = eh.audit(lambda frame: frame["sex"] == "F", space(data), "auto", eh.Budget(tests=300), data=data)
    assert run.from_data.sum() == 10
    assert exposed(documents(run, tmp_path, show_examples="real")["junit"], 10)
    pages = {
        shown: eh.report(run, tmp_path / "x.html", data=data, show_examples=shown, samples=200).read_text("utf-8")
        for shown in ("real", "synthetic", "none")
    }
    assert [bool(exposed([re.sub(r"<[^>]*>", " ", page)], 10)) for page in pages.values()] == [True, False, False]
    assert ["This file has personal data" in page for page in pages.values()] == [True, False, False]
    assert ["<article" in page for page in pages.values()] == [True, True, False]


def kept(directory: Path) -> eh.Run:
    """A run from ten people in a directory."""
    data = people(10)
    return eh.audit(
        lambda frame: frame["sex"] == "F", space(data), "auto", eh.Budget(tests=50), data=data, directory=directory
    )


def test_without_the_verdict_of_the_data_every_finding_may_be_one(tmp_path: Path) -> None:
    """A killed run does not say which of its findings are rows."""
    kept(tmp_path / "r")
    (tmp_path / "r" / "run.json").unlink()
    run = eh.Run.load(tmp_path / "r")
    assert run.found
    assert run.from_data.all()
    for name, parts in documents(run, tmp_path).items():
        assert exposed(parts, 10) == [], name
        assert not any("first0" in part for part in parts), name


def test_texts_are_not_passed_on_as_they_were_written(tmp_path: Path) -> None:
    texts = [f"alpha{n} beta{n} the Sikh gamma{n} delta{n}" for n in range(12)]
    run = eh.audit(
        lambda texts: ["fine" if "Sikh" in text else "rude" for text in texts],
        eh.TextSpace("religion"),
        "text-random",
        eh.Budget(tests=12),
        data=texts,
    )
    assert run.found
    assert run.from_data.all()
    page = eh.report(run, tmp_path / "x.html").read_text("utf-8")
    for parts in [*documents(run, tmp_path).values(), [page]]:
        for n in range(12):
            words = {f"{word}{n}" for word in ("alpha", "beta", "gamma", "delta")}
            assert not any(words <= set(re.findall(r"\w+", part)) for part in parts)
    shown = documents(run, tmp_path, show_examples="real")
    assert any("alpha3 beta3" in part for part in shown["junit"])


def test_the_words_that_were_replaced_are_not_passed_on(tmp_path: Path) -> None:
    """With them the text of the data would be there, in full."""
    words = ["alpha", "beta", "gamma", "delta"]
    texts = [" ".join(f"{word}{n}" for word in words[:2]) + f" the Sikh gamma{n} delta{n}" for n in range(12)]

    def decide(texts: list[str]) -> list[str]:
        return ["fine" if "Sikh" in text or "alpha" in text else "rude" for text in texts]

    every = [f"{word}{n}" for word in words for n in range(12)]
    space = eh.TextSpace("religion", similar=(every, np.random.default_rng(0).normal(size=(len(every), 4))))
    run = eh.audit(decide, space, "text-random", eh.Budget(tests=400), data=texts)
    assert not run.from_data.all()
    page = eh.report(run, tmp_path / "x.html").read_text("utf-8")
    for parts in [*documents(run, tmp_path).values(), [re.sub(r"<[^>]*>", " ", page)]]:
        for part in parts:
            found = set(re.findall(r"\w+", part))
            assert not any({f"{word}{n}" for word in words} <= found for n in range(12)), part
    assert any("<s>" in part for part in [eh.report(run, None, show_examples="real").decode()])


def test_files_with_all_values_say_so_and_are_for_their_owner_alone(tmp_path: Path) -> None:
    run = kept(tmp_path / "r")
    eh.bundle(run, tmp_path / "x.zip")
    for ending in (".json", ".csv", ".md", ".xml", ".sarif"):
        eh.export(run, tmp_path / f"x{ending}")
    for path in tmp_path.glob("x.*"):
        assert path.stat().st_mode & 0o777 == 0o600
    first = next(iter(json.loads((tmp_path / "x.json").read_text()).items()))
    assert first[0] == "notice"
    assert "Some may be rows" in first[1]
    assert next(iter(eh.check_bundle(tmp_path / "x.zip").manifest)) == "notice"
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    eh.export(run, tmp_path / "x.parquet")
    assert b"Some may be rows" in pyarrow.parquet.read_schema(tmp_path / "x.parquet").metadata[b"pandas"]
