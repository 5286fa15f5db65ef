"""Workers: the calls of a model on the threads, processes or machines of an executor.

A model is sent to each worker once, identified by its digest. Answers come back in the order of the calls, so a run
does not depend on the number of workers. If a worker dies, its call is made again.
"""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from evenhand import _interrupts as interrupts
from evenhand._validate import is_int
from evenhand.errors import IN_FLIGHT, WORKERS, EvenhandError, MissingExtra, ModelError
from evenhand.models.base import Array, Model, package_of
from evenhand.models.client import Call, keep_freed_memory

DEATHS = 3
"""Maximum number of workers that a call, made alone, may crash before it is given up."""
STARTS = 100
"""How many times in a row workers may die while they start."""
LOOK = 0.1
"""Seconds between checks whether a run was cancelled."""
RECOUNT = 5.0
"""Seconds after which the workers of a cluster are counted again."""
IDLE = 300
"""Seconds after which an idle process ends; a search may be slow between two queries."""
KEPT = 2
"""Number of models that a worker keeps."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Fault(NamedTuple):
    """An error that a worker sends back; exceptions of other packages may not survive pickling."""

    error: EvenhandError
    trace: str


class _Missing(Enum):
    """The answer of a worker that does not have the model."""

    MISSING = 1


MISSING = _Missing.MISSING


class Workers:
    """Makes calls on the workers of an executor.

    >>> import numpy as np
    >>> from evenhand.models.wrap import wrap
    >>> model = wrap(lambda X: X[:, 0] > 1, input="array")
    >>> with ThreadPoolExecutor(2) as pool:
    ...     Workers(pool).ask(model, [Call("labels", np.array([[row]])) for row in (1.0, 2.0)])
    [array([False]), array([ True])]
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._packed: tuple[Model, str, bytes] | None = None
        self._scattered: Any = None
        """The model's parcel on the workers of a cluster."""
        self._cluster = package_of(executor) == "distributed"
        self._counted: tuple[int, float] = 0, -RECOUNT

    @property
    def count(self) -> int:
        """The number of workers."""
        if not self._cluster or self.executor._client.status == "closed":  # type: ignore[attr-defined]
            return getattr(self.executor, "_max_workers", None) or os.cpu_count() or 1
        count, when = self._counted
        if time.monotonic() - when >= RECOUNT:
            count = sum(self.executor._client.nthreads().values())  # type: ignore[attr-defined]
            self._counted = count, time.monotonic()
        return max(1, count)

    def ask(self, model: Model, calls: Sequence[Call], cancel: interrupts.Token | None = None) -> list[Array]:
        """Make calls, and return their answers in the same order."""
        if len(calls) == 1 and isinstance(self.executor, ThreadPoolExecutor):
            # Another thread would not be faster.
            return [calls[0].of(model)]
        answers: dict[int, Array] = {}
        lost = self._together(model, dict(enumerate(calls)), answers, cancel)
        for at in lost:
            # One by one, to find the call that crashes its worker. A cluster has tried several workers each time.
            for _ in range(1 if self._cluster else DEATHS):
                self._start(cancel)
                if not self._together(model, {at: calls[at]}, answers, cancel):
                    break
            else:
                raise _deadly(model, calls[at])
        return [answers[at] for at in range(len(calls))]

    def _together(
        self, model: Model, calls: dict[int, Call], answers: dict[int, Array], cancel: interrupts.Token | None
    ) -> list[int]:
        """Make calls at once; return those whose workers died."""
        for with_parcel in (False, True):
            left, lost = dict[int, Call](), list[int]()
            futures = {at: self._submit(model, call, with_parcel) for at, call in calls.items()}
            try:
                for at, future in futures.items():
                    found = self._wait(future, cancel)
                    if found is None:
                        lost.append(at)
                    elif found is MISSING:
                        left[at] = calls[at]
                    elif isinstance(found, Fault):
                        raise found.error from RuntimeError(f"on a worker:\n{found.trace}")
                    else:
                        answers[at] = found
            finally:
                for future in futures.values():
                    future.cancel()
            if lost:
                self._restart()
                return [*lost, *left]
            calls = left
            if not calls:
                break
        return []

    def _start(self, cancel: interrupts.Token | None) -> None:
        """Wait until a worker runs: one that dies before it has begun a call must not be blamed on the call."""
        for _ in range(STARTS):
            with suppress(BrokenExecutor):
                try:
                    started = self.executor.submit(int)
                except RuntimeError as error:
                    if isinstance(error, BrokenExecutor):
                        raise
                    # An executor that was shut down has no workers to wait for.
                    return
                if self._wait(started, cancel) is not None:
                    return
            self._restart()
        problem = f"workers died {STARTS} times before their first call"
        raise ModelError(problem, parameter="executor", value=self.executor, remedy="see how much memory is free")

    def _submit(self, model: Model, call: Call, with_parcel: bool) -> Future[Any]:
        try:
            return self._sent(model, call, with_parcel)
        except BrokenExecutor:
            # A worker died while it was idle.
            self._restart()
            return self._sent(model, call, with_parcel)
        except RuntimeError:
            # The executor was shut down, so later queries are answered in this process.
            done: Future[Any] = Future()
            done.set_result(_attempt(model, call))
            return done

    def _sent(self, model: Model, call: Call, with_parcel: bool) -> Future[Any]:
        if isinstance(self.executor, ThreadPoolExecutor):
            return self.executor.submit(_attempt, model, call)
        digest, parcel = self._parcel(model)
        if not self._cluster:
            return self.executor.submit(answer, digest, parcel if with_parcel else None, call)
        cluster: Any = self.executor
        client = cluster._client
        if client.status == "closed":
            raise RuntimeError("closed")
        if with_parcel and self._scattered is None:
            # Directly between workers; as an argument, a model would pass through the scheduler each time.
            self._scattered = client.scatter(parcel, broadcast=True, hash=False)
        # Otherwise Dask treats calls with equal arguments as one call.
        sent: Future[Any] = cluster.submit(answer, digest, self._scattered if with_parcel else None, call, pure=False)
        return sent

    def _parcel(self, model: Model) -> tuple[str, bytes]:
        if self._packed is None or self._packed[0] is not model:
            import cloudpickle

            try:
                parcel = cloudpickle.dumps(alone(model))
            except Exception as error:
                raise ModelError(
                    f"{model.name} cannot be sent to other processes: {type(error).__name__}: {error}",
                    remedy="use threads: executor=concurrent.futures.ThreadPoolExecutor()",
                ) from error
            self._scattered = None
            self._packed = model, hashlib.sha256(parcel).hexdigest(), parcel
        return self._packed[1:]

    def _wait(self, future: Future[Any], cancel: interrupts.Token | None) -> Any:
        """Return the result of a call, or None if its worker died."""
        while not wait([future], LOOK).done:
            interrupts.check(cancel)
        if future.cancelled():
            return None
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
            return None
        if isinstance(error, KeyboardInterrupt):
            raise error
        problem = f"the executor failed: {type(error).__name__}: {error}"
        raise ModelError(problem, remedy="leave it out, or use another executor") from error

    def _restart(self) -> None:
        """Start a pool of processes again; a cluster replaces its workers itself."""
        pool: Any = self.executor
        self._counted, self._scattered = (0, -RECOUNT), None
        if self._cluster or isinstance(pool, ThreadPoolExecutor):
            return
        own = package_of(pool)
        if own not in ("loky", "concurrent"):
            raise ModelError("a worker died, and this executor cannot be started again", remedy=("use ", WORKERS))
        settings: dict[str, Any] = {"initializer": pool._initializer, "initargs": pool._initargs}
        if own == "concurrent":
            self.executor = ProcessPoolExecutor(pool._max_workers, pool._mp_context, **settings)
        else:
            settings |= {"timeout": pool._timeout, "env": pool._env}
            if hasattr(pool, "executor_id"):
                from loky import get_reusable_executor

                self.executor = get_reusable_executor(pool._max_workers, kill_workers=True, **settings)
            else:
                pool.shutdown(wait=False, kill_workers=True)
                self.executor = type(pool)(pool._max_workers, context=pool._context, **settings)


