"""Real servers, each in an environment of its own, are audited with the findings of the same model in process.

``make check-all`` makes the environments, and names their folder in EVENHAND_PEERS; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urljoin
from urllib.request import urlopen

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli.app import app
from evenhand.errors import ModelError
from evenhand.models.files import load_model
from tests.models import people as made
from tests.models.test_formats import catboost_file, lightgbm_file, xgboost_file

HERE = Path(__file__).parent
PLACE = Path(os.environ.get("EVENHAND_PEERS", ""))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("peers")]


def python_of(name: str) -> Path:
    if not os.environ.get("EVENHAND_PEERS"):
        pytest.skip("EVENHAND_PEERS is not set: make check-all")
    return PLACE / name / "bin/python"


@cache
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 1500
    frame = pd.DataFrame(
        {"age": rng.integers(18, 70, n), "work": rng.choice(["nurse", "smith", "clerk"], n),
         "sex": rng.choice(["f", "m"], n), "income": rng.random(n).round(2)}
    )  # fmt: skip
    frame.loc[::9, "income"] = np.nan
    return frame


@cache
def credit() -> Any:
    frame = people()
    points = (
        frame["age"] + 9 * (frame["sex"] == "m") + 5 * (frame["work"] == "smith") + 10 * frame["income"].fillna(0.5)
    )
    encode = make_column_transformer((OneHotEncoder(sparse_output=False), ["work", "sex"]), remainder="passthrough")
    return make_pipeline(encode, HistGradientBoostingClassifier(max_iter=20)).fit(
        frame, np.where(points > 50, "yes", "no")
    )


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def mlserver(folder: Path, port: int) -> list[str]:
    parameters = {"uri": str(folder / "credit.joblib")}
    settings = {"name": "credit", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(settings))
    grpc, metrics = free_ports(2)
    ports = {"http_port": port, "grpc_port": grpc, "metrics_port": metrics}
    (folder / "settings.json").write_text(json.dumps({"host": "127.0.0.1", "parallel_workers": 0, **ports}))
    return ["-c", "from mlserver.cli import main; main()", "start", str(folder)]


def write_mlflow(folder: Path) -> None:
    command = [python_of("mlflow"), HERE / "mlflow_models.py", folder]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment("mlflow"))
    assert done.returncode == 0, done.stderr[-3000:]


def mlflow(folder: Path, port: int) -> list[str]:
    write_mlflow(folder)
    where = ["-m", str(folder / "mlflow-credit"), "--env-manager", "local", "-p", str(port)]
    return ["-m", "mlflow", "models", "serve", *where]


def litserve(folder: Path, port: int) -> list[str]:
    return [str(HERE / "litserve_api.py"), str(folder / "credit.joblib"), str(port)]


def environment(name: str) -> dict[str, str]:
    """The environment's own programs first: MLflow starts some; nothing of this process's Python."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": f"{PLACE / name / 'bin'}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


SERVERS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "mlserver": (mlserver, "/v2/models/credit", {}),
    "mlflow": (mlflow, "/invocations", {}),
    "litserve": (litserve, "/predict", {"protocol": {"rows": "people", "labels": "answers.*.decision"}}),
}


