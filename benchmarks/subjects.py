"""The data and models of the papers: integer codes in, 0 or 1 out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh

Table = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

LAYERS = (30, 20, 15, 10, 5)
SVM_ROWS = 8_000
SMALL_FOREST = 20
DATA = {"census": ("adult", "sex"), "credit": ("german", "sex"), "bank": ("bank", "age")}
"""The papers' names of the data sets: ours, and the protected attribute."""


def _ensemble() -> VotingClassifier:
    # One vote each: with probabilities a full-grown tree, which is always sure, would outvote the forest.
    return VotingClassifier([("forest", RandomForestClassifier(SMALL_FOREST, random_state=0)), ("tree", _tree())])


def _tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "tree": _tree,
    "forest": lambda: RandomForestClassifier(SMALL_FOREST, random_state=0),
    "forest of 50": lambda: RandomForestClassifier(50, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "MLP": lambda: MLPClassifier(LAYERS, max_iter=50, random_state=0),
    "logistic regression": lambda: LogisticRegression(max_iter=2_000),
    "SVM": lambda: make_pipeline(StandardScaler(), SVC()),
    "ensemble": _ensemble,
}


def load(name: str) -> tuple[eh.Space, Table]:
    """Return a data set's space, features and labels in the papers' coding."""
    ours, protected = DATA[name]
    dataset = eh.datasets.load(ours)
    frame = dataset.paper_frame()
    table = frame.iloc[:, :-1].to_numpy(np.float64), frame.iloc[:, -1].to_numpy(np.int64)
    return dataset.paper_space(protected=[protected]), table


def fit(name: str, table: Table) -> Any:
    """Fit a model on arrays; a kernel SVM on a seeded choice of rows, because its cost is their square."""
    X, y = table
    chosen = np.random.default_rng(0).permutation(len(y))[:SVM_ROWS] if name == "SVM" else slice(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MODELS[name]().fit(X[chosen], y[chosen])
