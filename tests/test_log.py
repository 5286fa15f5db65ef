from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import RunError
from evenhand.log import Frame, Log, digest_of, frames, pack


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


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "answers.log"
    write(path, 3)
    data = path.read_bytes()
    first = len(pack(frame(0)))
    for at in range(first):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        # A changed length may point behind the end, which reads as a cut; nothing false is ever read.
        try:
            read = [f.header["rows"] for f, _ in frames(path)]
        except RunError as error:
            assert "damaged" in str(error)
        else:
            assert read == []


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
    monkeypatch.setattr("evenhand.log._open_at", lambda *_: Path("/dev/full").open("wb", buffering=0))
    log = Log(path)
    with pytest.raises(RunError, match="No space left.*run again to go on"):
        log.append(frame(2), 0.0)
    log.close()
    assert len(list(frames(path))) == 2


def test_digests_tell_blocks_apart() -> None:
    assert digest_of(np.arange(5)) != digest_of(np.arange(1, 6))
