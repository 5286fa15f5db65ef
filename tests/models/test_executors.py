"""Workers: the same run on any number of threads, processes or machines, even if workers fail."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loky import get_reusable_executor
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand._rng import Stream
from evenhand.engine.store import ANSWERS
from evenhand.errors import FlakyModel, ModelError, ModelTimeout
from evenhand.models.client import Call
from evenhand.models.executors import MISSING, Workers, answer, connect, local, spread
from tests.helpers import source_environment
from tests.worlds import random_world

SPACE = eh.Space(
    [eh.Integer("age", 0, 99), eh.Integer("hours", 0, 99), eh.Boolean("member"), eh.Boolean("sex")],
    protected=["sex", "member"],
)
BUDGET = eh.Budget(tests=1500)


def weigh(X: Any) -> Any:
    """Scores of which some depend on sex."""
    return 1 / (1 + np.exp(-(X[:, 0] - 50 + 9 * X[:, 3] * (X[:, 1] > 70)) / 10))


def model(**options: Any) -> eh.Model:
    return eh.wrap(weigh, input="array", threshold=0.5, name="weigh", **options)


def kept(folder: Path, executor: Any, strategy: str = "kosei", **options: Any) -> tuple[str, bytes, int]:
    """What an audit leaves: findings, log, and rows that the model was asked."""
    run = eh.audit(model(**options), SPACE, strategy, BUDGET, directory=folder, executor=executor)
    return run.findings.to_csv(), (folder / ANSWERS).read_bytes(), run.rows


@pytest.fixture
def processes() -> Iterator[Callable[[int], Executor]]:
    yield local
    get_reusable_executor(1).shutdown(wait=True, kill_workers=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.mark.parametrize("strategy", ["themis", "kosei", "adf"])
def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path, strategy: str) -> None:
    alone = kept(tmp_path / "alone", None, strategy, chunk=300)
    assert alone[0].count("\n") > 10
    for workers in (1, 2, 4):
        with ThreadPoolExecutor(workers) as pool:
            assert kept(tmp_path / str(workers), pool, strategy, chunk=300) == alone
            # Every row in a call of its own, so that all workers have something to do.
            assert kept(tmp_path / f"{workers} small", pool, strategy, chunk=300, batch_size=5) == alone


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_bytes(
    tmp_path: Path, processes: Callable[[int], Executor], cluster: Any
) -> None:
    alone = kept(tmp_path / "alone", None, batch_size=100)
    for workers in (1, 2, 4):
        assert kept(tmp_path / f"loky {workers}", workers, batch_size=100) == alone
    assert kept(tmp_path / "dask", cluster, batch_size=100) == alone
    assert kept(tmp_path / "executor", cluster.get_executor(), batch_size=100) == alone
    with ProcessPoolExecutor(2) as pool:
        assert kept(tmp_path / "pool", pool, batch_size=100) == alone


@pytest.mark.slow
def test_a_cluster_by_its_address(tmp_path: Path, cluster: Any) -> None:
    executor = connect(cluster.scheduler.address)
    assert Workers(executor).count == 2
    assert kept(tmp_path / "address", executor) == kept(tmp_path / "alone", None)
    executor._client.close()  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="no Dask scheduler"):
        connect("tcp://127.0.0.1:1")


def test_an_address_without_a_port_is_refused_at_once() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(ModelError, match="no Dask scheduler answers at nonsense: missing port"):
        connect("nonsense")


def test_shares_are_answered_in_order_by_several_threads() -> None:
    together = threading.Barrier(3, timeout=60)

    def wait(X: Any) -> Any:
        # No call is answered before three have been made.
        together.wait()
        return X[:, 0]

    with ThreadPoolExecutor(3) as pool:
        calls = [Call("scores", np.full((2, 1), float(at))) for at in range(3)]
        found = Workers(pool).ask(eh.wrap(wait, input="array"), calls)
    assert np.concatenate(found).ravel().tolist() == [0, 0, 1, 1, 2, 2]


def test_a_worker_asks_for_a_model_once() -> None:
    import cloudpickle

    parcel, call = cloudpickle.dumps(eh.wrap(lambda X: X[:, 0] > 1, input="array")), Call("labels", np.ones((2, 1)))
    assert answer("a digest", None, call) is MISSING
    assert answer("a digest", parcel, call).tolist() == [False, False]  # type: ignore[union-attr]
    assert answer("a digest", None, call).tolist() == [False, False]  # type: ignore[union-attr]


def test_single_rows_do_not_make_a_model_look_noisy() -> None:
    # Sums in another order, as matrix products have for a single row.
    weights = np.random.default_rng(0).normal(size=4)

    def net(X: Any) -> Any:
        total = X.astype(np.float32) @ weights.astype(np.float32) if len(X) > 1 else (X[0] * weights).sum(keepdims=True)
        return 1 / (1 + np.exp(-np.asarray(total, dtype=np.float64) / 100))

    with ThreadPoolExecutor(4) as pool:
        given = eh.wrap(net, input="array", threshold=0.5, batch_size=1)
        run = eh.audit(given, SPACE, "themis", eh.Budget(tests=300), executor=pool)
    assert (run.tests, run.refuted) == (300, 0)


def test_batch_dependent_models_are_refused() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(FlakyModel):
        eh.audit(eh.wrap(lambda X: X[:, 0] > X[:, 0].mean(), input="array"), SPACE, "themis", BUDGET, executor=pool)


class Fails:
    """Cannot answer for one age."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, X: Any) -> Any:
        if (X[:, 0] == 41).any():
            if self.how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "hangs":
                threading.Event().wait()
            raise ZeroDivisionError("no age of 41")
        return X[:, 0] > 50


