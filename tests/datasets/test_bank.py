"""Bank marketing against UCI's description, and against facts about the papers' coding."""

import pytest

from evenhand import datasets

PAPER_DOMAINS = {
    "age": (1, 9), "job": (0, 11), "marital": (0, 2), "education": (0, 3), "default": (0, 1),
    "balance": (-20, 179), "housing": (0, 1), "loan": (0, 1), "contact": (0, 2), "day": (1, 31),
    "month": (0, 11), "duration": (0, 99), "campaign": (1, 63), "pdays": (-1, 39), "previous": (0, 1),
    "poutcome": (0, 3),
}  # fmt: skip


@pytest.fixture(scope="module")
def bank():
    return datasets.load("bank")


def test_outcomes(bank):
    assert bank.frame["y"].value_counts().to_dict() == {"no": 39_922, "yes": 5_289}


def test_rows_are_in_the_order_of_uci(bank):
    first, last = bank.frame.iloc[0], bank.frame.iloc[-1]
    assert first[["age", "job", "balance", "duration", "month"]].tolist() == [
        58,
        "management",
        2143,
        261,
        "may",
    ]
    assert last[["age", "job", "balance", "duration", "month"]].tolist() == [
        37,
        "entrepreneur",
        2971,
        361,
        "nov",
    ]


def test_known_counts(bank):
    assert bank.frame["marital"].value_counts().to_dict() == {
        "married": 27_214, "single": 12_790, "divorced": 5_207,
    }  # fmt: skip
    assert (bank.frame["pdays"] == -1).sum() == (bank.frame["previous"] == 0).sum() == 36_954
    assert not bank.frame.isna().any(axis=None)


def test_paper_frame(bank):
    frame = bank.paper_frame()
    assert frame.shape == (45_211, 17)
    assert frame.head(3).to_numpy().tolist() == [
        [5, 3, 0, 3, 0, 42, 1, 0, 0, 5, 4, 26, 1, 1, 0, 0, 0],
        [4, 10, 2, 1, 0, 0, 1, 0, 0, 5, 4, 15, 1, 1, 0, 0, 0],
        [3, 5, 0, 1, 0, 0, 1, 1, 0, 5, 4, 7, 1, 1, 0, 0, 0],
    ]
    ranges = {name: (column.min(), column.max()) for name, column in frame.items()}
    assert ranges == PAPER_DOMAINS | {"pdays": (0, 1), "y": (0, 1)}


def test_paper_steps_go_down_below_zero(bank):
    codes = bank.paper_frame()["balance"].groupby(bank.frame["balance"]).first()
    expected = {-8019: -20, -954: -20, -948: -19, -51: -2, -50: -1, -1: -1, 0: 0, 49: 0, 50: 1, 8947: 178}
    expected |= {8950: 179, 102_127: 179}
    assert codes[list(expected)].to_dict() == expected


def test_paper_space(bank):
    space = bank.paper_space()
    assert {a.name: (a.low, a.high) for a in space.attributes} == PAPER_DOMAINS
    assert space.encode(bank.paper_frame()).clipped == 0
