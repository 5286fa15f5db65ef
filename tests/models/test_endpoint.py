"""Models behind HTTP, queried over real connections to a server on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import EvenhandError, FlakyModel, ModelError
from evenhand.models.endpoint import spread
from evenhand.models.protocols import batch_of, make_protocol
from evenhand.models.transport import RequestsSpent, Secrets, Transport
from tests.helpers import source_environment
from tests.models.server import decide, score, serving

SPACE = eh.Space(
    [eh.Integer("age", 18, 69), eh.Nominal("work", ["nurse", "smith", "clerk"]), eh.Nominal("sex", ["f", "m"]),
     eh.Integer("hours", 1, 40)],
    protected="sex",
)  # fmt: skip
SOON = {"retries": 0, "request_timeout": 5.0}


def in_process(frame: pd.DataFrame) -> list[str]:
    return [decide(row) for row in frame.to_dict("records")]


def credit(**settings: Any) -> eh.Model:
    return eh.wrap(in_process, name="credit", **settings)


def rows(n: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    work = rng.choice(["nurse", "smith"], n)
    return pd.DataFrame({"age": 18 + np.arange(n) % 50, "work": work, "sex": rng.choice(["f", "m"], n)})


def test_an_endpoint_gives_the_run_of_the_same_model_in_process(tmp_path: Path) -> None:
    budget = eh.Budget(tests=2000)
    here = eh.audit(credit(), SPACE, budget=budget, directory=tmp_path / "here")
    with serving() as server:
        there = eh.audit(eh.Endpoint(server.url), SPACE, budget=budget, directory=tmp_path / "there")
    assert here.found > 0
    assert there.findings.equals(here.findings)
    assert (tmp_path / "there/answers.log").read_bytes() == (tmp_path / "here/answers.log").read_bytes()
    assert there.counts["requests"] == len(server.seen.requests)
    assert not (tmp_path / "there/answers.pending").exists()


@pytest.mark.parametrize(
    ("tests", "trouble"),
    [
        (300, {"unavailable": 0.2, "cut": 0.1, "reset": 0.05, "uneven": 0.005}),
        pytest.param(400, {"unavailable": 0.2, "slow": 0.05, "cut": 0.1, "reset": 0.05, "uneven": 0.02},
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_failing_server_changes_nothing(
    tmp_path: Path, tests: int, trouble: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.models.transport._FIRST_WAIT", 0.02)
    budget = eh.Budget(tests=tests)
    eh.audit(credit(), SPACE, budget=budget, directory=tmp_path / "here")
    with serving(**trouble) as server:
        model = eh.Endpoint(server.url, retries=15, request_timeout=0.4, in_flight=4, batch_size=20)
        there = eh.audit(model, SPACE, budget=budget, directory=tmp_path / "there")
    assert model.remote.transport.repeated > 0
    assert (tmp_path / "there/answers.log").read_bytes() == (tmp_path / "here/answers.log").read_bytes()
    assert there.tests == tests
    assert there.rows == eh.Run.load(tmp_path / "here").rows


def test_requests_stay_within_their_bounds() -> None:
    with serving(delay=0.005) as server:
        eh.Endpoint(server.url, in_flight=3, batch_size=10).labels(rows(200))
    assert 1 < server.seen.most <= 3
    assert max(map(len, server.seen.requests)) <= 10


def test_a_rate_is_never_exceeded() -> None:
    rate = 40
    with serving(unavailable=0.2) as server:
        eh.Endpoint(server.url, in_flight=8, batch_size=5, rate=rate, retries=20).labels(rows(200))
    times = sorted(server.seen.times)
    within = [sum(start <= time < start + 1 for time in times) for start in times]
    assert len(times) > rate
    assert max(within) <= rate


def test_a_server_that_asks_to_wait_is_obeyed() -> None:
    with serving(unavailable=0.3, retry_after="1", seed=5) as server:
        eh.Endpoint(server.url, in_flight=1, batch_size=10, retries=9).labels(rows(20))
    gaps = np.diff(server.seen.times)
    assert gaps.max() >= 1
    with (
        serving(unavailable=1, retry_after="86400") as server,
        pytest.raises(ModelError, match="86,400 seconds"),
    ):
        eh.Endpoint(server.url).labels(rows(3))
    assert len(server.seen.times) <= 4


def test_counterparts_do_not_share_a_request() -> None:
    with serving() as server:
        eh.audit(eh.Endpoint(server.url, batch_size=10), SPACE, strategy="themis", budget=eh.Budget(tests=400))
    together = 0
    for request in server.seen.requests:
        people = {(row["age"], row["work"], row["hours"], row["sex"]) for row in request}
        together += len(people) - len({person[:3] for person in people})
    # Rows of checks are shuffled on purpose, and a few of them meet.
    assert together < 0.02 * len(server.seen.rows)


@pytest.mark.parametrize(("n", "requests"), [(2, 2), (100, 7), (16, 16), (1000, 11)])
def test_neighbours_are_spread_over_requests(n: int, requests: int) -> None:
    parts = spread(n, requests, seed=3)
    assert sorted(row for part in parts for row in part) == list(range(n))
    place = {row: at for at, part in enumerate(parts) for row in part}
    assert all(place[row] != place[row + step] for step in range(1, requests) for row in range(n - step))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_requests_are_the_same_each_time() -> None:
    def asked() -> list[Any]:
        with serving() as server:
            eh.Endpoint(server.url, in_flight=1, batch_size=10).labels(rows(100))
        return server.seen.requests

    first = asked()
    assert first == asked()
    assert [row for request in first for row in request][:100] != rows(100).to_dict("records")


@pytest.mark.parametrize(
    "edit", [lambda found: found[:-1], lambda found: [*found, "no"], lambda found: []], ids=["few", "many", "none"]
)
def test_a_wrong_number_of_answers_raises(edit: Any) -> None:
    with serving(edit=edit) as server, pytest.raises(ModelError, match=r"gives \d+ answers for \d+ rows"):
        eh.audit(eh.Endpoint(server.url, **SOON), SPACE, budget=eh.Budget(tests=200))


@pytest.mark.parametrize("start", [0, 40])
def test_answers_in_another_order_raise(start: int) -> None:
    count = iter(range(10**9))

    def edit(found: list[Any]) -> list[Any]:
        return found if next(count) < start else found[::-1]

    with serving(edit=edit) as server, pytest.raises(FlakyModel, match="not in the order of the rows") as raised:
        eh.audit(eh.Endpoint(server.url, batch_size=40, **SOON), SPACE, budget=eh.Budget(tests=20_000))
    assert raised.value.remedy
    # Requests for a single row have no order.
    assert sum(len(rows) > 1 for rows in server.seen.requests[start:]) < 60


@pytest.mark.parametrize("after", [10, 30, 150, 205])
def test_a_model_that_changes_is_noticed(tmp_path: Path, after: int) -> None:
    count = iter(range(10**9))

    def edit(found: list[Any]) -> list[Any]:
        new = next(count) >= after
        return [{"yes": "no", "no": "yes"}[one] for one in found] if new else found

    with serving(edit=edit) as server, pytest.raises(FlakyModel, match="the model behind credit changed") as raised:
        eh.audit(eh.Endpoint(server.url, batch_size=40, **SOON), SPACE, budget=eh.Budget(tests=3000))
    assert len(server.seen.requests) > after
    assert raised.value.partial.tests > 0 or after == 10


def test_an_estimate_notices_a_model_that_changes() -> None:
    with serving() as server:
        server.behaviour.edit = lambda found: found if len(server.seen.requests) < 15 else ["yes"] * len(found)
        with pytest.raises(FlakyModel, match="the model behind credit changed"):
            eh.estimate(eh.Endpoint(server.url), SPACE, samples=500)


def test_one_request_gives_labels_and_scores() -> None:
    gap = {"strategy": "themis", "criterion": eh.Gap(0.04), "budget": eh.Budget(tests=100)}
    with serving(answer=score) as server:
        there = eh.audit(eh.Endpoint(server.url), SPACE, **gap)
    assert there.rows == eh.audit(lambda frame: [score(row) for row in frame.to_dict("records")], SPACE, **gap).rows


def test_a_model_that_changes_after_the_last_test_is_noticed() -> None:
    with serving() as server:
        model = eh.Endpoint(server.url)
        model.remote.start()
        model.labels(rows(200))
        server.behaviour.answer = lambda row: "yes"
        with pytest.raises(FlakyModel, match=r"the model behind credit changed: it answers \d+ of 64 rows"):
            model.remote.finish()


def test_small_requests_are_checked_in_between() -> None:
    with serving() as server:
        model = eh.Endpoint(server.url, batch_size=1, **SOON)
        model.labels(rows(50))
        server.behaviour.answer = lambda row: "no"
        with pytest.raises(FlakyModel, match="changed"):
            [model.labels(rows(50)) for _ in range(20)]


def test_answers_by_chance_are_not_called_a_change() -> None:
    flips = iter(range(10**9))
    with serving(answer=lambda row: "yes" if next(flips) % 3 else "no") as server:
        assert len(eh.Endpoint(server.url).labels(rows(300))) == 300
        with pytest.raises(FlakyModel):
            eh.audit(eh.Endpoint(server.url), SPACE, budget=eh.Budget(tests=300))


def test_a_missing_value_that_fails_is_named() -> None:
    people = rows(60).assign(age=[None if n % 7 == 3 else n + 18 for n in range(60)])
    with (
        serving(null_fails=True, answer=lambda row: "yes") as server,
        pytest.raises(ModelError, match=r"missing values in age.*null is not a number") as raised,
    ):
        eh.Endpoint(server.url, **SOON).labels(people)
    assert raised.value.remedy


def test_scores_are_asked_for_and_labels_are_not_taken_for_them() -> None:
    gap = {"strategy": "kosei", "criterion": eh.Gap(0.04), "budget": eh.Budget(tests=300)}
    with serving(answer=score) as server:
        there = eh.audit(eh.Endpoint(server.url), SPACE, **gap)
    here = eh.audit(lambda frame: [score(row) for row in frame.to_dict("records")], SPACE, **gap)
    assert here.found > 0
    assert there.findings.equals(here.findings)
    with serving() as server, pytest.raises(ModelError, match="was asked for scores but answers with labels") as raised:
        eh.audit(eh.Endpoint(server.url), SPACE, **gap)
    assert "mapping" in raised.value.remedy


def test_classes_name_the_decisions_of_scores() -> None:
    with serving(answer=score) as server:
        model = eh.Endpoint(server.url, {"type": "instances", "classes": ["no", "yes"]})
        assert set(model.labels(rows(50))) == {"no", "yes"}
        assert set(eh.wrap(model, threshold=0.9).labels(rows(50))) <= {"no", "yes"}


def test_numbered_rows_may_come_back_in_any_order() -> None:
    mapping = {
        "rows": "data.people", "labels": "out.*.verdict.label", "id": "number", "ids": "out.*.number",
        "body": {"data": {"version": 3}},
    }  # fmt: skip

    def reply(body: Any, found: list[Any]) -> Any:
        numbers = [row["number"] for row in body["data"]["people"]]
        verdicts = [{"verdict": {"label": one}, "number": n} for one, n in zip(found, numbers, strict=True)]
        return {"out": verdicts[::-1]}

    with serving(reply=reply) as server:
        server.RequestHandlerClass.rows = staticmethod(lambda body: body["data"]["people"])
        try:
            model = eh.Endpoint(server.url, mapping)
            assert model.labels(rows(70)).tolist() == in_process(rows(70))
        finally:
            del server.RequestHandlerClass.rows
    assert server.seen.bodies[0]["data"]["version"] == 3


def test_texts_are_classified() -> None:
    space, texts = eh.TextSpace({"team": ["reds", "blues"]}), [f"the reds won game {n}" for n in range(40)]

    def toxic(text: str) -> str:
        return "toxic" if "blues" in text and "7" in text else "fine"

    budget = eh.Budget(tests=40)
    here = eh.audit(lambda batch: [toxic(text) for text in batch], space, data=texts, budget=budget)
    with serving(answer=toxic) as server:
        there = eh.audit(eh.Endpoint(server.url), space, data=texts, budget=budget)
    assert here.found > 0
    assert there.findings.equals(here.findings)


def test_a_budget_of_requests_is_never_exceeded(tmp_path: Path) -> None:
    with serving(unavailable=0.2) as server:
        model = eh.Endpoint(server.url, batch_size=20, retries=20)
        model.remote.allow(7)
        with pytest.raises(RequestsSpent):
            model.labels(rows(500))
        assert len(server.seen.requests) == 7
        run = eh.audit(model, SPACE, budget=eh.Budget(requests=30), directory=tmp_path / "run")
    assert run.stop is eh.StopReason.REQUESTS
    assert "requests" in run.stop.words
    assert 0 < run.tests < 600
    stored = eh.Run.load(tmp_path / "run")
    assert (stored.budget, stored.counts) == (eh.Budget(requests=30), run.counts)
    # Those that identify the model and those of the last checks are outside of budgets.
    assert run.counts["requests"] == len(server.seen.requests) - 7
    page = eh.report(stored, tmp_path / "report.html").read_text()
    assert re.search(r'data-source="run.budget.requests"[^>]*>30</data> requests</dd>', page)
    assert re.search(rf'<dt>Requests</dt><dd><data value="{stored.counts["requests"]}"', page)


def test_errors_quote_the_server() -> None:
    with serving(unavailable=1) as server, pytest.raises(ModelError, match=r'answered 503 \(\{"error": "busy"\}\)'):
        eh.Endpoint(server.url, retries=1).labels(rows(3))
    with pytest.raises(ModelError, match="cannot be reached"):
        eh.Endpoint(server.url, retries=1).labels(rows(3))


SECRET = "t0k3n-5f2a91c7d4"


def test_secrets_stay_out_of_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setenv("SCORING_TOKEN", SECRET)
    caplog.set_level(0)
    headers = {"Authorization": "Bearer ${SCORING_TOKEN}", "X-Client": "audit"}
    with serving() as server:
        model = eh.Endpoint(server.url, headers=headers)
        run = eh.audit(model, SPACE, budget=eh.Budget(tests=300), directory=tmp_path / "run")
        eh.report(run, tmp_path / "report.html")
        eh.export(run, tmp_path / "run.json")
        eh.bundle(tmp_path / "run", tmp_path / "run.zip")
        assert server.seen.headers[0]["Authorization"] == f"Bearer {SECRET}"
        server.behaviour.reply = lambda body, found: {"error": server.seen.headers[-1]}
        with pytest.raises(EvenhandError) as broken:
            eh.Endpoint(server.url, headers=headers, **SOON).labels(rows(3))
        server.behaviour.unavailable = 1
        server.behaviour.echo = True
        with pytest.raises(EvenhandError) as unavailable:
            eh.Endpoint(server.url, headers=headers, **SOON).labels(rows(3))
    said = [str(broken.value), str(unavailable.value), repr(model), repr(vars(model)), repr(run), caplog.text]
    assert "repeats a secret" in said[0]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 7
    assert not any(SECRET in text for text in said)
    assert not any(SECRET.encode() in content for content in files)


def test_secrets_are_hidden_in_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCORING_TOKEN", SECRET)
    transport = Transport("credit", Secrets({"Authorization": "Bearer ${SCORING_TOKEN}"}), 1, None, 0, 5.0)
    assert transport._quoted(f"bad token {SECRET}".encode()) == " (bad token ***)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": f"http://user:{SECRET}@127.0.0.1/v2/models/credit"}, "user or a password"),
        ({"url": f"http://127.0.0.1/v2/models/credit?api_key={SECRET}"}, "key or a token"),
        ({"url": "ftp://127.0.0.1/v2/models/credit"}, "http"),
        ({"headers": {"Authorization": f"Bearer {SECRET}"}}, "environment"),
        ({"headers": {"Authorization": "Bearer ${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE"),
        ({"protocol": "grpc"}, "oip, mlflow, instances, json"),
        ({"protocol": {"lables": "out"}}, "labels"),
        ({"protocol": {"classes": "yes"}}, "classes"),
        ({"url": "http://127.0.0.1:9/score"}, "protocol"),
        ({"rate": 0}, "rate"),
        ({"in_flight": 0}, "in_flight"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_wrong_settings_are_refused_and_secrets_are_not_repeated(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        eh.Endpoint(**{"url": "http://127.0.0.1:9/v2/models/credit"} | arguments).labels(rows(2))
    assert SECRET not in str(raised.value)


AUDIT = """
import sys
import evenhand as eh
from evenhand.engine.determinism import RowChecks
from tests.models.test_endpoint import SPACE
# Rows of these checks are asked more than once on purpose, and more of them where the server is fast.
RowChecks.check = RowChecks.finish = lambda *_: (0, 0)
model = eh.Endpoint(sys.argv[1], batch_size=20, in_flight=4)
eh.audit(model, SPACE, budget=eh.Budget(tests=4000), directory=sys.argv[2], strategy="themis", confirm=0)
"""


def test_a_killed_run_asks_no_more_than_the_requests_in_flight_again(tmp_path: Path) -> None:
    eh.audit(credit(), SPACE, strategy="themis", budget=eh.Budget(tests=4000), directory=tmp_path / "here")
    environment, command_folder = source_environment(OMP_NUM_THREADS="1"), Path(__file__).parents[2]
    with serving(delay=0.004) as server:
        command = [sys.executable, "-c", AUDIT, server.url, str(tmp_path / "there")]
        child = subprocess.Popen(command, env=environment, cwd=command_folder)
        for limit in (150, 260):
            while len(server.seen.requests) < limit:
                # Leaves the processor to the child and the server between two looks.
                with pytest.raises(subprocess.TimeoutExpired):
                    child.wait(0.01)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            child = subprocess.Popen(command, env=environment, cwd=command_folder)
        assert child.wait() == 0
        asked = Counter(server.seen.rows)
        server.seen.rows.clear()
        subprocess.run([*command[:-1], str(tmp_path / "undisturbed")], env=environment, cwd=command_folder, check=True)
        undisturbed = Counter(server.seen.rows)
    log = (tmp_path / "here/answers.log").read_bytes()
    assert all((tmp_path / name / "answers.log").read_bytes() == log for name in ("there", "undisturbed"))
    assert set(asked) == set(undisturbed)
    once = {row for row, count in undisturbed.items() if count == 1}
    again = sum(asked[row] - 1 for row in once)
    # After each kill: at most 4 requests of 20 rows, and the rows that identify the model and its stored answers.
    assert again <= 2 * (4 * 20 + 64)


def test_the_command_asks_an_endpoint(tmp_path: Path) -> None:
    SPACE.save(tmp_path / "space.toml")
    with serving() as server:
        config = (
            f'[model]\npath = "{server.url}"\n[endpoint]\nbatch_size = 30\nin_flight = 2\n'
            '[endpoint.headers]\nAuthorization = "Bearer ${SCORING_TOKEN}"\n'
            '[endpoint.mapping]\ntype = "instances"\n'
            '[space]\npath = "space.toml"\n[budget]\ntests = 300\n[audit]\ndirectory = "run"\n'
        )
        (tmp_path / "evenhand.toml").write_text(config)
        command = [sys.executable, "-m", "evenhand", "audit", "evenhand.toml", "--json"]
        environment = source_environment(SCORING_TOKEN=SECRET)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    here = eh.audit(credit(), SPACE, budget=eh.Budget(tests=300))
    assert (result["findings"], result["tests"]) == (here.found, 300)
    assert result["counts"]["requests"] == len(server.seen.requests)
    assert not any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "run").iterdir())
    stored = json.loads((tmp_path / "run/source.json").read_text())
    assert stored["model"] == server.url
    # A run may come from somebody else: its URL is not asked unless the user names it.
    with pytest.raises(ModelError, match="not queried unless you name it; .* pass it"):
        eh.replay(tmp_path / "run")


def test_a_column_of_missing_values_keeps_its_type() -> None:
    frame = pd.DataFrame({"income": [0.5, None], "work": ["clerk", None], "age": [3, 4], "old": [True, False]})
    batch = batch_of(frame).select([1])
    inputs = make_protocol("oip", "http://127.0.0.1/v2/models/credit").request(batch, "labels", "1")["inputs"]
    assert [part["datatype"] for part in inputs] == ["FP64", "BYTES", "INT64", "BOOL"]
    assert [part["data"] for part in inputs] == [[None], [None], [4], [False]]
