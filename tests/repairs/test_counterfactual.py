from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import StrategyError

from .people import by_pay, repair

LINKED = eh.Space(
    [
        eh.Integer("pay", 0, 99),
        eh.Nominal("sex", ["F", "M"]),
        eh.Nominal("race", ["x", "y", "z"]),
        eh.Nominal("role", ["wife", "husband", "single"]),
    ],
    protected=["sex", "race"],
    constraints=["race != 'z' or pay <= 50"],
    links={"sex": {"role": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
)


def rows(n: int) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], n)
    married = np.where(sex == "F", "wife", "husband")
    X = pd.DataFrame({"pay": rng.integers(0, 120, n), "sex": sex, "race": rng.choice(["x", "y"], n), "role": married})
    return X.assign(role=X["role"].where(rng.random(n) < 0.7, "single")), rng.integers(0, 2, n)


@pytest.mark.parametrize("counterparts", ["one", "all"])
def test_counterparts_differ_in_protected_or_linked_attributes(counterparts: Any) -> None:
    X, y = rows(80)
    seen: list[Any] = []

    def train(X: Any, y: Any) -> Any:
        seen.append((X, y))
        return by_pay({"F": 60, "M": 40})

    done = repair(train, X, y, LINKED, eh.repairs.Counterfactual(counterparts), held_out=rows(30), samples=500,
                     budget=eh.Budget(tests=200), watch=())  # fmt: skip
    (before, labels), (after, more), (control, _) = seen
    assert sorted(control.to_numpy().tolist()) == sorted(before.to_numpy().tolist())
    assert (after[: len(before)] == before).all(axis=None)
    assert (more[: len(labels)] == labels).all()
    added = [tuple(row) for row in after[len(before) :].itertuples(index=False)]
    assert done.rows_added == len(added)
    wanted = []
    for row, label in zip(before.itertuples(index=False), labels, strict=True):
        mine = []
        for sex in ("F", "M"):
            for race in ("x", "y", "z"):
                role = row.role
                if sex != row.sex and role != "single":
                    role = {"F": "wife", "M": "husband"}[sex]
                valid = race != "z" or row.pay <= 50
                if valid and (sex, race) != (row.sex, row.race):
                    # Pay beyond the space's bounds stays as the user gave it.
                    mine.append((row.pay, sex, race, role, label))
        wanted.append(mine)
    got = [(*row, label) for row, label in zip(added, more[len(labels) :], strict=True)]
    if counterparts == "all":
        assert sorted(got) == sorted(one for mine in wanted for one in mine)
    else:
        assert len(got) == len(before)
        assert all(one in mine for one, mine in zip(got, wanted, strict=True))
        assert len({(sex, race) for _, sex, race, _, _ in got}) == 6


def test_rows_outside_the_space_get_no_counterpart() -> None:
    X, y = rows(40)
    X.loc[:4, "role"] = "widow"
    sizes: list[int] = []

    def train(X: Any, y: Any) -> Any:
        sizes.append(len(X))
        return by_pay({"F": 60, "M": 40})

    done = repair(train, X, y, LINKED, "counterfactual", held_out=rows(30), samples=300,
                     budget=eh.Budget(tests=100), watch=())  # fmt: skip
    assert sizes == [40, 75, 40]
    assert done.notes == ["5 training rows are outside the space or have no counterpart; none was added"]


def test_wrong_settings() -> None:
    with pytest.raises(StrategyError, match="counterparts"):
        eh.repairs.Counterfactual("some")  # type: ignore[arg-type]
