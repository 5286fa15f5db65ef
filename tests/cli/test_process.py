"""Signals, pipes, full disks and start-up time, each in a separate process."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MODELS
from tests.helpers import needs_dev_full, source_environment

# A test run in the background may have been told to ignore Ctrl-C, and would hand that on.
START = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from evenhand.cli import main; main()"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", START, *map(str, arguments)]


def call(*arguments: object, **extra: Any) -> subprocess.CompletedProcess[str]:
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **extra}
    settings.setdefault("env", source_environment())
    return subprocess.run(command(*arguments), check=False, timeout=120, **settings)


@pytest.mark.slow
def test_ctrl_c_keeps_the_run_and_the_same_command_resumes(people: Path) -> None:
    run, whole = people.parent / "run", people.parent / "whole"
    arguments = ["audit", "--model", f"{MODELS}:waits", "--data", people, "--target", "paid", "--protected", "sex"]
    arguments += ["--chunk", 64]
    started = subprocess.Popen(
        command(*arguments, "--directory", run),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=source_environment(WAIT_AT="20"),
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "waiting\n"
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 130, err
    assert f"kept in {run}; the same command again continues it" in err
    assert "Traceback" not in err
    assert "it was interrupted" in out
    assert call(*arguments, "--directory", run, "--resume").returncode == 0
    assert call(*arguments, "--directory", whole).returncode == 0
    assert (run / "answers.log").read_bytes() == (whole / "answers.log").read_bytes()


@pytest.mark.slow
def test_ctrl_c_without_a_directory_keeps_nothing(people: Path) -> None:
    started = subprocess.Popen(
        command("audit", "--model", f"{MODELS}:waits", "--data", people, "--protected", "sex", "--quiet"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=source_environment(WAIT_AT="0"),
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "waiting\n"
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (130, "evenhand: interrupted\n")


def test_wrong_input_leaves_no_traceback(tmp_path: Path) -> None:
    done = call("audit", tmp_path / "gone.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"evenhand: {tmp_path}/gone.toml: no such file; 'evenhand init' writes one\n"


@needs_dev_full
def test_a_full_disk_behind_the_output() -> None:
    with Path("/dev/full").open("w") as full:
        done = call("strategies", stdout=full)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_not_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = call("strategies", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_names_that_the_terminal_cannot_write(people: Path) -> None:
    people.write_text(people.read_text().replace("nurse", "säugling"))
    arguments = ["audit", "--model", f"{MODELS}:refuse", "--data", people, "--target", "paid", "--protected", "sex"]
    ascii_only = source_environment(PYTHONIOENCODING="ascii")
    done = call(*arguments, env=ascii_only)
    assert done.returncode == 0, done.stderr
    assert call("audit", "--data", "ü.csv", "--model", "x:y", env=ascii_only).returncode == 2


def test_help_is_quick(tmp_path: Path) -> None:
    # Elsewhere than in the tree, with its compiled files, as an installed command has them.
    extra = {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    spent = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert call("--help", env=source_environment(**extra)).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # The first one compiles.
    assert min(spent[1:]) < 0.5


def disturbed(people: Path, number: signal.Signals, *arguments: object) -> tuple[int, str, Path]:
    """Send a signal to an audit that waits for its model; return exit status, what it said, and its directory."""
    run = people.parent / "run"
    fixed = ["audit", "--model", f"{MODELS}:waits", "--data", people, "--target", "paid", "--protected", "sex"]
    started = subprocess.Popen(
        command(*fixed, "--chunk", 64, "--directory", run, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=source_environment(WAIT_AT="20", TMPDIR=str(people.parent)),
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "waiting\n"
    started.send_signal(number)
    _, err = started.communicate(timeout=60)
    return started.returncode, err, run


@pytest.mark.slow
def test_sigterm_keeps_the_run_and_leaves_no_temporary_files(people: Path) -> None:
    status, err, run = disturbed(people, signal.SIGTERM, "--findings", people.parent / "findings.csv")
    assert status == 143
    assert err.startswith("evenhand: interrupted after ")
    assert err.count("\n") == 1
    assert f"kept in {run}; the same command again continues it" in err
    assert [path for path in people.parent.rglob("*") if path.suffix == ".tmp"] == []
    arguments = ["audit", "--model", f"{MODELS}:waits", "--data", people, "--target", "paid", "--protected", "sex"]
    arguments += ["--chunk", 64]
    assert call(*arguments, "--directory", run, "--resume").returncode == 0
    assert call(*arguments, "--directory", people.parent / "whole").returncode == 0
    assert (run / "answers.log").read_bytes() == (people.parent / "whole" / "answers.log").read_bytes()


EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
number, where = signal.Signals(int(sys.argv.pop(1))), sys.argv.pop(1)
where, _, in_class = where.partition(" ")
class Field:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), number)
class Presses:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            sys.meta_path.remove(self)
            type("Made", (), {"field": Field()}) if in_class else os.kill(os.getpid(), number)
sys.meta_path.insert(0, Presses())
from evenhand.cli import main
main()
"""


@pytest.mark.parametrize(
    "where",
    ["evenhand.cli.app", "evenhand.cli.app in a class", "typer", "evenhand.cli.plan", "numpy", "pandas",
     "evenhand.runs.run"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("number", "status", "told"),
    [(2, 130, "interrupted"), pytest.param(15, 143, "terminated", marks=pytest.mark.slow)],
)
def test_an_early_signal_is_one_line(people: Path, where: str, number: int, status: int, told: str) -> None:
    arguments = ["audit", "--model", f"{MODELS}:refuse", "--data", people, "--target", "paid", "--protected", "sex"]
    started = [sys.executable, "-c", EARLY, str(number), where, *map(str, arguments)]
    done = subprocess.run(started, env=source_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"evenhand: {told}\n")


@pytest.mark.slow
def test_workers_change_nothing_and_leave_no_process(people: Path, tmp_path: Path) -> None:
    arguments = ["audit", "--model", f"{MODELS}:refuse", "--data", people, "--protected", "sex", "--target", "paid"]
    root = str(Path(__file__).parent.parent.parent)
    environment = source_environment(PYTHONPATH=os.pathsep.join([root, source_environment().get("PYTHONPATH", "")]))
    plain = call(*arguments, "--directory", tmp_path / "plain", env=environment, cwd=root)
    spread = call(*arguments, "--directory", tmp_path / "run", "--workers", 2, env=environment, cwd=root)
    assert (spread.returncode, spread.stderr) == (plain.returncode, "")
    assert (tmp_path / "run" / "answers.log").read_bytes() == (tmp_path / "plain" / "answers.log").read_bytes()
    config = tmp_path / "e.toml"
    config.write_text('[run]\nworkers = 2\ndask = "tcp://127.0.0.1:1"\n')
    both = call(arguments[0], config, *arguments[1:], env=environment, cwd=root)
    assert both.returncode == 2
    assert "cannot be combined" in both.stderr
    for command, words in ((["--dask", "tcp://127.0.0.1:1"], "--dask"), (["--workers", 0], "--workers")):
        done = call(*arguments, *command, env=environment, cwd=root)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
