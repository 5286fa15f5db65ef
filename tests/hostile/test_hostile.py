"""Hostile files are refused in little time and memory, with a reason, and none of them runs code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from evenhand._files import LIMITS
from tests.helpers import optional
from tests.hostile.generator import CANARY, HOSTILE, NAMES, Hostile, harmless
from tests.hostile.opener import BYTES, OPENED, REFUSED, SECONDS, open_all

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux does")


def test_a_hostile_file_of_each_kind_is_refused_within_limits(tmp_path: Path) -> None:
    # Models of scikit-learn and folders of transformers take long.
    check(
        tmp_path,
        {kind: [one for one in HOSTILE if one.kind == kind][:1] for kind in NAMES if kind not in ("skops", "folder")},
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMES)
def test_all_hostile_files_are_refused_within_limits(tmp_path: Path, kind: str) -> None:
    check(tmp_path, {kind: [one for one in HOSTILE if one.kind == kind]})


def check(folder: Path, hostile: dict[str, list[Hostile]]) -> None:
    """Open the files and a harmless one of each kind."""
    for package in sorted({name for some in hostile.values() for one in some for name in one.needs}):
        optional(package)
    paths = {
        kind: [
            harmless(kind, folder / kind / "harmless"),
            *(one.write(folder / kind / str(number)) for number, one in enumerate(some)),
        ]
        for kind, some in hostile.items()
    }
    for kind, (plain, *answers) in open_all(paths).items():
        # Without trust no pickle is opened, however harmless.
        assert plain["ended"] == (REFUSED if kind == "pickle" else OPENED), plain["told"]
        for one, answer in zip(hostile[kind], answers, strict=True):
            assert answer["ended"] == REFUSED, f"{one.title}: {answer['ended']}, {answer['told']}"
            assert re.search(one.says, answer["told"]), f"{one.title}: {answer['told']}"
            assert answer["bytes"] - plain["bytes"] <= BYTES, f"{one.title}: {answer}"
            assert answer["seconds"] - plain["seconds"] <= SECONDS, f"{one.title}: {answer}"
    assert not list(folder.rglob(CANARY))


def test_there_are_a_hundred_hostile_files_of_every_kind() -> None:
    assert len(HOSTILE) >= 100
    assert {one.kind for one in HOSTILE} == set(NAMES)
    assert len({one.title for one in HOSTILE}) == len(HOSTILE)


def test_refusals_name_limits_that_there_are() -> None:
    named = {part for one in HOSTILE for part in one.says.split("|") if "_" in part and part != "auto_map"}
    assert {name for name in named if not any(limit.startswith(name) for limit in LIMITS)} == set()
