"""A run read back says what it said before, and nothing that its answers do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.budget import Budget, StopReason
from evenhand.errors import RunError
from evenhand.exporting.json import to_json

SPACE = eh.Space([eh.Integer("age", 1, 40), eh.Nominal("sex", ["F", "M"])], protected="sex")


def refuse(frame: Any) -> Any:
    return (frame["age"] % 3 == 0) & (frame["sex"] == "F")


def edit(directory: Path, **changes: Any) -> None:
    path = directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    directory = tmp_path_factory.mktemp("run")
    eh.audit(refuse, SPACE, "themis", directory=directory, chunk=10)
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
    with pytest.raises(RunError, match=r"run\.json is damaged: it says .* the answers have 13 in 40; restore it"):
        eh.Run.load(directory)


def test_without_the_result_the_answers_are_read(kept: tuple[Path, str], tmp_path: Path) -> None:
    directory, _ = kept
    edit(directory, findings=5)
    with pytest.raises(RunError, match="damaged"):
        eh.export(eh.Run.load(directory), tmp_path / "x.md")
    (directory / "run.json").unlink()
    run = eh.Run.load(directory)
    assert (run.tests, run.found) == (40, 13)


@pytest.mark.parametrize("chunk", [4, 100])
@pytest.mark.parametrize("limit", ["tests", "rows", "findings"])
def test_a_result_may_count_fewer_answers_than_there_are(tmp_path: Path, limit: str, chunk: int) -> None:
    """A budget may end a run inside a block: only the first tests of the log count, and what they found."""
    fewer = False
    for most in range(2, 14):
        directory = tmp_path / str(most)
        run = eh.audit(refuse, SPACE, "themis", Budget(**{limit: most}), directory=directory, chunk=chunk)
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
