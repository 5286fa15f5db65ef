"""The demo: models trained on two public data sets, audited, with the people who are treated differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evenhand import datasets
from evenhand.budget import Budget
from evenhand.runs.audit import audit
from evenhand.runs.pair_sentences import Pair, select_pairs
from evenhand.runs.run import Run
from evenhand.spaces.attributes import Integer
from evenhand.spaces.frames import pd
from evenhand.spaces.tabular import Space

if TYPE_CHECKING:
    from evenhand.datasets import Dataset

__all__ = ["DEMOS", "Audited", "demo"]

TESTS = 100_000


@dataclass(frozen=True)
class Demo:
    """What is audited: a data set, a title, a note, and how its space is narrowed to people who can exist."""

    name: str
    title: str
    note: str
    outcome: str
    """The decision that one of two people gets, and the other does not."""
    narrowed: Sequence[Integer] = ()
    constraints: Sequence[str] = ()
    favourable: str | None = None
    """The favourable decision, if there is one."""


DEMOS = (
    Demo(
        "adult",
        "Adult: who earns more than 50,000 dollars?",
        "A random forest trained on the 1994 census sample, audited by sex, on people without capital gains or losses, "
        "as most are. Husbands are married men and wives married women; when sex changes, a husband becomes a wife and "
        "a wife a husband.",
        ">50K",
        # Drawn uniformly, nearly all people would have a capital gain that only a few hundred really have.
        (Integer("capital_gain", 0, 0), Integer("capital_loss", 0, 0)),
        (
            'if relationship == "Husband" then sex == "Male"',
            'if relationship == "Wife" then sex == "Female"',
            'if relationship in ["Husband", "Wife"] then marital_status == "Married-civ-spouse"',
        ),
    ),
    Demo(
        "german",
        "German credit: who is a good risk?",
        "A random forest trained on the Statlog German credit data, audited by sex.",
        "good",
        favourable="good",
    ),
)


@dataclass(frozen=True)
class Audited:
    """The results of one demo."""

    demo: Demo
    model: Any
    run: Run
    """The search and its estimate."""
    baseline: Run
    """Random testing of the same model, as many tests."""
    pairs: Sequence[Pair]
    accuracy: float
    """On rows that the model was not trained on."""
    data: pd.DataFrame
    """The rows that it was trained on."""
    target: str


def demo(which: Demo, seed: int = 0, tests: int = TESTS) -> Audited:
    """Train a model on a data set, audit it, and choose the clearest pairs.

    >>> done = demo(DEMOS[1], tests=2000)
    >>> done.run.tests, len(done.pairs)
    (2000, 3)
    """
    data = datasets.load(which.name)
    model = train(data, seed)
    space = narrow(data.space(), which)
    budget = Budget(tests=tests)
    run = audit(model, space, "auto", budget, seed, data=data.train)
    baseline = audit(model, space, "themis", budget, seed, data=data.train)
    accuracy = float(model.score(data.test[list(data.features)], data.test[data.target]))
    return Audited(which, model, run, baseline, select_pairs(run, data=data.train), accuracy, data.train, data.target)


def losers(run: Run, outcome: str) -> tuple[str, float]:
    """Return who most often does not get an outcome that the counterpart gets, and in which share of findings."""
    findings, name = run.findings, run.space.protected[0]
    lost = findings[name].where(findings["decision"].astype(str) != outcome, findings[f"counterpart_{name}"])
    counts = pd.Series(lost).value_counts(normalize=True)
    return (str(counts.index[0]), float(counts.iloc[0])) if len(counts) else ("", 0.0)


def train(data: Dataset, seed: int = 0) -> Any:
    """Fit a forest on the raw frame; categories are one-hot encoded inside the pipeline, as users do."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    texts = [a.name for a in data.attributes if a.kind in ("nominal", "ordinal")]
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts), remainder="passthrough"
    )
    forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=seed)
    return make_pipeline(encode, forest).fit(data.train[list(data.features)], data.train[data.target])


def narrow(space: Space, which: Demo) -> Space:
    """Replace attributes by the narrower ones of the same name, and add constraints."""
    narrower = {attribute.name: attribute for attribute in which.narrowed}
    attributes = [narrower.get(attribute.name, attribute) for attribute in space.attributes]
    return Space(attributes, space.protected, which.constraints, space.links, space.max_family_size)