@pytest.fixture(scope="module", params=sorted(SERVERS))
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[eh.Endpoint]:
    start, path, options = SERVERS[request.param]
    python, folder = python_of(request.param), tmp_path_factory.mktemp(request.param)
    joblib.dump(credit(), folder / "credit.joblib")
    (port,) = free_ports(1)
    command = [str(python), *start(folder, port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env=environment(request.param), start_new_session=True
        )
    model = eh.Endpoint(f"http://127.0.0.1:{port}{path}", name=request.param, in_flight=2, **options)
    try:
        wait_for(model.url, process, folder / "log")
        yield model
    finally:
        # Servers have processes of their own: the group that was started here.
        os.killpg(process.pid, 9)
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            # Anything but 503: the server is there, and says what it thinks of such a request.
            with urlopen(url, timeout=5):
                return
        except HTTPError as error:
            if error.code != 503:
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


def space() -> eh.Space:
    return eh.Space.infer(people(), protected="sex")


def test_the_findings_are_those_of_the_model_in_process(served: eh.Endpoint, tmp_path: Path) -> None:
    within = space()
    options: dict[str, Any] = {"budget": eh.Budget(tests=600), "strategy": "themis"}
    here = eh.audit(credit(), within, directory=tmp_path / "here", **options)
    there = eh.audit(served, within, directory=tmp_path / "there", **options)
    assert here.found > 0
    assert there.findings.equals(here.findings)
    assert (tmp_path / "there/answers.log").read_bytes() == (tmp_path / "here/answers.log").read_bytes()
    assert there.findings.isna().any(axis=None)


def test_a_probe_of_the_server_gives_a_configuration_that_works(served: eh.Endpoint, tmp_path: Path) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    if served.name == "litserve":
        # What its authors made of requests is their own.
        (tmp_path / "own.toml").write_text('[endpoint.mapping]\nrows = "people"\n')
        arguments = [served.url, "--config", str(tmp_path / "own.toml")]
    else:
        # The root of the server: what is there is found.
        arguments = [urljoin(served.url, "/")]
    given = ["probe", *arguments, "--data", str(tmp_path / "people.csv"), "--protected", "sex"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert tomllib.loads(done.stdout)["model"]["path"] == served.url
    assert "# decisions no, yes" in done.stdout
    assert ("# scores    returned" in done.stdout) == (served.name == "mlserver")
    (tmp_path / "evenhand.toml").write_text(done.stdout)
    audited = ["audit", str(tmp_path / "evenhand.toml"), "--strategy", "themis", "--budget-tests", "100"]
    done = CliRunner().invoke(app, [*audited, "--directory", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    here = eh.audit(credit(), space(), budget=eh.Budget(tests=100), strategy="themis")
    assert eh.Run.load(tmp_path / "run").findings.equals(here.findings)


def test_missing_values_are_answered_or_named(served: eh.Endpoint) -> None:
    rows = people().head(30)
    assert rows["income"].isna().any()
    assert served.labels(rows).tolist() == credit().predict(rows).tolist()
    if served.name == "mlserver":
        # It takes null among numbers, but not among texts: it answers 500, or breaks the connection.
        lacking = rows.assign(work=[None if n % 7 == 3 else "clerk" for n in range(30)])
        with pytest.raises(ModelError, match=r"missing values in work, income, but answers others"):
            eh.Endpoint(served.url, retries=1).labels(lacking)


def test_labels_are_not_taken_for_scores(served: eh.Endpoint) -> None:
    options: dict[str, Any] = {"budget": eh.Budget(tests=300), "criterion": eh.Gap(0.1), "strategy": "themis"}
    if served.name != "mlserver":
        with pytest.raises(ModelError, match="was asked for scores but answers with labels"):
            eh.audit(served, space(), **options)
        return
    here = eh.audit(credit(), space(), **options)
    there = eh.audit(served, space(), **options)
    assert here.found > 0
    assert there.findings.equals(here.findings)


def test_folders_that_mlflow_writes(tmp_path: Path) -> None:
    for name, write in (("x.ubj", xgboost_file), ("l.txt", lightgbm_file), ("c.cbm", catboost_file)):
        write(tmp_path / name)
    joblib.dump(credit(), tmp_path / "s.joblib")
    write_mlflow(tmp_path)
    data = made.people(400)
    within = eh.Space.infer(data, protected="sex")
    for name in ("x.ubj", "l.txt", "c.cbm"):
        here = eh.audit(str(tmp_path / name), within, budget=eh.Budget(tests=300), strategy="themis")
        folder = str(tmp_path / f"mlflow-{Path(name).stem}")
        there = eh.audit(folder, within, budget=eh.Budget(tests=300), strategy="themis")
        assert here.found > 0
        assert there.findings.equals(here.findings)
    expected = credit().predict(people())
    assert (load_model(tmp_path / "mlflow-s-skops").labels(people()) == expected).all()
    with pytest.raises(ModelError, match="runs code"):
        load_model(tmp_path / "mlflow-s")
    assert (load_model(tmp_path / "mlflow-s", trust_pickle=True).labels(people()) == expected).all()