def _deadly(model: Model, call: Call) -> ModelError:
    rows = call.X.to_dict("records") if hasattr(call.X, "to_dict") else list(call.X)
    shown = "\n".join(map(str, rows[:DEATHS]))
    more = f"\nand {len(rows) - DEATHS:,} more" if len(rows) > DEATHS else ""
    return ModelError(
        f"{model.name} crashed its worker, {DEATHS} times or more, on {len(rows):,} "
        f"row{'s' * (len(rows) != 1)}:\n{shown}{more}\n",
        remedy="check these rows and the memory that they need; wrap(model, batch_size=) sends fewer rows",
    )


# Functions that run on a worker.

_models: OrderedDict[str, Model] = OrderedDict()
_lock = threading.Lock()


def answer(digest: str, parcel: bytes | None, call: Call) -> Array | Fault | _Missing:
    """Make a call on a worker, which receives the model in the parcel and keeps it."""
    keep_freed_memory()
    with _lock:
        model = _models.get(digest)
        if model is None:
            if parcel is None:
                return MISSING
            # A large model is not a memory leak.
            if "loky.process_executor" in sys.modules:
                sys.modules["loky.process_executor"]._MAX_MEMORY_LEAK_SIZE = sys.maxsize  # type: ignore[attr-defined]
            try:
                model = _models[digest] = pickle.loads(parcel)
            except Exception as error:
                problem = f"the model cannot be loaded on a worker: {type(error).__name__}: {error}"
                remedy = "install the packages that it needs there, in the same versions as here"
                return Fault(ModelError(problem, remedy=remedy), traceback.format_exc())
            while len(_models) > KEPT:
                _models.popitem(last=False)
        _models.move_to_end(digest)
    return _attempt(model, call)


