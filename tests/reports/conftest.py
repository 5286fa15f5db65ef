"""Runs that are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from tests.helpers import optional

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


@pytest.fixture(scope="session")
def results(run: eh.Run, data: pd.DataFrame) -> dict[str, Any]:
    optional("fairlearn")
    from sklearn.tree import DecisionTreeClassifier

    blind = eh.audit(lambda f: decide(f.assign(sex="M")), SPACE, "kosei", eh.Budget(tests=1_000), data=data)
    numbers = data.assign(
        sex=(data["sex"] == "F") * 1, origin=(data["origin"] == "here") * 1, married=data["married"] * 1
    )
    columns = ["age", "hours", "married", "sex", "origin"]
    small = eh.Space(
        [eh.Integer(name, *map(int, (numbers[name].min(), numbers[name].max()))) for name in columns], "sex"
    )
    estimator = DecisionTreeClassifier(max_depth=4, random_state=0)
    repair = eh.repair(
        estimator,
        numbers[columns],
        decide(data),
        small,
        method="marginal",
        options=eh.repairs.RepairOptions(samples=500),
    )
    return {
        "space": SPACE,
        "run": run,
        "estimate": eh.estimate(decide, SPACE, "data", data=data, samples=500, favourable="granted"),
        "groups": eh.groups(decide, SPACE, data, "granted", y="paid"),
        "regions": eh.regions(run, data=data, samples=500),
        "examples": eh.examples(run, data=data, n=3),
        "compared": eh.compare(run, blind, samples=500),
        "repair": repair,
        "repairs": repair.compared,
    }


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; whatever it loads or complains about fails the test."""
    contexts, trouble = [], []

    def opened(path: Path, width: int = 1100, scheme: str = "light") -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [what for what in trouble if what != "data:,"] == []
