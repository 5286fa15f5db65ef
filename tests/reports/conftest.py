"""Runs that are reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh

SPACE = eh.Space(
    [
        eh.Integer("age", 18, 80),
        eh.Integer("hours", 0, 60),
        eh.Boolean("married"),
        eh.Nominal("job", ["nurse", "clerk", "cook"]),
        eh.Nominal("sex", ["F", "M"]),
        eh.Nominal("origin", ["here", "there"]),
    ],
    protected=["sex", "origin"],
)


def decide(frame: pd.DataFrame) -> Any:
    """Refuses married women who work long, and young people from elsewhere."""
    women = (frame["hours"] >= 45) & frame["married"] & (frame["sex"] == "F")
    young = (frame["age"] < 25) & (frame["origin"] == "there")
    return np.where(women | young | (frame["age"] > 70), "refused", "granted")


def people(count: int = 400) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(20, 70, count),
            "hours": random.integers(10, 60, count),
            "married": random.random(count) < 0.5,
            "job": random.choice(["nurse", "clerk", "cook"], count),
            "sex": random.choice(["F", "M"], count),
            "origin": random.choice(["here", "there"], count),
            "paid": random.choice(["granted", "refused"], count),
        }
    )


@pytest.fixture(scope="session")
def data() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="session")
def run(data: pd.DataFrame) -> eh.Run:
    return eh.audit(decide, SPACE, "kosei", eh.Budget(tests=4_000), data=data)


@pytest.fixture(scope="session")
def text_run() -> eh.Run:
    texts = [f"The {who} at the {where} was kind." for who in ("Sikh", "Jew") for where in ("school", "station")]
    return eh.audit(
        lambda texts: ["fine" if "Sikh" in text else "rude" for text in texts],
        eh.TextSpace("religion"),
        "text-random",
        eh.Budget(tests=50),
        data=texts,
    )
