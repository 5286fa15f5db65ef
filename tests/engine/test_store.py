"""The log of answers and the identity of a run are stored and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.criteria import Both, Criterion, Either, Judgement, Outputs, UnknownCriterion, from_dict
from evenhand.engine.store import _HEAD, Frame, Log, RunIdentity, _checksum, digest_of, frames, pack
from evenhand.errors import EvenhandError, RunError


def frame(i: int) -> Frame:
    return Frame("test", {"digest": str(i), "rows": i}, {"a": np.arange(i), "b": np.array([[i]], dtype=np.int8)})


def write(path: Path, count: int) -> None:
    log = Log(path)
    for i in range(count):
        log.append(frame(i), seconds=float(i))
    log.close()


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "answers.log"
    write(path, 5)
    read = [f for f, _ in frames(path)]
    assert [f.header for f in read] == [{"digest": str(i), "rows": i} for i in range(5)]
    assert all((f.arrays["a"] == np.arange(i)).all() and f.arrays["b"].dtype == np.int8 for i, f in enumerate(read))
    assert Log(path).times.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_every_truncation_drops_only_truncated_frames(tmp_path: Path) -> None:
    path = tmp_path / "answers.log"
    write(path, 4)
    data = path.read_bytes()
    ends = np.cumsum([len(pack(frame(i))) for i in range(4)])
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        log = Log(path)
        whole = int((ends <= cut).sum())
        for i in range(whole):
            assert log.take("test", str(i)) is not None
        assert log.upcoming is None
        log.append(frame(whole), 0.0)
        log.close()
        assert path.read_bytes() == data[: ends[whole]]


@pytest.mark.parametrize("bit", [1, 0x80])
def test_every_changed_byte_is_noticed(tmp_path: Path, bit: int) -> None:
    path = tmp_path / "answers.log"
    write(path, 4)
    data = path.read_bytes()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
        if changed[-1] == 0:
            # What a power cut leaves, which is another test.
            continue
        path.write_bytes(changed)
        with pytest.raises(RunError, match="damaged"):
            list(frames(path))


@pytest.mark.parametrize("more", [0, 1, 5000])
def test_trailing_zeros_drop_only_their_frames(tmp_path: Path, more: int) -> None:
    # After a power cut a file may have its length, and zeros for what was not yet written.
    path = tmp_path / "answers.log"
    write(path, 4)
    data = path.read_bytes()
    ends = np.cumsum([len(pack(frame(i))) for i in range(4)])
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes(len(data) - at + more))
        whole = int((ends <= at).sum())
        assert [f.header["rows"] for f, _ in frames(path)] == list(range(whole)), at
        log = Log(path)
        for i in range(whole):
            assert log.take("test", str(i)) is not None
        log.append(frame(whole), 0.0)
        log.close()
        assert path.read_bytes() == data[: ends[whole]]


def test_zeros_before_good_frames_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "answers.log"
    write(path, 3)
    data = path.read_bytes()
    first = len(pack(frame(0)))
    for at in range(first):
        path.write_bytes(data[:at] + bytes(first - at) + data[first:])
        with pytest.raises(RunError, match="damaged"):
            list(frames(path))


@pytest.mark.parametrize(
    "tail", [b"x", b"EVx", b"EV\0\0x", b"xyz" + bytes(40), b"\0EVH1", b"garbage" * 4, b"garbage" * 9]
)
def test_a_tail_that_no_frame_begins_with_is_damage(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "answers.log"
    write(path, 3)
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(RunError, match="damaged at byte"):
        list(frames(path))


def test_a_log_without_closing_bytes_is_read(tmp_path: Path) -> None:
    # As earlier versions wrote it: a frame ended with its last array.
    packed = pack(frame(3))
    magic, header_length, body_length, _ = _HEAD.unpack(packed[: _HEAD.size])
    header = packed[_HEAD.size : _HEAD.size + header_length]
    body = packed[_HEAD.size + header_length : -1]
    old = _HEAD.pack(magic, header_length, body_length - 1, _checksum(header, body)) + header + body
    path = tmp_path / "answers.log"
    path.write_bytes(old + packed)
    assert [f.header["rows"] for f, _ in frames(path)] == [3, 3]
    for cut in range(len(old)):
        path.write_bytes(packed + old[:cut])
        assert len(list(frames(path))) == 1


def test_other_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.log"
    write(path, 2)
    with pytest.raises(RunError, match="queries of a different search"):
        Log(path).take("test", "7")


def test_objects_are_never_stored() -> None:
    with pytest.raises(TypeError, match="objects"):
        pack(Frame("test", {}, {"a": np.array([{}], dtype=object)}))


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.log"
    write(path, 2)
    monkeypatch.setattr("evenhand.engine.store._open_at", lambda *_: Path("/dev/full").open("wb", buffering=0))
    log = Log(path)
    with pytest.raises(RunError, match="No space left.*run again to continue"):
        log.append(frame(2), 0.0)
    log.close()
    assert len(list(frames(path))) == 2


def test_digests_tell_blocks_apart() -> None:
    assert digest_of(np.arange(5)) != digest_of(np.arange(1, 6))


SPACE = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
CRITERIA = [
    eh.Flip(),
    eh.Gap(0.2),
    eh.Gap(3),
    Both(eh.Flip(), eh.Gap(0.2)),
    Either(Both(eh.Gap(1.5), eh.Flip()), eh.Flip()),
]


def rule(frame: Any) -> Any:
    return (frame["age"] > 4) & (frame["sex"] == "F")


def as_format_1(directory: Path) -> None:
    """Rewrite an identity as format 1 had it, with the criterion as text."""
    file = directory / "identity.json"
    stored = json.loads(file.read_text())
    criterion = from_dict(stored["criterion"])
    file.write_text(json.dumps(stored | {"format": 1, "criterion": repr(criterion)}))


@pytest.mark.parametrize("criterion", CRITERIA, ids=repr)
def test_criteria_are_read_back(criterion: Criterion) -> None:
    assert from_dict(json.loads(json.dumps(criterion.to_dict()))) == criterion


@pytest.mark.parametrize("stored", [{}, {"kind": "Gap"}, {"kind": "Gap", "gamma": "x"}, {"kind": "Flip", "gamma": 1}])
def test_wrong_criteria_are_refused(stored: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, EvenhandError)):
        from_dict(stored)


class Mine(Criterion):
    """A criterion of a user."""

    def judge(self, outputs: Outputs) -> Judgement:
        return eh.Flip().judge(outputs)


def test_a_run_with_a_criterion_of_a_user_is_read_but_not_replayed(tmp_path: Path) -> None:
    run = eh.audit(rule, SPACE, "themis", criterion=Mine(), directory=tmp_path)
    loaded = eh.Run.load(tmp_path)
    assert loaded.found == run.found == 5
    assert isinstance(loaded.identity.criterion, UnknownCriterion)
    assert loaded.identity.to_dict() == run.identity.to_dict() | {"criterion": loaded.identity.criterion.to_dict()}
    with pytest.raises(RunError, match="'Mine'"):
        eh.replay(tmp_path, rule)


@pytest.mark.parametrize("criterion", [eh.Flip(), eh.Flip() | eh.Gap(0.2)], ids=repr)
def test_a_directory_in_format_1_is_loaded_continued_and_replayed(tmp_path: Path, criterion: Criterion) -> None:
    def scores(frame: Any) -> Any:
        return rule(frame) * 0.8 + 0.1

    model = eh.wrap(scores, threshold=0.5)
    arguments: dict[str, Any] = {"strategy": "themis", "criterion": criterion, "directory": tmp_path}
    eh.audit(model, SPACE, budget=eh.Budget(tests=4), **arguments)
    as_format_1(tmp_path)
    assert eh.Run.load(tmp_path).identity.criterion == criterion
    more = eh.audit(model, SPACE, budget=eh.Budget(tests=9), **arguments)
    assert more.tests == 9
    assert eh.replay(tmp_path, model).holds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Flip",
        "Flip(",
        "open('x')",
        "Gap(gamma=open('x'))",
        "Gap(**{'gamma': 1})",
        "Gap()",
        "Flip(3)",
        "eh.Flip()",
        "Flip() and Flip()",
        "(" * 5000,
    ],
)
def test_other_texts_are_unknown_criteria(text: str) -> None:
    identity = eh.audit(rule, SPACE, "themis").identity
    read = RunIdentity.from_dict(identity.to_dict() | {"criterion": text})
    assert isinstance(read.criterion, UnknownCriterion)


def test_an_identity_is_read_back() -> None:
    identity = eh.audit(eh.wrap(lambda f: f["age"] / 9, threshold=0.5), SPACE, "kosei", criterion=eh.Gap(0.1)).identity
    assert RunIdentity.from_dict(json.loads(json.dumps(identity.to_dict()))) == identity


def test_an_identity_without_a_part_is_refused() -> None:
    stored = eh.audit(rule, SPACE, "themis").identity.to_dict()
    del stored["seed"]
    with pytest.raises(RunError, match="'seed' is missing"):
        RunIdentity.from_dict(stored)
