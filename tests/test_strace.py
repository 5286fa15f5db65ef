"""The system calls of the command: no network access, and no files except the named ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import MODELS, PEOPLE
from tests.helpers import source_environment

CALLS = "%network,open,openat,openat2,creat,truncate,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
CALLS += ",unlink,unlinkat,mkdir,mkdirat,mknod,mknodat,chmod,fchmodat,rmdir"
SEMAPHORE = "/dev/shm/sem."
"""joblib looks, when it is imported, whether there are semaphores: memory with a name, for a moment."""
needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None and not os.environ.get("EVENHAND_REQUIRE_ALL"), reason="there is no strace here"
)


def traced(folder: Path, *arguments: str) -> list[str]:
    trace = folder.parent / "trace"
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-e", "signal=none", "-e", f"trace={CALLS}"]
    strace += ["-o", str(trace)]
    environment = source_environment(TMPDIR=str(folder / "tmp"), PYTHONDONTWRITEBYTECODE="1", HOME=str(folder / "home"))
    done = subprocess.run(
        [*strace, sys.executable, "-m", "evenhand", *arguments, "--quiet"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return trace.read_text().splitlines()


def written(folder: Path, calls: list[str]) -> set[str]:
    """Every path that a call was to change, from the root."""
    paths = set()
    for call in calls:
        name = re.search(r"^\d+\s+(\w+)\(", call)
        if name is None or (name[1].startswith("open") and not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", call)):
            continue
        within = re.search(r"\((?:AT_FDCWD|\d+)<([^>]*)>", call)
        for path in re.findall(r'"((?:[^"\\]|\\.)*)"', call):
            paths.add(os.path.normpath(Path(within[1] if within else folder, path)))
    return paths


def inside(path: str, folder: Path) -> bool:
    """Say whether a path is one of those that the commands named, or below one."""
    return any(Path(path).is_relative_to(folder / part) for part in ("run", "out", "tmp"))


def test_only_whole_names_count_as_inside(tmp_path: Path) -> None:
    assert inside(f"{tmp_path}/run", tmp_path)
    assert inside(f"{tmp_path}/run/answers.log", tmp_path)
    assert not inside(f"{tmp_path}/runaway", tmp_path)
    assert not inside(f"{tmp_path}/output/page.html", tmp_path)


@pytest.mark.slow
@needs_strace
def test_no_network_access_and_no_files_elsewhere(tmp_path: Path) -> None:
    folder = (tmp_path / "work").resolve()
    for name in ("tmp", "home", "out"):
        (folder / name).mkdir(parents=True)
    (folder / "people.csv").write_text(PEOPLE)
    model = ["--model", f"{MODELS}:refuse"]
    data = ["--data", "people.csv", "--target", "paid", "--protected", "sex"]
    commands = {
        "audit": [*model, *data, "--directory", "run", "--findings", "out/findings.csv", "--report", "out/page.html"],
        "bundle": ["run", "--output", "out/run.zip"],
        "report": ["run", *model, "--output", "out/report.html"],
        "replay": ["out/run.zip", *model, "--list", "out/list.csv"],
    }
    for name, arguments in commands.items():
        calls = traced(folder, name, *arguments)
        assert any("openat" in call for call in calls), "strace saw nothing"
        talking = [call for call in calls if re.search(r"\b(socket|connect|bind|sendto|sendmsg)\(", call)]
        assert talking == [], name
        elsewhere = {path for path in written(folder, calls) if not inside(path, folder)}
        assert {path for path in elsewhere if not path.startswith(SEMAPHORE)} <= {str(folder), "/dev/null"}, name
        assert not any(Path(path).exists() for path in elsewhere if path.startswith(SEMAPHORE))
    assert list((folder / "tmp").iterdir()) == []
    assert list((folder / "home").iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == ["home", "out", "people.csv", "run", "tmp"]
    names = ["findings.csv", "list.csv", "page.html", "report.html", "run.zip"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == names