class Odd(Exception):
    """An exception that cannot be pickled and made again."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} and {right}")


def raises_odd(X: Any) -> Any:
    raise Odd(1, 2)


@pytest.mark.slow
def test_faults_come_back_as_they_are_here(processes: Callable[[int], Executor]) -> None:
    for broken, words in ((Fails("raises"), "no age of 41"), (raises_odd, "1 and 2"), (lambda X: X["age"], "a frame")):
        said = []
        for executor in (None, processes(2)):
            with pytest.raises(ModelError, match=words) as caught:
                eh.audit(eh.wrap(broken, input="array", name="broken"), SPACE, "themis", BUDGET, executor=executor)
            said.append((caught.value.reason.partition("\n")[0], caught.value.remedy))
        assert said[0] == said[1]
    given = eh.wrap(Fails("hangs"), input="array", timeout=0.5)
    with pytest.raises(ModelTimeout):
        eh.audit(given, SPACE, "themis", BUDGET, executor=processes(2))


@pytest.mark.slow
@pytest.mark.parametrize("where", ["loky", "dask"])
def test_rows_that_end_workers_are_named(
    where: str, processes: Callable[[int], Executor], cluster: Any, tmp_path: Path
) -> None:
    given = eh.wrap(Fails("dies"), input="array", batch_size=4)
    with pytest.raises(ModelError, match=r"(?s)crashed its worker.*41\.") as caught:
        eh.audit(given, SPACE, "themis", BUDGET, executor=processes(2) if where == "loky" else cluster)
    assert caught.value.partial is not None
    assert "batch_size" in caught.value.remedy


def workers_of(pid: int) -> list[int]:
    """The processes of loky that a process has started."""
    done = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=True)
    return [int(line.split()[0]) for line in done.stdout.splitlines() if "popen_loky" in line]


class Killer:
    """Follows the progress of a run, and kills a worker at a random moment after some of its blocks."""

    def __init__(self) -> None:
        self.rng, self.killed = np.random.default_rng(0), list[int]()

    def __call__(self, status: Any) -> None:
        if self.rng.random() < 0.2:
            threading.Timer(self.rng.exponential(0.03), self.kill).start()

    def kill(self) -> None:
        if pids := workers_of(os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(pids[0], signal.SIGKILL)
                self.killed.append(pids[0])


def slowly(X: Any) -> Any:
    threading.Event().wait(0.01)
    return weigh(X)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_workers_change_nothing(tmp_path: Path, processes: Callable[[int], Executor]) -> None:
    alone, killer, at = kept(tmp_path / "alone", None, batch_size=50, chunk=100), Killer(), 0
    given = eh.wrap(slowly, input="array", threshold=0.5, name="weigh", batch_size=50, chunk=100)
    while len(set(killer.killed)) < 5:
        folder = tmp_path / str(at)
        run = eh.audit(given, SPACE, "kosei", BUDGET, directory=folder, executor=processes(2), progress=killer)
        assert (run.findings.to_csv(), (folder / ANSWERS).read_bytes(), run.rows) == alone
        at += 1


RESUMED = """
import sys, threading
from tests.models.test_executors import BUDGET, SPACE, eh, slowly, workers_of
from os import getpid

def stop_half_way(status):
    if status.tests >= 500 and (workers := workers_of(getpid())):
        print(*workers, flush=True)
        threading.Event().wait()

if __name__ == "__main__":
    model = eh.wrap(slowly, input="array", threshold=0.5, name="weigh", batch_size=50)
    progress = stop_half_way if sys.argv[2:] else False
    eh.audit(model, SPACE, "kosei", BUDGET, directory=sys.argv[1], executor=2, progress=progress)
