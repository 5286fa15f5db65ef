"""Models that the command line can name: ``tests.cli.models:refuse``. Some of them misbehave."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from typing import Any

import numpy as np
import pandas as pd

released = threading.Event()
"""Set by the test of a hanging model, so that its thread ends."""
_calls = itertools.count()


def refuse(frame: pd.DataFrame) -> Any:
    """Refuses young women."""
    return np.where((frame["age"] < 30) & (frame["sex"] == "F"), "refused", "granted")


def fair(frame: pd.DataFrame) -> Any:
    return (frame["age"] < 30).to_numpy()


def score(frame: pd.DataFrame) -> Any:
    return (frame["age"] / 100 + 0.1 * (frame["sex"] == "F")).to_numpy()


def needs_pay(frame: pd.DataFrame) -> Any:
    return frame["pay"] > 3


def raises(frame: pd.DataFrame) -> Any:
    raise ZeroDivisionError("no such\nperson")


def hangs(frame: pd.DataFrame) -> Any:
    released.wait()
    return fair(frame)


def short(frame: pd.DataFrame) -> Any:
    return fair(frame)[1:]


def nan(frame: pd.DataFrame) -> Any:
    return np.full(len(frame), np.nan)


def odd(frame: pd.DataFrame) -> Any:
    return [{"yes": True}] * len(frame)


def flaky(frame: pd.DataFrame) -> Any:
    return np.full(len(frame), next(_calls) % 2)


def waits(frame: pd.DataFrame) -> Any:
    """Answers as ``refuse`` does; on the call that the environment names it says so and waits for a signal."""
    if next(_calls) == int(os.environ.get("WAIT_AT", -1)):
        print("waiting", flush=True)
        signal.pause()
    return refuse(frame)


def wavers(frame: pd.DataFrame) -> Any:
    """Answers as ``refuse`` does, nine times of ten."""
    said = (frame["age"] < 30) & (frame["sex"] == "F")
    return np.where(said ^ (_noise.random(len(frame)) < 0.1), "refused", "granted")


_noise = np.random.default_rng(0)
