"""The commands for kept runs: export, compare, bundle, and replay of a bundle."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli import models
from tests.cli.conftest import MODELS, Command
from tests.helpers import optional

REFUSE = ["--model", f"{MODELS}:refuse"]


def test_audits_note_the_sources_of_model_and_data(kept: Path, people: Path, audit: Command) -> None:
    noted = json.loads((kept / "source.json").read_text())
    assert (noted["model"], noted["model_sha256"], noted["data"]) == (f"{MODELS}:refuse", None, str(people))
    assert len(noted["data_sha256"]) == 64
    # A finished run that is merely returned keeps what it was made with.
    (kept / "source.json").write_text("{}")
    audit("refuse", "--strategy", "themis", "--directory", kept, "--quiet")
    assert (kept / "source.json").read_text() == "{}"


def test_export(kept: Path, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    names = ["a.json", "a.csv", "a.xml", "a.sarif", "a.md"]
    done = evenhand("export", kept, *(tmp_path / name for name in names), "--max-findings", 5, "--artifact", "model.py")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [f"Wrote {tmp_path / name}" for name in names]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 931
    (results,) = (run["results"] for run in json.loads((tmp_path / "a.sarif").read_text())["runs"])
    assert len(results) == 5
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "model.py"}
    told = refused(
        evenhand("export", kept, tmp_path / "b.csv", tmp_path / "b.docx"), "unknown file extension", "--format NAME"
    )
    assert "format='" not in told
    assert "export.max_findings" not in refused(
        evenhand("export", kept, tmp_path / "b.csv", "--max-findings", 0), "evenhand: --max-findings must"
    )
    assert not (tmp_path / "b.csv").exists()
    refused(evenhand("export", tmp_path / "gone", tmp_path / "b.csv"), "not the directory of a run")


def test_findings_of_an_audit_by_their_ending(audit: Command, refused: Command, tmp_path: Path) -> None:
    assert audit("refuse", "--quiet", "--findings", tmp_path / "x.md").exit_code == 0
    assert (tmp_path / "x.md").read_text().startswith("### evenhand")
    assert audit("refuse", "--quiet", "--findings", tmp_path / "none").exit_code == 0
    assert (tmp_path / "none").read_text().startswith('"age",')
    refused(
        audit("refuse", "--findings", tmp_path / "x.out"),
        "--findings: x.out",
        "unknown file extension; use one of .json",
    )


def test_compare(kept: Path, audit: Command, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    later = tmp_path / "later"
    audit("fair", "--strategy", "themis", "--directory", later, "--quiet")
    models = ["--model-a", f"{MODELS}:refuse", "--model-b", f"{MODELS}:fair"]
    done = evenhand("compare", kept, later, *models)
    assert done.exit_code == 0, done.output
    assert "930 are fixed and 0 remain" in " ".join(done.stdout.split())
    back = ["--model-b", f"{MODELS}:refuse", "--model-a", f"{MODELS}:fair", "--fail-on-new"]
    done = evenhand("compare", later, kept, *back)
    assert (done.exit_code, "New:\n1. sex " in done.stdout) == (1, True)
    told = json.loads(evenhand("compare", later, kept, *back, "--json").stdout)
    by = f"by {100 * told['rates']['difference']:.1f} points"
    first = " ".join(done.stdout.split()).partition(". ")[0]
    assert first.endswith(f"The second model treats more individuals differently than the first, {by}")
    assert (told["new"], told["fixed"], told["rates"]["exact"]) == (930, 0, True)
    assert len(told["new_pairs"]) == 3
    assert evenhand("compare", later, kept, *back, "--quiet").output == ""
    refused(evenhand("compare", kept, later), f"pass it: --model-a {MODELS}:refuse", "runs code when it is loaded")
    refused(evenhand("compare", kept, later, *models[:2], "--model-b", f"{MODELS}:refuse"), "is not the run's model")


def test_compare_loads_model_files(evenhand: Command, refused: Command, tmp_path: Path) -> None:
    skops = optional("skops.io")
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    X = pd.DataFrame({"age": [1, 2, 3, 4], "sex": [0, 1, 0, 1]})
    X.to_csv(tmp_path / "x.csv", index=False)
    for name, column in (("a", "sex"), ("b", "age")):
        model, place = tmp_path / f"{name}.skops", tmp_path / name
        y = X[column] > X[column].median() - 0.5
        skops.dump(DecisionTreeClassifier().fit(X * (X.columns == column), y), model)
        given = ["--data", tmp_path / "x.csv", "--protected", "sex", "--directory", place, "--strategy", "themis"]
        done = evenhand("audit", "--model", model, *given, "-q")
        assert done.exit_code == 0, done.output
    done = evenhand("compare", tmp_path / "a", tmp_path / "b", "--json")
    told = json.loads(done.stdout)
    assert (told["fixed"], told["still"], told["new"]) == (4, 0, 0)
    with (tmp_path / "a.skops").open("ab") as file:
        file.write(b"x")
    assert "has changed since" in evenhand("compare", tmp_path / "a", tmp_path / "b").stderr


def test_bundle_and_replay(kept: Path, people: Path, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    path = tmp_path / "evidence.zip"
    done = evenhand("bundle", kept, "--output", path)
    assert done.exit_code == 0, done.output
    assert "data/people.csv" in done.stdout
    digest = done.stdout.split()[-1]
    done = evenhand("replay", path, *REFUSE, "--digest", digest)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("930 of 930 findings confirmed, 0 not\n")
    assert digest in done.stdout
    done = evenhand("replay", path, *REFUSE, "--digest", "0" * 64)
    assert (done.exit_code, "MISMATCH: archive" in done.stdout) == (1, True)
    refused(evenhand("replay", path), "does not include its model")
    people.write_text(people.read_text() + "1,1,clerk,F,low\n")
    refused(evenhand("bundle", kept, "--output", path), "has changed since")


def test_replay_lists_every_finding(kept: Path, evenhand: Command, tmp_path: Path) -> None:
    evenhand("bundle", kept, "--output", tmp_path / "e.zip", "--quiet")
    done = evenhand("replay", tmp_path / "e.zip", "--model", f"{MODELS}:fair", "--json", "--list", tmp_path / "l.csv")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["confirmed"], told["refuted"], told["problems"]) == (1, 0, 930, {})
    assert told["refuted_positions"] == list(range(930))
    lines = (tmp_path / "l.csv").read_text().splitlines()
    assert lines[0].endswith(',"holds"')
    assert all(line.endswith(',"no"') for line in lines[1:])


def tampered(path: Path, member: str) -> Path:
    """The bundle with one byte of a member changed, and the archive's own checksum made right."""
    out = path.with_name("tampered.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, bytes([content[0] ^ 1]) + content[1:] if name == member else content)
    return out


@pytest.mark.parametrize(
    ("member", "asked"),
    [("findings.csv", True), ("data/people.csv", True), ("model/m.onnx", True), ("run/answers.log", False)],
)
def test_tampering_is_named(kept: Path, evenhand: Command, tmp_path: Path, member: str, asked: bool) -> None:
    (tmp_path / "m.onnx").write_bytes(b"some model")
    evenhand("bundle", kept, "--output", tmp_path / "e.zip", "--model", tmp_path / "m.onnx")
    done = evenhand("replay", tampered(tmp_path / "e.zip", member), *REFUSE)
    assert done.exit_code == 1, done.output
    assert f"MISMATCH: {member}: it was changed" in done.stdout
    assert ("930 of 930" in done.stdout) is asked
    assert ("not replayed" in done.stderr) is not asked


def test_a_bundle_whose_own_model_was_changed(kept: Path, evenhand: Command, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"some model")
    evenhand("bundle", kept, "--output", tmp_path / "e.zip", "--model", tmp_path / "m.onnx")
    path = tampered(tmp_path / "e.zip", "model/m.onnx")
    done = evenhand("replay", path)
    assert done.exit_code == 1, done.output
    assert "MISMATCH: model/m.onnx: it was changed" in done.stdout
    assert "the bundle's own model was tampered with" in done.stderr
    assert "--model SPEC" in done.stderr
    done = evenhand("replay", path, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["problems"], told["confirmed"]) == (1, {"model/m.onnx": "it was changed"}, None)


def test_a_missing_run_is_reported_before_the_model(evenhand: Command, refused: Command, tmp_path: Path) -> None:
    assert "model" not in refused(evenhand("replay", tmp_path / "gone"), "gone", "not the directory of a run")


def test_rows_left_out(kept: Path, people: Path, evenhand: Command, tmp_path: Path) -> None:
    path = tmp_path / "e.zip"
    assert "data/people.csv (left out)" in evenhand("bundle", kept, "--output", path, "--no-data").stdout
    assert evenhand("replay", path, *REFUSE, "--data", people).exit_code == 0
    people.write_text(people.read_text().replace("20", "21"))
    done = evenhand("replay", path, *REFUSE, "--data", people)
    assert (done.exit_code, "is not the data that was bundled" in done.stdout) == (1, True)


def test_pickles_of_a_bundle_need_trust(kept: Path, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    import joblib

    joblib.dump(_Trap(), tmp_path / "model.pkl")
    evenhand("bundle", kept, "--output", tmp_path / "e.zip", "--model", tmp_path / "model.pkl", "-q")
    refused(evenhand("replay", tmp_path / "e.zip", "-q"), "--trust-pickle")
    assert not _Trap.sprung


class _Trap:
    sprung = False

    def __reduce__(self) -> Any:
        return _spring, ()


def _spring() -> None:
    _Trap.sprung = True


def test_options_of_bundles_are_refused_for_directories(kept: Path, evenhand: Command, refused: Command) -> None:
    refused(evenhand("replay", kept, *REFUSE, "--digest", "0"), "for bundles")


def test_a_model_that_runs_code_must_be_named_to_be_replayed(kept: Path, evenhand: Command, refused: Command) -> None:
    refused(evenhand("replay", kept), "runs code when it is loaded", f"--model {MODELS}:refuse")
    assert evenhand("replay", kept, *REFUSE).exit_code == 0


def test_replay_finds_the_model_that_the_run_noted(evenhand: Command, refused: Command, tmp_path: Path) -> None:
    skops = optional("skops.io")
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    import evenhand as eh

    X = pd.DataFrame({"age": [1, 2, 3, 4], "sex": [0, 1, 0, 1]})
    X.to_csv(tmp_path / "x.csv", index=False)
    skops.dump(RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, X["sex"]), tmp_path / "m.skops")
    given = [
        "--data",
        tmp_path / "x.csv",
        "--protected",
        "sex",
        "--directory",
        tmp_path / "run",
        "--strategy",
        "themis",
    ]
    assert evenhand("audit", "--model", tmp_path / "m.skops", *given, "-q").exit_code == 0
    done = evenhand("replay", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "4 of 4 findings confirmed" in done.stdout
    assert eh.replay(tmp_path / "run").confirmed == 4
    evenhand("bundle", tmp_path / "run", "--output", tmp_path / "e.zip", "-q")
    assert eh.replay(tmp_path / "e.zip").confirmed == 4
    # Another model under the same name is not taken for it.
    skops.dump(RandomForestClassifier(5, random_state=0).fit(X, X["age"] > 2), tmp_path / "m.skops")
    refused(evenhand("replay", tmp_path / "run"), "has changed since the run was made")
    (tmp_path / "m.skops").unlink()
    refused(evenhand("replay", tmp_path / "run"), "give the model yourself")


def test_replay_uses_the_bundled_model_by_default(evenhand: Command, tmp_path: Path) -> None:
    skops = optional("skops.io")
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    X = pd.DataFrame({"age": [1, 2, 3, 4], "sex": [0, 1, 0, 1]})
    X.to_csv(tmp_path / "x.csv", index=False)
    skops.dump(DecisionTreeClassifier().fit(X, X["sex"]), tmp_path / "m.skops")
    given = ["--data", tmp_path / "x.csv", "--protected", "sex", "--directory", tmp_path / "run", "--threshold", 0.5]
    evenhand("audit", "--model", tmp_path / "m.skops", *given, "--strategy", "themis", "-q")
    evenhand("bundle", tmp_path / "run", "--output", tmp_path / "e.zip", "-q")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "m.skops").unlink()
    done = evenhand("replay", tmp_path / "e.zip")
    assert (done.exit_code, "4 of 4 findings confirmed" in done.stdout) == (0, True)


def test_errors_name_the_part_of_a_bundle(kept: Path, evenhand: Command, tmp_path: Path) -> None:
    import pickle

    model = tmp_path / "my model.pkl"
    model.write_bytes(pickle.dumps(models.refuse))
    assert evenhand("bundle", kept, "--model", model, "--output", tmp_path / "e.zip", "-q").exit_code == 0
    said = evenhand("replay", tmp_path / "e.zip", "-q")
    assert said.stderr.startswith("evenhand: model/my_model.pkl: unpickling runs code"), said.stderr
    done = evenhand("replay", tmp_path / "e.zip", "--trust-pickle")
    assert "unpickling model/my_model.pkl runs" in done.stderr
    assert "930 of 930 findings confirmed" in done.stdout
    model.write_bytes(b"no pickle")
    evenhand("bundle", kept, "--model", model, "--output", tmp_path / "e.zip", "-q")
    said = evenhand("replay", tmp_path / "e.zip", "-q", "--trust-pickle")
    assert said.stderr.startswith("evenhand: model/my_model.pkl: it cannot be read as a pickle"), said.stderr


def test_a_run_is_reported_and_bundled_from_another_folder(
    evenhand: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skops = optional("skops.io")
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    X = pd.DataFrame({"age": [1, 2, 3, 4], "sex": [0, 1, 0, 1]})
    monkeypatch.chdir(tmp_path)
    X.to_csv("x.csv", index=False)
    skops.dump(LogisticRegression().fit(X, X["sex"]), "m.skops")
    given = ["--data", "x.csv", "--protected", "sex", "--directory", "run", "--strategy", "themis", "-q"]
    assert evenhand("audit", "--model", "m.skops", *given).exit_code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = evenhand("report", "../run")
    assert done.exit_code == 0
    assert "is incomplete" not in done.stderr
    assert evenhand("bundle", "../run", "--output", "b.zip", "-q").exit_code == 0
    done = evenhand("replay", "b.zip")
    assert (done.exit_code, "2 of 2 findings confirmed" in done.stdout) == (0, True), done.output


def test_broken_notes_are_refused(kept: Path, evenhand: Command, refused: Command, tmp_path: Path) -> None:
    (kept / "source.json").write_text("[1]")
    refused(evenhand("report", kept, "--output", tmp_path / "r.html"), "source.json cannot be read; delete it")
    refused(evenhand("bundle", kept, "--output", tmp_path / "b.zip"), "source.json cannot be read; delete it")
    assert not (tmp_path / "r.html").exists()
