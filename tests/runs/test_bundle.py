"""Bundles: complete, reproducible, and checked byte by byte."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import EvenhandError, ReplayError, RunError
from evenhand.runs.bundle import opened
from evenhand.runs.replay import Source
from evenhand.spaces.base import space_digest

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] < 10) & (frame["sex"] == "F")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundled run with a model's file and data."""
    folder = tmp_path_factory.mktemp("evidence")
    run = eh.audit(refuse, SPACE, "themis", directory=folder / "run")
    (folder / "my model.onnx").write_bytes(b"model" * 100)
    (folder / "people.csv").write_text("age,sex\n" + "3,F\n" * 100)
    eh.bundle(run, folder / "run.zip", folder / "my model.onnx", folder / "people.csv")
    return folder


def rezip(folder: Path, change: Any) -> Path:
    """The bundle with its members changed by a function of their dictionary."""
    with zipfile.ZipFile(folder / "run.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(folder / "other.zip", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return folder / "other.zip"


def span(bundle: Path, member: str) -> tuple[int, int]:
    """Where a member's bytes begin and end in the archive."""
    content = zipfile.ZipFile(bundle).read(member)
    start = bundle.read_bytes().index(content)
    return start, start + len(content)


def test_a_bundle_has_everything(folder: Path) -> None:
    checked = eh.check_bundle(folder / "run.zip")
    assert checked.whole
    assert set(checked.members) == {
        "data/people.csv", "findings.csv", "manifest.json", "model/my_model.onnx", "run/about.json", "run/answers.log",
        "run/answers.times", "run/identity.json", "run/run.json", "space.toml",
    }  # fmt: skip
    manifest = checked.manifest
    assert set(manifest["members"]) == set(checked.members) - {"manifest.json"}
    assert (manifest["findings"], manifest["run"]["seed"]) == (9, 0)
    assert {"evenhand", "numpy"} <= set(manifest["versions"])


def test_same_run_same_bytes(folder: Path, tmp_path: Path) -> None:
    digest = eh.bundle(folder / "run", tmp_path / "again.zip", folder / "my model.onnx", folder / "people.csv")
    assert (tmp_path / "again.zip").read_bytes() == (folder / "run.zip").read_bytes()
    assert eh.check_bundle(folder / "run.zip").digest == digest


def test_it_can_be_replayed(folder: Path) -> None:
    done = eh.replay(folder / "run.zip", refuse)
    assert (done.confirmed, done.refuted, done.holds) == (9, 0, True)
    done = eh.replay(folder / "run.zip", lambda f: (f["age"] < 4) & (f["sex"] == "F"))
    assert (done.confirmed, done.refuted) == (3, 6)
    assert done.held.sum() == 3


@pytest.mark.parametrize("member", ["findings.csv", "data/people.csv", "model/my_model.onnx", "run/answers.log"])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_changed_byte_is_named(folder: Path, member: str, where: float, bit: int) -> None:
    start, end = span(folder / "run.zip", member)
    content = bytearray((folder / "run.zip").read_bytes())
    content[start + int(where * (end - start))] ^= 1 << bit
    (folder / "changed.zip").write_bytes(content)
    assert eh.check_bundle(folder / "changed.zip").lines == [f"{member}: it was changed"]
    with pytest.raises(ReplayError, match=member):
        eh.replay(folder / "changed.zip", refuse)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
def test_no_byte_at_all_can_be_changed_unseen(folder: Path, where: float, bit: int, cut: bool) -> None:
    content = bytearray((folder / "run.zip").read_bytes())
    at = int(where * len(content))
    if cut:
        del content[at:]
    else:
        content[at] ^= 1 << bit
    (folder / "changed.zip").write_bytes(content)
    try:
        unseen = eh.check_bundle(folder / "changed.zip").whole
    except EvenhandError:
        unseen = False
    assert not unseen


def change_and_rehash(name: str, content: bytes) -> Any:
    """What somebody does who knows how the manifest works."""
    import hashlib

    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["manifest.json"])
        members[name] = content
        manifest["members"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        members["manifest.json"] = json.dumps(manifest).encode()

    return change


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda m: m.pop("data/people.csv"), ["data/people.csv: it is missing"]),
        (lambda m: m.update(extra=b"x"), ["extra: it was added: the manifest does not list it"]),
        (lambda m: m.update({"a\x1b[31m": b"x"}), [r"a\x1b[31m: it was added: the manifest does not list it"]),
        (lambda m: m.update({"manifest.json": b"{"}), ["manifest.json: it cannot be read: it was changed"]),
        (lambda m: m.update({"manifest.json": b"[1]"}), ["manifest.json: it cannot be read: it was changed"]),
        (lambda m: None, ["archive: bytes outside its parts were changed or added"]),
        (change_and_rehash("findings.csv", b"age,sex\r\n"), [
            "archive: bytes outside its parts were changed or added",
            "findings.csv: it does not match the run's own files"]),
    ],
)  # fmt: skip
def test_members_changed_as_a_whole(folder: Path, change: Any, lines: list[str]) -> None:
    assert eh.check_bundle(rezip(folder, change)).lines == lines


