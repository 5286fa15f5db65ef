"""Bundles of runs of texts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

import evenhand as eh


def classify(texts: list[str]) -> list[str]:
    return ["toxic" if "Sikh" in text else "fine" for text in texts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = ["A Sikh \ud83d came.", "=1+1, said a Jew.", "Nobody."]
    (tmp_path / "said.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in data))
    eh.audit(classify, eh.TextSpace("religion"), "text-random", data=data, directory=tmp_path / "run")
    eh.bundle(tmp_path / "run", tmp_path / "run.zip", data=tmp_path / "said.jsonl")
    return tmp_path


def test_a_bundle_of_texts_is_whole_and_replayed(folder: Path) -> None:
    checked = eh.check_bundle(folder / "run.zip")
    assert checked.whole, checked.lines
    assert {"findings.csv", "space.json", "data/said.jsonl"} <= set(checked.members)
    assert "space.toml" not in checked.members
    done = eh.replay(folder / "run.zip", classify)
    assert (done.confirmed, done.refuted) == (2, 0)
    assert eh.replay(folder / "run.zip", lambda texts: ["fine" for _ in texts]).refuted == 2
    again = eh.bundle(folder / "run", folder / "again.zip", data=folder / "said.jsonl")
    assert again == checked.digest


@pytest.mark.parametrize("member", ["findings.csv", "space.json", "data/said.jsonl", "run/answers.log"])
def test_one_byte_is_named(folder: Path, member: str) -> None:
    whole = (folder / "run.zip").read_bytes()
    content = zipfile.ZipFile(folder / "run.zip").read(member)
    at = whole.index(content) + len(content) // 2
    (folder / "run.zip").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert eh.check_bundle(folder / "run.zip").lines == [f"{member}: it was changed"]


def test_the_table_must_say_what_the_run_says(folder: Path) -> None:
    run = eh.Run.load(folder / "run")
    assert run.space.digest == eh.check_bundle(folder / "run.zip").manifest["run"]["space"]
    assert run.space.digest != eh.TextSpace("race").digest
