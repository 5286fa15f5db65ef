"""Nothing is lost if directories are changed, foreign files are in them, or interrupts are swallowed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand._files import SHARED, leftover, replacing, replacing_synced
from evenhand._interrupts import check, held, mark_handled, watched
from evenhand._rng import Stream
from evenhand.errors import ModelError, RunError
from evenhand.models.client import ModelClient
from evenhand.regression_corpus import Corpus
from evenhand.runs.replay import Source
from tests.helpers import in_blocks

BUDGET = eh.Budget(tests=600)
SPACE = eh.Space([eh.Integer("age", 1, 99), eh.Integer("pay", 0, 99), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] < 30) & (frame["sex"] == "F")


def acting(at: int, act: Callable[[], object], stored: Path | None = None) -> Any:
    """A model during whose call number ``at`` something happens, counted from when a run has its first answer."""
    calls = iter(range(10**6))

    def model(frame: Any) -> Any:
        # A single row that fails is queried again, with a copy.
        if len(frame) > 1 and (stored is None or (stored / "answers.log").exists()) and next(calls) == at:
            act()
        return refuse(frame)

    model.__name__ = refuse.__name__
    return eh.wrap(model, input="frame", batch_size=64)


def audit(model: Any = refuse, directory: Path | None = None, **settings: Any) -> eh.Run:
    return eh.audit(eh.wrap(model, chunk=64), SPACE, "themis", BUDGET, directory=directory, **settings)


WHOLE = audit()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def link(path: Path) -> None:
    path.rename(path.parent.with_name("elsewhere"))
    path.symlink_to(path.parent.with_name("elsewhere"))


# Runs whose directory is disturbed


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (lambda d: shutil.rmtree(d), "the directory .* was deleted"),
        (lambda d: d.rename(d.with_name("elsewhere")), "the directory .* was deleted, moved"),
        (lambda d: (d / "answers.log").unlink(), "answers.log was deleted"),
        (lambda d: (d / "answers.times").unlink(), "was deleted, moved, replaced or changed"),
        (
            lambda d: shutil.copy(d / "answers.log", d / "x") and (d / "x").replace(d / "answers.log"),
            "replaced or changed",
        ),
        (lambda d: os.truncate(d / "answers.log", 0), "answers.log was .* replaced or changed"),
        (lambda d: os.truncate(d / "answers.log", 100), "answers.log was .* replaced or changed"),
        (lambda d: overwrite(d / "answers.log", 60, bytes(50)), "answers.log was .* replaced or changed"),
        (lambda d: overwrite(d / "answers.log", 10**5, b"more"), "answers.log was .* replaced or changed"),
        (lambda d: os.truncate(d / "answers.times", 0), "replaced or changed"),
        (lambda d: (d / "identity.json").unlink(), "identity.json was deleted or changed"),
        (lambda d: (d / "identity.json").write_text("{}"), "identity.json was deleted or changed"),
        (lambda d: link(d / "identity.json"), "identity.json is a symbolic link"),
    ],
    ids=[
        "directory deleted", "directory moved", "log deleted", "times deleted", "log replaced", "log emptied",
        "log cut", "log overwritten", "log longer", "times emptied",
        "identity deleted", "identity changed", "identity a link",
    ],
)  # fmt: skip
@pytest.mark.parametrize("at", [0, 4])
def test_deleted_run_files_raise_an_error_with_the_run(
    tmp_path: Path, what: Callable[[Path], object], told: str, at: int
) -> None:
    directory = tmp_path / "run"
    with pytest.raises(RunError, match=told) as caught:
        audit(acting(at, lambda: what(directory), directory), directory)
    assert "free some space" not in str(caught.value)
    assert caught.value.partial.tests == WHOLE.tests
    assert caught.value.partial.findings.equals(WHOLE.findings)


def test_a_run_whose_directory_was_deleted_can_be_exported_and_reported(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with pytest.raises(RunError) as caught:
        audit(acting(4, lambda: shutil.rmtree(directory), directory), directory)
    partial = caught.value.partial
    assert len(eh.export(partial, tmp_path / "saved.csv").read_text().splitlines()) == WHOLE.found + 1
    assert "treated differently" in eh.report(partial, tmp_path / "saved.html").read_text()


def test_failed_runs_do_not_claim_lost_answers_were_kept(tmp_path: Path) -> None:
    directory = tmp_path / "run"

    def act() -> None:
        os.truncate(directory / "answers.log", 100)
        raise ValueError("out")

    with pytest.raises(ModelError) as caught:
        audit(acting(4, act, directory), directory)
    assert caught.value.partial.tests > 0
    assert "partial" in str(caught.value.__notes__)


def test_a_truncated_log_continues_at_the_cut(tmp_path: Path) -> None:
    audit(directory=tmp_path / "fresh")
    directory = tmp_path / "run"
    with pytest.raises(RunError, match="replaced or changed"):
        audit(acting(4, lambda: os.truncate(directory / "answers.log", 100), directory), directory)
    assert audit(directory=directory).findings.equals(WHOLE.findings)
    assert (directory / "answers.log").read_bytes() == (tmp_path / "fresh" / "answers.log").read_bytes()


@pytest.mark.parametrize("tail", [bytes(1), bytes(700), b"EV", b"EVH1" + bytes(40)])
def test_trailing_bytes_are_dropped_if_no_test_follows(tmp_path: Path, tail: bytes) -> None:
    audit(directory=tmp_path)
    log, before = tmp_path / "answers.log", (tmp_path / "answers.log").read_bytes()
    (tmp_path / "run.json").unlink()
    log.write_bytes(before + tail)
    assert audit(directory=tmp_path).findings.equals(WHOLE.findings)
    assert log.read_bytes() == before


@pytest.mark.parametrize("below", ["", "runs/one"])
def test_a_link_to_nothing_as_the_directory_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RunError, match="link is a symbolic link to .*nowhere.*create that directory"):
        audit(directory=tmp_path / "link" / below)


def test_a_directory_that_goes_before_the_first_answer(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    with pytest.raises(RunError, match="was deleted") as caught:
        audit(acting(1, lambda: shutil.rmtree(directory)), directory)
    assert caught.value.partial is not None


def test_directories_survive_a_killed_start(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    for name in ("lock", "identity.tmp", "run.tmp", ".identity.json.0123456789abcdef.tmp"):
        (directory / name).write_text('{"format"')
    assert audit(directory=directory).found == WHOLE.found
    assert names(directory) == ["about.json", "answers.log", "answers.times", "identity.json", "lock", "run.json"]


def test_a_run_that_ends_before_its_start_is_noted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise RunError("cannot write about.json: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("evenhand.engine.store.About.keep", full)
        with pytest.raises(RunError, match="No space left"):
            audit(directory=tmp_path)
    assert names(tmp_path) == ["identity.json", "lock"]
    identity = (tmp_path / "identity.json").read_bytes()
    (tmp_path / ".about.json.0123456789abcdef.tmp").write_text('{"star')
    run = audit(directory=tmp_path)
    assert run.findings.equals(WHOLE.findings)
    assert run.about.started is not None
    assert eh.Run.load(tmp_path).about == run.about
    assert (tmp_path / "identity.json").read_bytes() == identity
    assert names(tmp_path) == ["about.json", "answers.log", "answers.times", "identity.json", "lock", "run.json"]


def test_links_in_foreign_directories_change_nothing_outside(tmp_path: Path) -> None:
    audit(directory=tmp_path / "run")
    for name in (
        "about.json", "identity.json", "run.json", "answers.log", "answers.times", "coverage.json", "source.json",
        "lock",
    ):  # fmt: skip
        directory, outside = tmp_path / f"run with {name}", tmp_path / f"outside {name}"
        shutil.copytree(tmp_path / "run", directory)
        outside.write_bytes((directory / name).read_bytes() if (directory / name).exists() else b"mine")
        before = outside.read_bytes()
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(outside)
        for budget in (BUDGET, eh.Budget(tests=900)):
            with pytest.raises(RunError, match=f"{name} is a symbolic link"):
                eh.audit(eh.wrap(refuse, chunk=64), SPACE, "themis", budget, directory=directory)
        for read in (eh.Run.load, lambda d: eh.replay(d, refuse), lambda d: eh.bundle(d, tmp_path / "run.zip")):
            with pytest.raises(RunError, match=f"{name} is a symbolic link"):
                read(directory)
        assert outside.read_bytes() == before
    assert not (tmp_path / "run.zip").exists()


@pytest.mark.parametrize("name", ["run.tmp", "identity.tmp", ".run.json.0123456789abcdef.tmp"])
def test_links_under_temporary_names_change_nothing_outside(tmp_path: Path, name: str) -> None:
    directory, outside = tmp_path / "run", tmp_path / "outside"
    outside.write_text("mine")
    audit(directory=directory)
    (directory / name).symlink_to(outside)
    eh.audit(eh.wrap(refuse, chunk=64), SPACE, "themis", eh.Budget(tests=900), directory=directory)
    assert outside.read_text() == "mine"


def test_symbolic_link_as_model_source_is_refused(tmp_path: Path) -> None:
    run = audit(directory=tmp_path / "run")
    (tmp_path / "outside").write_text("{}")
    (tmp_path / "run" / "source.json").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=r"source\.json is a symbolic link"):
        Source.read(run)


def test_a_second_name_of_the_log_is_refused(tmp_path: Path) -> None:
    audit(directory=tmp_path / "run")
    os.link(tmp_path / "run" / "answers.log", tmp_path / "outside")
    before = (tmp_path / "outside").read_bytes()
    with pytest.raises(RunError, match="hard link"):
        eh.audit(eh.wrap(refuse, chunk=64), SPACE, "themis", eh.Budget(tests=900), directory=tmp_path / "run")
    assert (tmp_path / "outside").read_bytes() == before


def test_missing_write_permission_has_its_own_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("evenhand.engine.store.open_plain", refused)
    with pytest.raises(RunError, match="change the permissions there") as caught:
        audit(directory=tmp_path / "run")
    assert "space" not in str(caught.value)


# Files


def fail(file: Any, fault: BaseException) -> None:
    file.write(b"half of it")
    file.flush()
    raise fault


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_about_people_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        run = audit(directory=tmp_path / "run")
        eh.export(run, tmp_path / "findings.csv")
        eh.report(run, tmp_path / "report.html")
        eh.bundle(run, tmp_path / "run.zip")
        cases = Corpus(tmp_path / "cases", "test")
        cases.save([{"age": 20, "pay": 1, "sex": "F"}])
        SPACE.save(tmp_path / "space.toml")
    finally:
        os.umask(before)
    assert mode(tmp_path / "run") == 0o700
    private = [*(tmp_path / "run").iterdir(), cases.path]
    private += [tmp_path / name for name in ("findings.csv", "report.html", "run.zip")]
    assert {path.name: mode(path) for path in private} == {path.name: 0o600 for path in private}
    assert mode(tmp_path / "space.toml") == 0o666


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt(), SystemExit()])
def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, fault: BaseException) -> None:
    path = tmp_path / "file"
    for write in (replacing, replacing_synced):
        path.write_text("old")
        with pytest.raises(type(fault)), write(path) as file:
            fail(file, fault)
        assert path.read_text() == "old"
        assert names(tmp_path) == ["file"]
        with write(path) as file:
            file.write(b"new")
        assert path.read_text() == "new"
        assert names(tmp_path) == ["file"]


def test_a_file_that_was_there_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert (target.read_text(), mode(target)) == ("new", 0o640)


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with replacing(tmp_path / "link", SHARED) as file:
        file.write(b"new")
    assert (tmp_path / "target").read_text() == "new"


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    eh.export(WHOLE, pipe, "csv")
    reader.join()
    assert len(got[0].splitlines()) == WHOLE.found + 1
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_names_of_any_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 120 + ".csv")
    eh.export(WHOLE, path)
    assert names(tmp_path) == [path.name]


def test_temporary_names_are_recognised() -> None:
    assert leftover(".a.b.0123456789abcdef.tmp") == "a.b"
    for name in ("run.tmp", ".run.json.tmp", "run.json", ".x.0123456789abcde.tmp", "a.0123456789abcdef.tmp"):
        assert leftover(name) is None


# Interrupts


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def swallowed() -> None:
    """Press Ctrl-C where the exception is ignored."""

    class Going:
        def __del__(self) -> None:
            press()

    Going()


def deaf() -> None:
    with suppress(BaseException):
        press()


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("way", [press, swallowed, deaf])
@pytest.mark.parametrize("at", [0, 4])
def test_ctrl_c_ends_an_audit_even_if_it_is_swallowed(tmp_path: Path, way: Callable[[], None], at: int) -> None:
    run = audit(acting(at, way, tmp_path / "run"), tmp_path / "run")
    assert run.stop.value == "interrupted"
    assert 0 < run.tests < WHOLE.tests
    # They have not been asked again.
    assert run.findings.drop(columns="confirmed").equals(WHOLE.findings[: run.found].drop(columns="confirmed"))
    again = audit(directory=tmp_path / "run")
    assert again.findings.equals(WHOLE.findings)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("way", [swallowed, deaf])
def test_ctrl_c_in_the_last_call_or_in_a_callback_counts(way: Callable[[], None]) -> None:
    calls: list[int] = []
    audit(acting(-1, lambda: None), progress=lambda _: calls.append(1))
    marks = iter(range(10**6))
    run = audit(progress=lambda _: way() if next(marks) == len(calls) - 1 else None)
    assert run.stop.value == "interrupted"


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("way", [press, swallowed, deaf])
def test_ctrl_c_ends_an_estimate_even_if_it_is_swallowed(way: Callable[[], None]) -> None:
    found = in_blocks(64, acting(100, way), SPACE, eh.populations.Uniform(exact=False), samples=9000)
    assert found.stop == "interrupted"
    assert 0 < found.samples < 9000


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("way", [press, swallowed, deaf])
def test_ctrl_c_ends_a_repair_even_if_it_is_swallowed(way: Callable[[], None]) -> None:
    from sklearn.base import BaseEstimator, ClassifierMixin

    calls = iter(range(10**6))

    class Refusing(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            self.classes_ = np.array([False, True])
            return self

        def predict(self, X: Any) -> Any:
            if next(calls) == 30:
                way()
            return refuse(X).to_numpy()

    X = SPACE.frame(SPACE.sampler.draw(Stream(0), 0, 300)[0].rows)
    with pytest.raises(KeyboardInterrupt):
        eh.repair(Refusing(), X, refuse(X).to_numpy(), SPACE, "retrain", options=eh.repairs.RepairOptions(samples=500))


@pytest.mark.usefixtures("ctrl_c")
def test_interrupts_keep_findings_with_their_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evenhand.spaces.findings import Findings

    add, calls = Findings.add, iter(range(10**6))

    def interrupted(self: Findings, *arguments: Any) -> None:
        add(self, *arguments)
        if next(calls) == 3:
            press()

    monkeypatch.setattr(Findings, "add", interrupted)
    run = audit(directory=tmp_path / "run")
    assert run.stop.value == "interrupted"
    monkeypatch.undo()
    assert eh.Run.load(tmp_path / "run").found == run.found
    assert audit(directory=tmp_path / "run").findings.equals(WHOLE.findings)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_that_is_raised_later_is_not_called_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    hook = sys.unraisablehook
    sys.unraisablehook = sys.__unraisablehook__
    try:
        audit(acting(4, swallowed))
        assert capsys.readouterr().err == ""
        assert sys.unraisablehook is sys.__unraisablehook__
    finally:
        sys.unraisablehook = hook


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_works_as_usual() -> None:
    with watched():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                press()
        with pytest.raises(KeyboardInterrupt):
            check()
        mark_handled()


@pytest.mark.usefixtures("ctrl_c")
def test_handled_interrupts_are_not_raised_again() -> None:
    with watched():
        deaf()
        mark_handled()
        check()
        with pytest.raises(KeyboardInterrupt), held:
            press()
        mark_handled()


def test_handlers_of_others_are_theirs() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        assert audit(acting(4, press)).stop.value == "tests"
        assert heard == [1]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert audit(acting(4, press)).stop.value == "tests"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_audit_in_another_thread_changes_no_handler() -> None:
    runs: list[eh.Run] = []
    thread = threading.Thread(target=lambda: runs.append(audit()))
    thread.start()
    thread.join()
    assert runs[0].findings.equals(WHOLE.findings)


# Models that raise what ends more than a call


@pytest.mark.parametrize("fault", [GeneratorExit, SystemExit, BaseException, StopIteration, BaseExceptionGroup])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_whatever_a_model_raises_is_an_error_in_words(tmp_path: Path, fault: Any, timeout: float | None) -> None:
    error = fault("two", [KeyError(1)]) if fault is BaseExceptionGroup else fault("out")

    def act() -> None:
        raise error

    with pytest.raises(ModelError, match=f"raised (Runtime|{type(error).__name__})") as caught:
        audit(eh.wrap(acting(10, act, tmp_path / "run"), timeout=timeout), tmp_path / "run")
    assert caught.value.partial.tests > 0
    assert audit(directory=tmp_path / "run").findings.equals(WHOLE.findings)


def test_a_gradient_that_raises_stop_iteration_is_a_model_error() -> None:
    class Leaving(eh.Model):
        name, input, gradient_source = "leaving", "array", "own"

        def labels(self, X: Any) -> Any:
            raise NotImplementedError

        def gradients(self, X: Any, classes: Any) -> Any:
            raise GeneratorExit

    with pytest.raises(ModelError, match="GeneratorExit"):
        ModelClient(Leaving()).gradients(np.zeros((2, 3)), np.zeros(2, dtype=np.int64))
