"""``evenhand probe`` finds out how to query an endpoint, and prints a working configuration."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from tests.cli.conftest import Command
from tests.models.server import Handler, score, serving
from tests.models.test_transport import serving as talking


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 60, 200), "work": rng.choice(["nurse", "smith"], 200),
         "sex": rng.choice(["f", "m"], 200), "paid": rng.choice(["low", "high"], 200)}
    )  # fmt: skip
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def probed(evenhand: Command, url: str, data: Path, *more: Any) -> tuple[str, dict[str, Any], Any]:
    """Probe; return what was printed, its values, and the run of an audit with it."""
    done = evenhand("probe", url, "--data", data, "--target", "paid", "--protected", "sex", *more)
    assert done.exit_code == 0, done.output
    config = data.with_name("evenhand.toml")
    config.write_text(done.stdout)
    audited = evenhand("audit", config, "--directory", data.with_name("run"), "--budget-tests", 200)
    assert audited.exit_code == 0, audited.output
    return done.stdout, tomllib.loads(done.stdout), eh.Run.load(data.with_name("run"))


def test_a_known_protocol(evenhand: Command, data: Path) -> None:
    with serving(null_fails=True) as server:
        said, values, run = probed(evenhand, server.url, data)
    assert values["endpoint"]["protocol"] == "instances"
    assert values["data"] == {"path": str(data), "target": "paid"}
    assert "# decisions no, yes" in said
    assert "# scores    none: " in said
    assert "# null      an error for age, work, sex" in said
    assert run.found > 0


def test_an_unknown_answer(evenhand: Command, data: Path) -> None:
    def reply(body: Any, found: list[Any]) -> Any:
        return {"model": {"version": 3}, "out": [{"verdict": one, "why": ["age"]} for one in found]}

    with serving(reply=reply) as server:
        server.RequestHandlerClass.rows = staticmethod(lambda body: body["records"])
        try:
            url = server.url.replace(":predict", "")
            _, values, run = probed(evenhand, url, data)
        finally:
            del server.RequestHandlerClass.rows
    assert values["endpoint"]["mapping"]["rows"] == "records"
    assert values["endpoint"]["mapping"]["labels"] == "out.*.verdict"
    assert run.found > 0


def test_whole_numbers_that_are_decisions_are_not_called_scores(evenhand: Command, data: Path) -> None:
    with serving(answer=lambda row: int(row["age"] > 30)) as server:
        said, _, _ = probed(evenhand, server.url, data)
    assert "# decisions 0, 1" in said
    assert "# scores    none: " in said


def test_scores_become_decisions(evenhand: Command, data: Path) -> None:
    with serving(answer=lambda row: score(row)[1]) as server:
        said, values, run = probed(evenhand, server.url, data)
    assert values["model"]["threshold"] == 0.5
    assert "a threshold" in said
    assert run.found > 0


def test_scores_of_three_classes_need_no_threshold(evenhand: Command, data: Path) -> None:
    with serving(answer=lambda row: [0.2, row["age"] / 100, 0.3 + 0.1 * (row["sex"] == "m")]) as server:
        said, values, run = probed(evenhand, server.url, data)
    assert values["model"] == {"path": server.url}
    assert "# decisions the class with the highest score" in said
    assert run.found > 0


def test_what_is_not_http_is_asked_once(evenhand: Command, data: Path) -> None:
    with talking(b"SSH-2.0-OpenSSH_9\r\n") as server:
        done = evenhand("probe", server.url, "--data", data, "--protected", "sex")
    assert done.exit_code == 2
    assert "does not answer in HTTP (SSH-2.0-OpenSSH_9) 2 times" in " ".join(done.stderr.split())


def test_a_list_is_not_a_label(evenhand: Command, data: Path) -> None:
    with serving(reply=lambda body, found: {"predictions": ["a", "b", "c"]}) as server:
        server.RequestHandlerClass.rows = staticmethod(lambda body: [])
        try:
            done = evenhand("probe", server.url, "--data", data, "--protected", "sex", "--config", row_by_row(data))
        finally:
            del server.RequestHandlerClass.rows
    assert done.exit_code == 2
    assert "answers a row with 3 values" in " ".join(done.stderr.split())


def row_by_row(data: Path) -> Path:
    config = data.with_name("row.toml")
    config.write_text('[endpoint.mapping]\nrows = ""\nform = "row"\n')
    return config


def test_texts(evenhand: Command, tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\nshe is here\na muslim friend\n")
    with serving(answer=lambda text: "toxic" if "muslim" in text else "fine") as server:
        done = evenhand("probe", server.url, "--texts", tmp_path / "texts.csv", "--protected", "religion")
    assert done.exit_code == 0, done.output
    values = tomllib.loads(done.stdout)
    assert values["text"] == {"path": str(tmp_path / "texts.csv"), "protected": ["religion"]}
    assert "# decisions fine, toxic" in done.stdout


def test_headers_come_from_a_configuration(
    evenhand: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCORING_TOKEN", "t0k3n-5f2a91c7d4")
    (tmp_path / "own.toml").write_text("[endpoint.headers]\nAuthorization = 'Bearer ${SCORING_TOKEN}'\n")
    with serving() as server:
        said, values, _ = probed(evenhand, server.url, data, "--config", tmp_path / "own.toml")
        assert server.seen.headers[0]["Authorization"] == "Bearer t0k3n-5f2a91c7d4"
    assert values["endpoint"]["headers"] == {"Authorization": "Bearer ${SCORING_TOKEN}"}
    assert "t0k3n" not in said


def test_what_cannot_be_probed(
    evenhand: Command, refused: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(reply=lambda body, found: "no") as server:
        refused(evenhand("probe", server.url, "--data", data), "answers none of", "[endpoint.mapping]")
        refused(evenhand("probe", server.url), "no rows to ask about", "--data FILE")
        monkeypatch.setattr(Handler, "respond", lambda self, *_: self.send(401, b"who are you?"))
        refused(evenhand("probe", server.url, "--data", data), "401", "credentials")
    refused(evenhand("probe", server.url, "--data", data), "cannot be reached")
    refused(evenhand("probe", "model.onnx", "--data", data), "http")
