from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenhand.engine.store import _HEAD, Frame, Log, _checksum, digest_of, frames, pack
from evenhand.errors import RunError


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


def test_every_cut_of_the_file_drops_only_what_was_cut(tmp_path: Path) -> None:
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
def test_zeros_up_to_the_end_drop_only_the_frames_that_have_them(tmp_path: Path, more: int) -> None:
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
    with pytest.raises(RunError, match="other questions"):
        Log(path).take("test", "7")


def test_objects_are_never_stored() -> None:
    with pytest.raises(TypeError, match="objects"):
        pack(Frame("test", {}, {"a": np.array([{}], dtype=object)}))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answers.log"
    write(path, 2)
    monkeypatch.setattr("evenhand.engine.store._open_at", lambda *_: Path("/dev/full").open("wb", buffering=0))
    log = Log(path)
    with pytest.raises(RunError, match="No space left.*run again to go on"):
        log.append(frame(2), 0.0)
    log.close()
    assert len(list(frames(path))) == 2


def test_digests_tell_blocks_apart() -> None:
    assert digest_of(np.arange(5)) != digest_of(np.arange(1, 6))
