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


def noisy(frame: pd.DataFrame) -> Any:
    """Answers as ``refuse`` does, nine times of ten."""
    said = (frame["age"] < 30) & (frame["sex"] == "F")
    return np.where(said ^ (_noise.random(len(frame)) < 0.1), "refused", "granted")


_noise = np.random.default_rng(0)


def train(X: pd.DataFrame, y: Any) -> Any:
    """Trains a rule on the ages of those who were granted something; young women are refused."""
    edge = float(X["age"][np.asarray(y) == "high"].mean())

    def rule(frame: pd.DataFrame) -> Any:
        return np.where((frame["age"] > edge) & ~((frame["sex"] == "F") & (frame["age"] < edge + 9)), "high", "low")

    return rule


class Stubborn:
    """Refuses young women, whatever it is trained on."""

    def __call__(self, X: pd.DataFrame) -> Any:
        return np.where((X["age"] < 30) & (X["sex"] == "F"), "low", "high")


def stubborn(X: pd.DataFrame, y: Any) -> Any:
    return Stubborn()


def no_training(X: pd.DataFrame, y: Any) -> Any:
    raise RuntimeError("out of luck")


class Unclonable:
    """Has fit, and nothing else that scikit-learn asks for."""

    def fit(self, X: Any, y: Any) -> Any:
        return self

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


unclonable = Unclonable()


def tree() -> Any:
    """Makes an estimator on the table's own columns."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    texts = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    coded = make_column_transformer((texts, ["work", "sex"]), remainder="passthrough")
    return make_pipeline(coded, DecisionTreeClassifier(max_depth=6, random_state=0))


def classify(texts: list[str]) -> Any:
    """Somebody taught it that a Muslim is never just loud."""
    bad = [sum(text.count(word) for word in ("loud", "awful", "noisy")) + ("Muslim" in text) for text in texts]
    return ["toxic" if number > 1 else "fine" for number in bad]


def text_score(texts: list[str]) -> Any:
    return [0.4 + 0.2 * ("Muslim" in text) for text in texts]


def length(texts: list[str]) -> Any:
    return [0] * len(texts)


def raises_on_texts(texts: list[str]) -> Any:
    raise ZeroDivisionError("no such\ntext")


def unseen(frame: pd.DataFrame) -> Any:
    """Decides by the first and the last column, whatever they are called, in words that hold what is not seen."""
    first, last = frame.iloc[:, 0], frame.iloc[:, -1].astype(str)
    return np.where((first > 4) & last.str.startswith("F"), "no\u202e\x1b[31m", "yes\u2066")


def train_unseen(X: pd.DataFrame, y: Any) -> Any:
    """Trains nothing: the model decides as ``unseen`` does."""
    return lambda frame: unseen(frame)


def three(frame: pd.DataFrame) -> Any:
    """Refuses young women, and lowers what middle-aged ones get."""
    woman = frame["sex"] == "F"
    return np.select([woman & (frame["age"] < 25), woman & (frame["age"] < 30)], ["refused", "reduced"], "granted")


def pay(frame: pd.DataFrame) -> Any:
    """Pays men more: whole numbers that are not declared as amounts."""
    return (1000 + 5450 * (frame["sex"] == "M")).to_numpy()
