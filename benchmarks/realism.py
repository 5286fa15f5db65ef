"""How real the findings of each search are, and how near to real people shrinking brings them.

Adult by sex, a logistic regression on the data's own values, the searches with equal tests. Then random small worlds,
whose every individual is known: is what shrinking finds the nearest? Half of them have findings in stretches, half have
a few that are scattered at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from evenhand.explanations.examples import Shrinker
from evenhand.models.base import Model
from evenhand.runs.replay import judge_of, probe_of
from evenhand.spaces.realism import Distance

SEARCHES = ("themis", "aequitas", "kosei", "symbolic", "adf")
TESTS, WORLDS, PEOPLE = 4_000, 60, 20


def model_of(data: Any) -> Any:
    """Fit a logistic regression on the data's own values."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    X, y = data.train[list(data.features)], data.train[data.target]
    texts = [a.name for a in data.attributes if a.kind in ("nominal", "ordinal")]
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts), remainder=StandardScaler()
    )
    return make_pipeline(encode, LogisticRegression(max_iter=500)).fit(X, y)


def searched(tests: int) -> dict[str, Any]:
    """Let each search look for findings on Adult, and tell how real they are."""
    data = eh.datasets.load("adult")
    model, out = model_of(data), {}
    for name in SEARCHES:
        run = eh.audit(model, data.space(), name, eh.Budget(tests=tests), data=data.train)
        examples, seconds = cpu(lambda run=run: eh.examples(run, data=data.train, n=10))
        out[name] = {
            "tests": run.tests,
            "findings": run.found,
            "realistic": None if examples.realistic is None else short(examples.realistic),
            "examples": len(examples),
            "changed": short(float(np.mean([len(example.changed) for example in examples]))) if len(examples) else None,
            "realistic_examples": sum(bool(example.realistic) for example in examples),
            "rows": examples.rows,
            "cpu_seconds": short(seconds),
        }
        print(name, out[name], flush=True)
    return out


class Known(Model):
    """Answers from a table of everybody."""

    name, input = "known", "array"

    def __init__(self, space: eh.Space, table: Any) -> None:
        self.space, self.table = space, table

    def labels(self, X: Any) -> Any:
        """Look the answers up."""
        return self.table[self.space.coding.ids(X.astype(np.int32))]


def world(number: int) -> Known:
    """Make a small world: five attributes, some of them nominal, and a table that is smooth or scattered."""
    rng = np.random.default_rng(number)
    sizes = rng.integers(3, 8, size=5).tolist()
    kinds = rng.random(5) < 0.4
    attributes = [
        eh.Nominal(f"x{j}", range(size)) if nominal else eh.Integer(f"x{j}", 0, size - 1)
        for j, (size, nominal) in enumerate(zip(sizes, kinds, strict=True))
    ]
    space = eh.Space([*attributes, eh.Integer("sex", 0, 1)], protected="sex")
    rows = space.coding.rows(np.arange(space.coding.total))
    if number % 2:
        return Known(space, (rng.random(len(rows)) < 0.005).astype(np.int64))
    score = np.sin(rows[:, :-1] @ rng.normal(size=5)) + rng.normal() * 0.05 * rows[:, -1]
    return Known(space, (score > 0.9).astype(np.int64))


def compared(number: int, exact: bool) -> tuple[int, int]:
    """Shrink findings to random people of a world; count those that are the nearest, and all."""
    model = world(number)
    space, rng = model.space, np.random.default_rng([1, number])
    run = eh.audit(model, space, "themis", eh.Budget(tests=100_000))
    if not run.found:
        return 0, 0
    rows = space.coding.rows(np.arange(space.coding.total))
    other = rows.copy()
    other[:, -1] = 1 - other[:, -1]
    unfair = rows[model.labels(rows) != model.labels(other)]
    people = rows[rng.integers(len(rows), size=PEOPLE)]
    findings = run.pairs.individuals("individual", rng.integers(run.found, size=1)).rows
    shrunk = Shrinker(judge_of(run, probe_of(run, None, "")), exact).shrink(people, findings.repeat(PEOPLE, axis=0))
    distance = Distance(space)
    least = np.array([distance.order(unfair, person).min() for person in people])
    return int(np.isclose(distance.order(shrunk, people), least).sum()), PEOPLE


def measure(tests: int, worlds: int) -> dict[str, Any]:
    """Measure both."""
    result: dict[str, Any] = {"machine": facts(), "settings": {"tests": tests, "worlds": worlds}}
    result["searches"] = searched(tests)
    result["nearest"] = {}
    for name, exact, which in (
        ("enumerated", True, range(worlds)),
        ("searched, clustered findings", False, range(0, worlds, 2)),
        ("searched, scattered findings", False, range(1, worlds, 2)),
    ):
        counts = np.sum([compared(number, exact) for number in which], axis=0)
        result["nearest"][name] = {"nearest": int(counts[0]), "of": int(counts[1])}
        print(name, result["nearest"][name], flush=True)
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "realism.json")
    options.add_argument("--tests", type=int, default=TESTS, help="tests of each search")
    options.add_argument("--worlds", type=int, default=WORLDS, help="small worlds")
    given = options.parse_args(arguments)
    save(given.out, measure(given.tests, given.worlds))


if __name__ == "__main__":
    main()