def test_a_manifest_without_a_signature_proves_no_more_than_its_digest(folder: Path) -> None:
    """A bundle rewritten as a whole, with the same program, is detected by the digest alone."""
    import hashlib

    from evenhand.runs.bundle import pack

    with zipfile.ZipFile(folder / "run.zip") as archive:
        members: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    change_and_rehash("model/my_model.onnx", b"another")(members)
    file = io.BytesIO()
    pack(file, members)
    (folder / "forged.zip").write_bytes(file.getvalue())
    checked = eh.check_bundle(folder / "forged.zip")
    assert checked.whole
    assert checked.digest == hashlib.sha256(file.getvalue()).hexdigest() != eh.check_bundle(folder / "run.zip").digest


def test_rows_can_be_left_out(folder: Path, tmp_path: Path) -> None:
    eh.bundle(folder / "run", tmp_path / "x.zip", None, folder / "people.csv", include_data=False)
    checked = eh.check_bundle(tmp_path / "x.zip")
    assert checked.whole
    assert not any(name.startswith(("data/", "model/")) for name in checked.members)
    whole = eh.check_bundle(folder / "run.zip").manifest
    assert checked.manifest["left_out"] == {"data/people.csv": whole["members"]["data/people.csv"]}
    assert b"3,F\n3,F" not in (tmp_path / "x.zip").read_bytes()


def test_nothing_is_written_outside(folder: Path, tmp_path: Path) -> None:
    slip = tmp_path / "slip"
    bad = rezip(folder, lambda m: m.update({"../../slip": b"x", str(slip): b"x", "run/../../y": b"x"}))
    with opened(bad) as (checked, directory):
        inside = {path.resolve() for path in directory.parent.rglob("*")}
        assert all(directory.parent.resolve() in path.parents for path in inside)
        assert {"../../slip", str(slip), "run/../../y"} <= set(checked.problems)
    assert not directory.exists()
    assert not slip.exists()


def test_compressed_and_doubled_members_are_refused(folder: Path) -> None:
    with zipfile.ZipFile(folder / "run.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("data/people.csv", b"0" * 10**6)
    problems = eh.check_bundle(folder / "bomb.zip").problems
    assert "compressed" in problems["findings.csv"]
    assert "data/people.csv" in problems


def test_wrong_input(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="run must be stored"):
        eh.bundle(eh.audit(refuse, SPACE, "themis"), tmp_path / "x.zip")
    with pytest.raises(RunError, match="existing file"):
        eh.bundle(folder / "run", tmp_path / "x.zip", tmp_path / "gone.onnx")
    with pytest.raises(RunError, match="no such file"):
        eh.check_bundle(tmp_path / "gone.zip")
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(RunError, match="cannot be read as a bundle"):
        eh.check_bundle(tmp_path / "no.zip")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(RunError, match=r"no manifest\.json"):
        eh.check_bundle(tmp_path / "empty.zip")


@pytest.mark.parametrize(
    "call", [lambda f: eh.bundle(5, f / "x.zip"), lambda f: eh.bundle(f / "run", 5), lambda f: eh.check_bundle(5),
             lambda f: eh.bundle(f / "run", f / "x.zip", 5), lambda f: eh.replay(5, refuse),
             lambda f: eh.export(eh.Run.load(f / "run"), 5)],
)  # fmt: skip
def test_invalid_paths_are_refused(folder: Path, call: Any) -> None:
    with pytest.raises(RunError, match="must be a path, got 5"):
        call(folder)


def test_a_run_in_memory_is_bundled_like_its_directory(tmp_path: Path) -> None:
    people = pd.DataFrame({"age": [20, 30, 40] * 9, "sex": ["F", "M", "F"] * 9})
    run = eh.audit(refuse, eh.Space.infer(people, protected="sex"), "themis", directory=tmp_path / "run")
    assert eh.bundle(run, tmp_path / "a.zip") == eh.bundle(tmp_path / "run", tmp_path / "b.zip")
    assert eh.check_bundle(tmp_path / "a.zip").problems == {}
    assert eh.replay(tmp_path / "a.zip", refuse).holds


def test_half_a_surrogate_pair_can_be_bundled(tmp_path: Path) -> None:
    space = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "\ud83d"], dtype="object")], protected="sex")
    eh.bundle(eh.audit(refuse, space, "themis", directory=tmp_path / "run"), tmp_path / "run.zip")
    assert eh.check_bundle(tmp_path / "run.zip").problems == {}
    assert eh.replay(tmp_path / "run.zip", refuse).confirmed == 9
    stored = json.loads(zipfile.ZipFile(tmp_path / "run.zip").read("space.json"))
    assert stored["attributes"][1]["values"] == ["F", "\ud83d"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("findings", 8), ("tests", 41), ("threshold", 0.3), ("model", "another"), ("versions", {}), ("run", {})],
)
def test_a_manifest_that_contradicts_the_run(folder: Path, tmp_path: Path, key: str, value: Any) -> None:
    from evenhand.runs.bundle import pack

    with zipfile.ZipFile(folder / "run.zip") as archive:
        members: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for change in (lambda: manifest.update({key: value}), lambda: manifest.pop(key)):
        change()
        members["manifest.json"] = json.dumps(manifest).encode()
        with (tmp_path / "x.zip").open("wb") as file:
            pack(file, members)
        said = f"manifest.json: it does not match the run's own files ({key})"
        assert eh.check_bundle(tmp_path / "x.zip").lines == [said]


