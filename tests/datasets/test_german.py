"""German credit against UCI's description, and against facts about the papers' coding."""

import pytest

from evenhand import datasets

PAPER_DOMAINS = [
    (0, 3), (1, 80), (0, 4), (0, 10), (1, 200), (0, 4), (0, 4), (1, 4), (0, 1), (0, 2), (1, 4), (0, 3),
    (1, 8), (0, 2), (0, 2), (1, 4), (0, 3), (1, 2), (0, 1), (0, 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def german():
    return datasets.load("german")


def test_outcomes(german):
    assert german.frame["credit_risk"].value_counts().to_dict() == {"good": 700, "bad": 300}


def test_known_counts(german):
    assert german.table["personal_status_sex"].value_counts().to_dict() == {
        "male: single": 548,
        "female: divorced/separated/married": 310,
        "male: married/widowed": 92,
        "male: divorced/separated": 50,
    }
    assert german.frame["foreign_worker"].value_counts().to_dict() == {"yes": 963, "no": 37}
    assert german.frame["checking_status"].value_counts().to_dict() == {
        "no account": 394, "below 0 DM": 274, "0 to 199 DM": 269, "200 DM or more": 63,
    }  # fmt: skip


def test_sex_and_marital_status_are_apart(german):
    assert "personal_status_sex" not in german.frame
    people = german.frame[["sex", "marital_status"]].value_counts().to_dict()
    assert people == {
        ("male", "single"): 548,
        ("female", "married or once married"): 310,
        ("male", "married or once married"): 142,
    }


def test_paper_frame(german):
    frame = german.paper_frame()
    assert frame.shape == (1_000, 21)
    assert frame.head(2).to_numpy().tolist() == [
        [0, 6, 4, 3, 11, 4, 4, 4, 0, 0, 4, 0, 6, 2, 1, 2, 2, 1, 1, 0, 1],
        [1, 48, 2, 3, 59, 0, 2, 2, 1, 0, 2, 0, 2, 2, 1, 1, 2, 1, 0, 0, 0],
    ]
    assert not frame.duplicated().any()
    assert 7 not in set(frame["purpose"])


def test_paper_ranges(german):
    columns = {name: (column.min(), column.max()) for name, column in german.paper_frame().items()}
    assert columns.pop("class") == (0, 1)
    narrower = {"duration": (4, 72), "credit_amount": (2, 184), "age": (1, 7)}
    assert columns == dict(zip(german.paper_space().names, PAPER_DOMAINS, strict=True)) | narrower


def test_paper_space(german):
    space = german.paper_space()
    assert [(a.low, a.high) for a in space.attributes] == PAPER_DOMAINS
    assert space.encode(german.paper_frame()).clipped == 0