def _attempt(model: Model, call: Call) -> Array | Fault:
    try:
        return call.of(model)
    except EvenhandError as error:
        return Fault(error, traceback.format_exc())


# Executors.


def spread(model: Model, executor: Executor | int) -> Model:
    """Return a model that is called on workers.

    >>> from evenhand.models.wrap import wrap
    >>> spread(wrap(len), ThreadPoolExecutor(2)).workers.count
    2
    """
    if model.remote is not None:
        problem = f"is for models that run here; {model.name} already receives several requests at once"
        raise ModelError(problem, parameter="executor", remedy=("set their number with ", IN_FLIGHT))
    changed = copy.copy(model)
    changed.workers = Workers(_executor(executor))
    return changed


def alone(model: Model) -> Model:
    """Return a model that is called in this process, without state of earlier calls: equal models have equal parcels.

    >>> from evenhand.models.wrap import wrap
    >>> alone(spread(wrap(len), ThreadPoolExecutor(2))).workers is None
    True
    """
    changed = copy.copy(model)
    changed.workers = changed.call_size = changed.pace = None
    return changed


def _executor(given: Any) -> Executor:
    if is_int(given) and given >= 1:
        return local(given)
    if isinstance(given, Executor):
        _check_open(given)
        return given
    if callable(getattr(given, "get_executor", None)):
        found: Executor = given.get_executor(pure=False)
        return found
    raise ModelError(
        "must be a concurrent.futures.Executor, or a number of processes",
        parameter="executor",
        value=given,
        remedy="use executor=4, ThreadPoolExecutor(4), or the get_executor() of a dask.distributed.Client",
    )


def _check_open(given: Executor) -> None:
    """Raise if an executor was shut down; a pool whose workers have died is started again later."""
    try:
        given.submit(int)
    except BrokenExecutor:
        pass
    except RuntimeError as error:
        raise ModelError(
            f"accepts no calls: {error}",
            parameter="executor",
            value=given,
            remedy="make a new one, and shut it down after the last call that uses it",
        ) from error


def local(workers: int) -> Executor:
    """Return an executor with this many processes on this machine, which share its cores."""
    from loky import cpu_count, get_reusable_executor

    threads = str(max(1, cpu_count() // workers))
    env = {name: threads for name in THREADS if name not in os.environ}
    found: Executor = get_reusable_executor(workers, timeout=IDLE, initializer=_serve, initargs=(os.getpid(),), env=env)
    return found


def _serve(parent: int) -> None:
    """Ignore Ctrl-C, which the parent process handles; end when the parent ends."""
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="evenhand watches its parent", daemon=True).start()


def connect(address: str) -> Executor:
    """Return an executor for the Dask cluster whose scheduler has an address."""
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
    except ImportError:
        raise MissingExtra("distributed", "dask", "a Dask cluster") from None
    try:
        # A client that was not made because of its address would wait for its end.
        get_address_host_port(address)
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"no Dask scheduler answers at {address}: {error}", remedy="start one with: dask scheduler"
        ) from error
    found: Executor = client.get_executor(pure=False)
    return found
