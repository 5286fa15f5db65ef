"""Children: their limits, their environment, and that none outlives its parent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenhand.service import process
from evenhand.service.process import Child, runs
from tests.helpers import source_environment

TASKS = """
import json, os, subprocess, sys, threading, time

def say(**message):
    os.write(int(sys.argv[2]), json.dumps(message).encode() + b"\\n")

task = json.loads(sys.stdin.buffer.readline())["task"]
def listen():
    for line in iter(sys.stdin.buffer.readline, b""):
        if task.get("obeys"):
            say(result="stopped")
            os._exit(0)
    os.killpg(os.getpgrp(), 9)
threading.Thread(target=listen, daemon=True).start()
if task["do"] == "environment":
    say(result=dict(os.environ), arguments=sys.argv)
elif task["do"] == "memory":
    kept = bytearray(os.urandom(1)) * (task["mb"] * 2**20)
    say(result=len(kept))
    time.sleep(600)
elif task["do"] == "sleep":
    inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    say(result=inner.pid)
    time.sleep(600)
elif task["do"] == "die":
    print("some last words", file=sys.stderr, flush=True)
    os.kill(os.getpid(), task["signal"])
"""


@pytest.fixture(autouse=True)
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "fake_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(process, "MODULE", "fake_tasks")
    return


def ended(child: Child) -> list[dict[str, Any]]:
    found = []
    while child.code is None:
        found += child.messages(0.2)
    return found


def wait_for(message: str, child: Child) -> Any:
    while child.code is None:
        for one in child.messages(0.2):
            if message in one:
                return one[message]
    pytest.fail("the child ended")


def alive(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(number: int) -> None:
    while alive(number):
        pass


def test_a_child_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENHAND_DATABASE", "postgresql://user:secret@host/x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    task = {"do": "environment", "headers": {"Authorization": "Bearer secret"}}
    with Child("one", task, tmp_path) as child:
        (said,) = ended(child)
    assert set(said["result"]) - {"LC_CTYPE"} <= {
        *("PYTHONPATH", "HOME", "TMPDIR", "LANG", "OMP_NUM_THREADS", *process._PLACES)
    }
    assert "secret" not in json.dumps(said)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_a_child_that_dies(tmp_path: Path, name: str) -> None:
    with Child("one", {"do": "die", "signal": signal.Signals[name].value}, tmp_path) as child:
        assert ended(child) == []
        assert child.code == -signal.Signals[name]
        assert child.last_words() == "some last words"
        assert child.why == ""


def test_limits_of_memory_and_time(tmp_path: Path) -> None:
    with Child("one", {"do": "memory", "mb": 300}, tmp_path, memory=200) as child:
        ended(child)
        assert child.why == "its memory limit of 200 MB"
    with Child("one", {"do": "sleep"}, tmp_path, seconds=0.2) as child:
        ended(child)
        assert child.why == "its time limit"


def test_the_whole_group_is_ended(tmp_path: Path) -> None:
    with Child("one", {"do": "sleep"}, tmp_path) as child:
        inner = wait_for("result", child)
        assert runs(child.id, "one")
        assert not runs(child.id, "another")
        assert not runs(os.getpid(), "one")
    gone(inner)
    assert not runs(child.id, "one")


def test_a_child_may_stop_by_itself(tmp_path: Path) -> None:
    with Child("one", {"do": "sleep", "obeys": True}, tmp_path) as child:
        wait_for("result", child)
        child.stop()
        assert {"result": "stopped"} in ended(child)
    with Child("one", {"do": "sleep"}, tmp_path) as child:
        wait_for("result", child)
        process.GRACE, before = 0.1, process.GRACE
        child.stop()
        process.GRACE = before
        ended(child)
        assert child.code == -signal.SIGKILL


def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from evenhand.service import process; process.MODULE = 'fake_tasks'\n"
        "child = process.Child('one', {'do': 'sleep'}, Path(sys.argv[1]))\n"
        "for message in iter(lambda: next(child.messages(60)), None): print(child.id, message['result'], flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=source_environment()
    ) as parent:
        assert parent.stdout is not None
        numbers = [int(word) for word in parent.stdout.readline().split()]
        assert len(numbers) == 2
        assert all(map(alive, numbers))
        parent.kill()
    for number in numbers:
        gone(number)
