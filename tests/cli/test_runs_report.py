"""The command ``evenhand report``."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import pytest

from evenhand.engine.store import SOURCE, write_json
from evenhand.errors import ModelError, trust_types
from evenhand.runs.replay import Source
from tests.cli.conftest import MODELS, Command
from tests.reports.page import Page

REFUSE = ["--model", f"{MODELS}:refuse"]


def test_with_the_model_the_report_is_complete(kept: Path, evenhand: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    done = evenhand("report", kept, *REFUSE, "--favourable", "granted", "--title", "Loans", "--output", out)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Wrote {out}\n"
    page = Page(out.read_text("utf-8"))
    page.check()
    # The data are where the run has them noted.
    for words in ("Loans", "People like those in the data", "sex M is favoured", "age <= 29", "A synthetic person"):
        assert words in page.text
    assert evenhand("report", kept, *REFUSE, "--output", out, "--quiet").stdout == ""


def test_without_the_model_the_report_lists_missing_parts(
    kept: Path, evenhand: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = evenhand("report", kept)
    assert done.exit_code == 0, done.output
    page = Page(Path("report.html").read_text("utf-8"))
    page.check()
    assert "evenhand report RUN --model MODEL" in page.text
    assert "decision for 930 individuals found by the search" in page.text


def test_without_rows(kept: Path, evenhand: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    assert evenhand("report", kept, *REFUSE, "--show-examples", "none", "--output", out).exit_code == 0
    text = out.read_text("utf-8")
    for value in ("clerk", "nurse", "boss"):
        assert value not in text
    assert "Pairs are left out" in text


def test_wrong_input(kept: Path, evenhand: Command, refused: Command, people: Path, tmp_path: Path) -> None:
    out = ["--output", tmp_path / "out.html"]
    refused(evenhand("report", tmp_path / "gone", *out), "not the directory of a run")
    refused(evenhand("report", kept, "--model", f"{MODELS}:fair", *out), "is not the run's model")
    refused(evenhand("report", kept, "--model", "nothing.onnx", *out), "nothing.onnx")
    refused(evenhand("report", kept, *REFUSE, "--samples", 3, *out), "samples")
    refused(evenhand("report", kept, *REFUSE, "--output", people / "x.html"), "cannot write")
    refused(evenhand("report", kept, *REFUSE, "--favourable", "yes", *out), "must be a decision of refuse")
    refused(evenhand("report", kept, *REFUSE, "--target", "nope", *out), "--target must be a column", "nope")
    (tmp_path / "other.csv").write_text("a\n1\n")
    refused(evenhand("report", kept, *REFUSE, "--data", tmp_path / "other.csv", *out))
    assert not (tmp_path / "out.html").exists()


def test_a_run_whose_data_moved_needs_them_named(kept: Path, evenhand: Command, people: Path, tmp_path: Path) -> None:
    shutil.copytree(kept, tmp_path / "copy")
    moved = people.rename(tmp_path / "moved.csv")
    out = tmp_path / "out.html"
    assert evenhand("report", tmp_path / "copy", *REFUSE, "--output", out).exit_code == 0
    assert "--data FILE" in out.read_text("utf-8")
    assert evenhand("report", tmp_path / "copy", *REFUSE, "--data", moved, "--output", out).exit_code == 0
    assert "--data FILE" not in out.read_text("utf-8")


@pytest.mark.parametrize("wrong", ["examples = 0", "samples = 5"])
def test_wrong_values_of_a_file_name_file_and_key(
    kept: Path, evenhand: Command, refused: Command, tmp_path: Path, wrong: str
) -> None:
    path = tmp_path / "evenhand.toml"
    path.write_text(f"[report]\n{wrong}\n")
    refused(evenhand("report", kept, *REFUSE, "--config", path), f"evenhand.toml: report.{wrong.split()[0]} must be")


def test_data_that_changed_are_refused(kept: Path, evenhand: Command, refused: Command, people: Path) -> None:
    people.write_text(people.read_text() + "40,40,clerk,M,low\n")
    refused(evenhand("report", kept, *REFUSE, "--output", people.parent / "out.html"), "people.csv has changed")


def test_a_model_file_that_was_replaced_is_refused(
    kept: Path, evenhand: Command, refused: Command, tmp_path: Path
) -> None:
    out, model = tmp_path / "out.html", tmp_path / "model.onnx"
    model.write_text("1")
    (kept / SOURCE).unlink()
    write_json(kept / SOURCE, asdict(Source.of(str(model))))
    model.write_text("2")
    refused(evenhand("report", kept, "--output", out), "model.onnx has changed")
    model.unlink()
    assert evenhand("report", kept, "--output", out).exit_code == 0
    assert "which is no longer a file there" in out.read_text("utf-8")


def test_failed_parts_are_listed_and_the_rest_is_written(
    kept: Path, evenhand: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ModelError("the server is gone")

    for name in ("regions", "coverage"):
        monkeypatch.setattr(f"evenhand.reports.content.{name}", broken)
    done = evenhand("report", kept, *REFUSE, "--output", tmp_path / "out.html")
    assert done.exit_code == 1, done.output
    told = "2 parts could not be made (Where it happens, How much of the model was tested): the server is gone"
    assert done.stderr == f"evenhand: {tmp_path / 'out.html'}: {told}\n"
    # The error may name values of people: only the one who runs the report sees it.
    assert (tmp_path / "out.html").read_text("utf-8").count("the server is gone") == 0


def test_missing_parts_are_listed_with_a_remedy(
    kept: Path, evenhand: Command, people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.html"
    done = evenhand("report", kept, "--output", out)
    assert done.exit_code == 0
    assert "out.html is incomplete: the model " in done.stderr
    assert "--model MODEL" in done.stderr
    assert evenhand("report", kept, "--output", out, "--quiet").stderr == ""
    assert evenhand("report", kept, *REFUSE, "--output", out).stderr == ""
    people.rename(tmp_path / "moved.csv")
    assert "is incomplete: there is no data" in evenhand("report", kept, *REFUSE, "--output", out).stderr

    def untrusted(*_: object, **__: object) -> None:
        raise ModelError("m.skops: it would create a.B, c.D", remedy=("trust ", trust_types(["a.B", "c.D"])))

    for module in ("evenhand.reports.report", "evenhand.runs.replay"):
        monkeypatch.setattr(import_module(module), "model_of", untrusted)
    # To name the same model would be refused for the same reason.
    assert "use --trust a.B --trust c.D" in evenhand("report", kept, "--output", out).stderr
    text = Page(out.read_text("utf-8")).text
    assert "evenhand report RUN --trust a.B --trust c.D" in text
    assert "--model MODEL, or eh.report" not in text


def test_an_order_on_the_page_of_an_audit(evenhand: Command, refused: Command, people: Path, tmp_path: Path) -> None:
    given = ["--model", f"{MODELS}:three", "--data", people, "--target", "paid", "--protected", "sex"]
    order = [part for name in ("refused", "reduced", "granted") for part in ("--order", name)]
    audit = ["audit", *given, "--budget-tests", 500, "-q"]
    page = tmp_path / "page.html"
    done = evenhand(*audit, *order, "--report", page, "--directory", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "Outcomes from worst to best: “refused”, “reduced”, “granted”" in Page(page.read_text("utf-8")).text
    again = tmp_path / "again.html"
    kept = ["report", tmp_path / "run", "--model", f"{MODELS}:three", "--data", people, "-q", "--output", again]
    assert evenhand(*kept, "--favourable", "granted", "--favourable", "reduced").exit_code == 0
    assert "“granted” or “reduced”" in again.read_text("utf-8")
    refused(evenhand(*audit, *order), "--report")
    refused(evenhand(*kept, "--order", "refused", "--order", "granted"), "--order", "'reduced'")
