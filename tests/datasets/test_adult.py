"""UCI Adult against UCI's description, and against facts about the papers' coding."""

import pytest

from evenhand import datasets

PAPER_DOMAINS = {
    "age": (1, 9), "workclass": (0, 7), "fnlwgt": (0, 39), "education": (0, 15), "marital_status": (0, 6),
    "occupation": (0, 13), "relationship": (0, 5), "race": (0, 4), "sex": (0, 1), "capital_gain": (0, 99),
    "capital_loss": (0, 39), "hours_per_week": (0, 99), "native_country": (0, 39),
}  # fmt: skip


@pytest.fixture(scope="module")
def adult():
    return datasets.load("adult")


def test_outcomes(adult):
    assert adult.train["income"].value_counts().to_dict() == {"<=50K": 24_720, ">50K": 7_841}
    assert adult.test["income"].value_counts().to_dict() == {"<=50K": 12_435, ">50K": 3_846}
    assert round((adult.train["income"] == ">50K").mean(), 4) == 0.2408


def test_known_counts(adult):
    assert adult.train["sex"].value_counts().to_dict() == {"Male": 21_790, "Female": 10_771}
    assert adult.train["race"].value_counts().to_dict() == {
        "White": 27_816, "Black": 3_124, "Asian-Pac-Islander": 1_039, "Amer-Indian-Eskimo": 311, "Other": 271,
    }  # fmt: skip


def test_question_marks_are_missing_values(adult):
    missing = adult.frame.isna().sum()
    assert missing[missing > 0].to_dict() == {"workclass": 2_799, "occupation": 2_809, "native_country": 857}
    assert len(adult.frame.dropna()) == 45_222
    assert not (adult.frame == "?").any(axis=None)


def test_sampling_weight_and_education_num_are_not_features(adult):
    assert {"fnlwgt", "education_num"} <= set(adult.table) - set(adult.features)
    twins = adult.table[["education", "education_num"]].drop_duplicates().sort_values("education_num")
    education = adult.attributes[adult.features.index("education")]
    assert tuple(twins["education"]) == education.values


def test_sex_turns_a_husband_into_a_wife_and_back(adult):
    space = adult.space()
    married = adult.frame[adult.frame["relationship"].isin(["Husband", "Wife"])].drop_duplicates("relationship")
    family = space.families(space.encode(married).individuals, seed=0)
    people = space.frame(family.asked)[["sex", "relationship"]].drop_duplicates()
    assert sorted(people.itertuples(index=False, name=None)) == [("Female", "Wife"), ("Male", "Husband")]


def test_links_only_from_protected_to_free(adult):
    assert adult.space("race").links == {}
    assert adult.space(["sex", "relationship"]).links == {}
    assert "sex" in adult.space(["race", "sex"]).links
    assert adult.paper_space().links == {}


def test_paper_frame(adult):
    frame = adult.paper_frame()
    assert frame.shape == (32_561, 14)
    assert frame.head(3).to_numpy().tolist() == [
        [3, 5, 3, 0, 2, 8, 3, 0, 1, 2, 0, 40, 0, 0],
        [5, 1, 4, 0, 0, 4, 2, 0, 1, 0, 0, 13, 0, 0],
        [3, 0, 10, 3, 1, 6, 3, 0, 1, 0, 0, 40, 0, 0],
    ]
    outside = {"workclass": (0, 100), "fnlwgt": (0, 74), "occupation": (0, 100), "capital_loss": (0, 43)}
    ranges = PAPER_DOMAINS | outside | {"native_country": (0, 100), "hours_per_week": (1, 99), "income": (0, 1)}
    assert {name: (column.min(), column.max()) for name, column in frame.items()} == ranges


def test_paper_space(adult):
    space = adult.paper_space()
    assert {a.name: (a.low, a.high) for a in space.attributes} == PAPER_DOMAINS
    assert space.encode(adult.paper_frame()).clipped == 2_427
