"""Stored runs are read back as they were written, whichever version wrote them, and damage is reported."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.digests import ANSWERS, KEPT, KEPT_FILES, KEPT_TESTS, MODELS, RUNS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.budget import Budget, StopReason
from evenhand.engine.store import _HEAD, MAGIC, _checksum
from evenhand.errors import EvenhandError, RunError
from evenhand.runs.exports import to_json
from tests.helpers import slow

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] % 3 == 0) & (frame["sex"] == "F")


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("run")
    eh.audit(eh.wrap(refuse, chunk=10), SPACE, "themis", directory=directory)
    return directory, (directory / "run.json").read_text()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tests=st.integers(-1, 45), findings=st.integers(-1, 45))
def test_a_result_is_not_believed_over_the_answers(kept: tuple[Path, str], tests: int, findings: int) -> None:
    directory, result = kept
    (directory / "run.json").write_text(result)
    edit(directory, tests=tests, findings=findings)
    if (tests, findings) == (40, 13):
        assert eh.Run.load(directory).found == 13
        return
    with pytest.raises(RunError, match=r"run\.json is damaged: it has .* the log has 13 in 40; restore it"):
        eh.Run.load(directory)


def test_a_run_knows_when_it_began_and_what_its_author_says(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    run = eh.audit(refuse, SPACE, "themis", eh.Budget(tests=10), directory=tmp_path / "r")
    started = datetime.fromisoformat(str(run.about.started))
    assert before <= started <= datetime.now(UTC)
    run.annotate(auditor="Änne <b>", purpose="review").annotate(data_description="all", purpose=None)
    (tmp_path / "r" / "about.json").write_text(
        (tmp_path / "r" / "about.json").read_text().replace(str(run.about.started), "2026-01-02T03:04:05+00:00")
    )
    again = eh.Run.load(tmp_path / "r").about
    assert again.to_dict() == {
        "started": "2026-01-02T03:04:05+00:00", "auditor": "Änne <b>", "purpose": "review", "data_description": "all",
    }  # fmt: skip
    # A run that goes on began when it began, and exports of the same run are the same on any day.
    larger = eh.audit(refuse, SPACE, "themis", eh.Budget(tests=20), directory=tmp_path / "r")
    assert larger.about == again
    assert 'timestamp="2026-01-02T03:04:05"' in eh.export(larger, tmp_path / "x.xml").read_text()
    assert json.loads(to_json(larger))["about"] == again.to_dict()


def test_runs_of_earlier_versions_do_not_say_when_they_began(tmp_path: Path) -> None:
    eh.audit(refuse, SPACE, "themis", directory=tmp_path / "r")
    (tmp_path / "r" / "about.json").unlink()
    assert eh.Run.load(tmp_path / "r").about.to_dict() == {}
    assert eh.audit(refuse, SPACE, "themis", directory=tmp_path / "r").about.to_dict() == {}
    for damaged in ('{"started": 5}', "[]", "{"):
        (tmp_path / "r" / "about.json").write_text(damaged)
        with pytest.raises(RunError, match=r"about\.json"):
            eh.Run.load(tmp_path / "r")
    with pytest.raises(RunError, match="auditor must be text, got 5"):
        eh.audit(refuse, SPACE, "themis").annotate(auditor=5)  # type: ignore[arg-type]


def test_without_the_result_the_answers_are_read(kept: tuple[Path, str], tmp_path: Path) -> None:
    directory, _ = kept
    edit(directory, findings=5)
    with pytest.raises(RunError, match="damaged"):
        eh.export(eh.Run.load(directory), tmp_path / "x.md")
    (directory / "run.json").unlink()
    run = eh.Run.load(directory)
    assert (run.tests, run.found) == (40, 13)


@pytest.mark.parametrize("chunk", [4, *slow([100])])
@pytest.mark.parametrize("limit", ["tests", "rows", "findings"])
def test_a_result_may_count_fewer_answers_than_there_are(tmp_path: Path, limit: str, chunk: int) -> None:
    """A budget may end a run inside a block: only the first tests of the log count, and what they found."""
    fewer = False
    for most in range(2, 14):
        directory = tmp_path / str(most)
        run = eh.audit(eh.wrap(refuse, chunk=chunk), SPACE, "themis", Budget(**{limit: most}), directory=directory)
        back = eh.Run.load(directory)
        assert (back.tests, back.found, back.stop) == (run.tests, run.found, run.stop)
        assert back.stop is not StopReason.EXHAUSTED
        pd.testing.assert_frame_equal(back.findings, run.findings)
        (directory / "run.json").unlink()
        if eh.Run.load(directory).tests > run.tests:
            fewer = True
            (directory / "run.json").write_text(json.dumps({**run.to_dict(), "stop": "exhausted"}))
            with pytest.raises(RunError, match="damaged"):
                eh.Run.load(directory)
    assert fewer == (limit == "findings")


# Files of somebody else


WRONG: list[Any] = [
    None,
    [],
    {},
    -1,
    0,
    2,
    10**30,
    1e308,
    "x",
    "",
    True,
    [[]],
    [1],
    {"a": 1},
    3.5,
    float("nan"),
    "9" * 400,
]
WRONG += [[None] * 3, ["x"], "<f8", "O", "V4", "S0", "<i1", "<u8", [2**40, 2**40], [-1], {"kind": "Both"}, 10**400]
EACH = 120


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*place, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 4)):
            yield from places(value[i], (*place, i))


def changed(value: Any, draw: random.Random) -> Any:
    """Put something wrong in a drawn place of plain values, or take away what is there."""
    place = draw.choice(list(places(value)))
    wrong = draw.choice(WRONG)
    if not place:
        return wrong
    value = copy.deepcopy(value)
    *path, last = place
    inner = value
    for step in path:
        inner = inner[step]
    if draw.random() < 0.1:
        del inner[last]
    else:
        inner[last] = wrong
    return value


def read_all(directory: Path) -> None:
    run = eh.Run.load(directory)
    repr(run)
    run.findings.to_csv()
    run.to_dict()
    repr(run.curve)
    assert run.found >= 0


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param(file, name, marks=[pytest.mark.slow] if (file, name) == ("run.json", "kosei") else [])
        for file in ("identity.json", "run.json")
        for name in sorted(KEPT)
    ],
)
def test_changed_files_are_refused_or_harmless(name: str, file: str, tmp_path: Path) -> None:
    directory, draw = Path(shutil.copytree(RUNS / name, tmp_path / "run")), random.Random(3)
    stored, refused = json.loads((directory / file).read_text()), 0
    for i in range(EACH):
        (directory / file).write_text(json.dumps(changed(stored, draw)))
        try:
            read_all(directory)
            if i % 8 == 0:
                KEPT[name](Path(shutil.copytree(directory, tmp_path / f"copy{i}")), KEPT_TESTS[name])
        except EvenhandError:
            refused += 1
    assert refused > EACH // 3


def frames_of(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    data, out, at = path.read_bytes(), [], 0
    while at < len(data):
        _, header, body, _ = _HEAD.unpack(data[at : at + _HEAD.size])
        start = at + _HEAD.size
        at = start + header + body
        out.append((json.loads(data[start : start + header]), data[start + header : at]))
    return out


def framed(header: Any, body: bytes) -> bytes:
    head = json.dumps(header, sort_keys=True).encode()
    return _HEAD.pack(MAGIC, len(head), len(body), _checksum(head, body)) + head + body


@pytest.mark.parametrize("name", sorted(KEPT))
def test_stored_answers_with_wrong_contents_are_refused(name: str, tmp_path: Path) -> None:
    directory, draw = Path(shutil.copytree(RUNS / name, tmp_path / "run")), random.Random(4)
    log = directory / "answers.log"
    whole, stored, refused = log.read_bytes(), frames_of(log), 0
    for i in range(EACH):
        which = draw.randrange(len(stored)) if i % 2 else draw.randrange(min(3, len(stored)))
        header, body = stored[which]
        if draw.random() < 0.7:
            header = changed(header, draw)
        else:
            at = draw.randrange(len(body))
            body = body[:at] + bytes([draw.randrange(256)]) + body[at + 1 :]
        log.write_bytes(b"".join(framed(*frame) for frame in [*stored[:which], (header, body), *stored[which + 1 :]]))
        try:
            read_all(directory)
        except EvenhandError:
            refused += 1
        if i % 4 == 0:
            with suppress(EvenhandError):
                KEPT[name](Path(shutil.copytree(directory, tmp_path / f"copy{i}")), KEPT_TESTS[name] + 20)
    log.write_bytes(whole)
    read_all(directory)
    assert refused > EACH // 3


def test_a_run_read_back_tells_the_same(tmp_path: Path) -> None:
    data = pd.DataFrame({"hours": np.arange(30), "age": [20, 30, 40] * 10, "sex": ["F", "M", "F"] * 10})
    space = eh.Space.infer(data, protected="sex")
    model = eh.wrap(lambda frame: frame["age"] / 100 + 0.1 * (frame["sex"] == "F"), threshold=0.3)
    run = eh.audit(model, space, eh.Adf(gradient="scores"), eh.Budget(tests=50), 3, None, data, tmp_path / "run")
    back = eh.Run.load(tmp_path / "run")
    assert to_json(back) == to_json(run)
    page = eh.report(run, tmp_path / "a.html", data=data).read_text("utf-8")
    assert eh.report(back, tmp_path / "b.html", model=model, data=data).read_text("utf-8") == page
    assert "eh.audit(eh.wrap(model, threshold=0.3), space, eh.Adf(" in page
    assert "--model MODEL --threshold 0.3</pre>" in page


MORE = 450


@pytest.fixture(params=sorted(KEPT))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def copied(name: str, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(RUNS / name, tmp_path / "old"))


def test_an_old_run_is_read(name: str, tmp_path: Path) -> None:
    old, now = eh.Run.load(RUNS / name), KEPT[name](tmp_path / "now", KEPT_TESTS[name])
    assert old.tests == KEPT_TESTS[name]
    assert old.stop is eh.StopReason.TESTS
    assert old.found > 50
    assert old.confirmed == old.found
    assert old.findings.equals(now.findings)
    assert (RUNS / name / ANSWERS).read_bytes() == (tmp_path / "now" / ANSWERS).read_bytes()


def test_an_old_run_is_resumed(name: str, copied: Path, tmp_path: Path) -> None:
    resumed, fresh = KEPT[name](copied, MORE), KEPT[name](tmp_path / "fresh", MORE)
    assert resumed.tests == fresh.tests == MORE
    assert resumed.counts["rows_from_log"] > 0
    assert resumed.findings.equals(fresh.findings)
    assert resumed.findings.head(eh.Run.load(RUNS / name).found).equals(eh.Run.load(RUNS / name).findings)
    assert (copied / ANSWERS).read_bytes() == (tmp_path / "fresh" / ANSWERS).read_bytes()


def test_an_old_run_is_replayed(name: str) -> None:
    again = eh.replay(RUNS / name, MODELS[name])
    assert again.holds
    # Which texts were asked first is known from the data alone.
    assert again.same_model is (None if name.startswith("text") else True)
    assert again.confirmed == eh.Run.load(RUNS / name).found


def test_kept_runs_are_small_and_name_no_machine() -> None:
    files = [file for file in RUNS.rglob("*") if file.is_file()]
    assert {file.name for file in files} <= set(KEPT_FILES)
    assert sum(file.stat().st_size for file in files) < 60_000
    for file in files:
        if file.suffix == ".json":
            assert not {"/home", "/work", "/tmp"} & set(json.dumps(json.loads(file.read_text())).split('"'))