def test_bundle_problems_do_not_leak_temporary_paths(folder: Path) -> None:
    changed = rezip(folder, change_and_rehash("run/run.json", b"[1]"))
    (words,) = (text for name, text in eh.check_bundle(changed).problems.items() if name == "run")
    assert words.startswith("it cannot be read (run/run.json must contain a JSON object")


def test_notes_of_this_machine_stay_here(folder: Path, tmp_path: Path) -> None:
    run = eh.audit(refuse, SPACE, "themis", directory=tmp_path / "run")
    (tmp_path / "people.csv").write_text("age,sex\n3,F\n")
    Source("loans:refuse", None, None, "people.csv", "0").keep(run)
    noted = json.loads((tmp_path / "run" / "source.json").read_text())
    assert noted["data_absolute"] is not None
    eh.bundle(run, tmp_path / "run.zip", data=tmp_path / "people.csv")
    assert eh.check_bundle(tmp_path / "run.zip").whole
    assert str(tmp_path).encode() not in (tmp_path / "run.zip").read_bytes()


def classify(texts: list[str]) -> list[str]:
    return ["toxic" if "Sikh" in text else "fine" for text in texts]


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    data = ["A Sikh \ud83d came.", "=1+1, said a Jew.", "Somebody."]
    (tmp_path / "said.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in data))
    eh.audit(classify, eh.TextSpace("religion"), "text-random", data=data, directory=tmp_path / "run")
    eh.bundle(tmp_path / "run", tmp_path / "run.zip", data=tmp_path / "said.jsonl")
    return tmp_path


def test_a_bundle_of_texts_is_whole_and_replayed(text_folder: Path) -> None:
    checked = eh.check_bundle(text_folder / "run.zip")
    assert checked.whole, checked.lines
    assert {"findings.csv", "space.json", "data/said.jsonl"} <= set(checked.members)
    assert "space.toml" not in checked.members
    done = eh.replay(text_folder / "run.zip", classify)
    assert (done.confirmed, done.refuted) == (2, 0)
    assert eh.replay(text_folder / "run.zip", lambda texts: ["fine" for _ in texts]).refuted == 2
    again = eh.bundle(text_folder / "run", text_folder / "again.zip", data=text_folder / "said.jsonl")
    assert again == checked.digest


@pytest.mark.parametrize("member", ["findings.csv", "space.json", "data/said.jsonl", "run/answers.log"])
def test_one_changed_byte_of_a_text_bundle_is_named(text_folder: Path, member: str) -> None:
    whole = (text_folder / "run.zip").read_bytes()
    content = zipfile.ZipFile(text_folder / "run.zip").read(member)
    at = whole.index(content) + len(content) // 2
    (text_folder / "run.zip").write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert eh.check_bundle(text_folder / "run.zip").lines == [f"{member}: it was changed"]


def test_the_table_must_match_the_run(text_folder: Path) -> None:
    run = eh.Run.load(text_folder / "run")
    assert space_digest(run.space) == eh.check_bundle(text_folder / "run.zip").manifest["run"]["space"]
    assert space_digest(run.space) != space_digest(eh.TextSpace("race"))