"""


def alive(pid: int) -> bool:
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")


@pytest.mark.slow
def test_a_run_killed_with_its_workers_continues(tmp_path: Path) -> None:
    script, folder = tmp_path / "script.py", tmp_path / "run"
    script.write_text(RESUMED)
    environment = source_environment()
    root = Path(__file__).parent.parent.parent
    environment["PYTHONPATH"] = os.pathsep.join([str(root), environment.get("PYTHONPATH", "")])
    command = [sys.executable, str(script), str(folder)]
    started = subprocess.Popen([*command, "half"], env=environment, cwd=root, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    with started, started.stdout as printed:
        workers = list(map(int, printed.readline().split()))
        started.kill()
    assert workers, f"the run ended with status {started.returncode} before it had workers and 500 tests"
    deadline = time.monotonic() + 60
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers outlive the run"
        threading.Event().wait(0.1)
    subprocess.run(command, env=environment, cwd=root, check=True)
    findings, log, _ = kept(tmp_path / "alone", None, batch_size=50)
    assert (folder / ANSWERS).read_bytes() == log
    assert eh.Run.load(folder).findings.to_csv() == findings


def test_whatever_asks_a_model_gives_the_same_on_workers() -> None:
    run = eh.audit(model(), SPACE, "themis", BUDGET)
    data = SPACE.frame(run.pairs.rows()[:50])
    with ThreadPoolExecutor(3) as pool:
        for executor, found in ((None, alone := {}), (pool, spread_out := {})):
            found["estimate"] = eh.estimate(model(), SPACE, samples=2000, executor=executor).to_dict()
            found["estimate"].pop("seconds")
            found["regions"] = repr(eh.regions(run, model(), samples=2000, executor=executor))
            found["examples"] = repr(eh.examples(run, model(), data, executor=executor))
    assert alone == spread_out


def test_a_repair_is_the_same_on_workers() -> None:
    X = SPACE.frame(SPACE.sampler.draw(Stream(0), 0, 400)[0].rows)
    y = (X["age"] + 20 * X["sex"] > 55).to_numpy()
    options, given = eh.repairs.RepairOptions(samples=500), (DecisionTreeClassifier(random_state=0), X, y, SPACE)
    with ThreadPoolExecutor(2) as pool:
        done = [
            eh.repair(*given, "counterfactual", options=options, executor=executor).to_dict()
            for executor in (None, pool)
        ]
    for one in done:
        one.pop("seconds", None)
    assert repr(done[0]["after"]["uniform"]["rate"]) == repr(done[1]["after"]["uniform"]["rate"])
    assert done[0]["changed"] == done[1]["changed"]


def test_after_its_executor_a_run_asks_the_model_here() -> None:
    with ThreadPoolExecutor(2) as pool:
        run = eh.audit(model(), SPACE, "themis", BUDGET, executor=pool)
    assert len(eh.regions(run, samples=1000)) == len(eh.regions(run, model(), samples=1000))


@pytest.mark.parametrize("executor", [0, True, "4", object()])
def test_wrong_executors_are_refused(executor: Any) -> None:
    with pytest.raises(ModelError, match="executor") as caught:
        eh.audit(model(), SPACE, "themis", BUDGET, executor=executor)
    assert caught.value.parameter == "executor"
    assert caught.value.value == executor


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_that_was_shut_down_is_refused(kind: Any) -> None:
    with kind(1) as pool:
        pass
    with pytest.raises(ModelError, match="executor accepts no calls") as caught:
        eh.audit(model(), SPACE, "themis", BUDGET, executor=pool)
    assert caught.value.value is pool


def test_an_endpoint_takes_several_requests_anyway() -> None:
    with pytest.raises(ModelError, match="in_flight"):
        spread(eh.Endpoint("http://127.0.0.1:9/v2/models/credit"), ThreadPoolExecutor(2))


def test_errors_survive_being_pickled() -> None:
    error = FlakyModel("two answers", 0.25, ("use ", eh.errors.FLIP))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.noise, again.uses) == (str(error), 0.25, error.uses)


def test_a_model_that_cannot_be_pickled_raises() -> None:
    lock = threading.Lock()
    with ProcessPoolExecutor(1) as pool, pytest.raises(ModelError, match="cannot be sent") as caught:
        eh.audit(eh.wrap(lambda X: [lock.locked()] * len(X), input="array"), SPACE, "themis", BUDGET, executor=pool)
    assert "ThreadPoolExecutor" in caught.value.remedy


def test_interrupts_end_a_run_on_workers() -> None:
    cancel = threading.Event()

    def once(X: Any) -> Any:
        if len(X) == 7:
            cancel.set()
        return X[:, 0] > 50

    with ThreadPoolExecutor(2) as pool:
        given = eh.wrap(once, input="array", batch_size=7)
        run = eh.audit(given, SPACE, "themis", BUDGET, executor=pool, cancel=cancel)
    assert run.stop is eh.StopReason.INTERRUPTED


@pytest.mark.parametrize("seed", range(3))
def test_worlds_with_known_answers(seed: int) -> None:
    world = random_world(seed, 20_000)
    alone = eh.audit(world.model, world.space, "kosei", BUDGET)
    with ThreadPoolExecutor(3) as pool:
        run = eh.audit(eh.wrap(world.model, batch_size=11), world.space, "kosei", BUDGET, executor=pool)
    assert run.findings.equals(alone.findings)
