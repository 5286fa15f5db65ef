from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evenhand as eh
from evenhand.errors import DataError, SpaceError
from tests.text_worlds import team_space, team_texts

TEXTS = ["The reds won.", "We won.", "Blues and reds lost.", "reds"]


@pytest.mark.parametrize(
    "data",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        pd.Series(TEXTS, index=[7, 7, 1, 0]),
        pd.DataFrame({"n": range(4), "text": TEXTS}),
        {"text": TEXTS},
        pytest.importorskip("polars").DataFrame({"text": TEXTS}),
        pytest.importorskip("polars").Series(TEXTS),
    ],
    ids=lambda data: type(data).__module__ + type(data).__name__,
)
def test_texts_from_various_containers(data: Any) -> None:
    bound = team_space().begin(data)
    assert bound.seeds.rows == [TEXTS[0], TEXTS[2], TEXTS[3]]
    assert bound.positions.tolist() == [0, 2, 3]
    assert (bound.without, bound.alone, bound.missing) == (1, 0, 0)


def test_missing_texts_are_dropped_and_counted() -> None:
    for nothing in (None, float("nan"), np.nan, pd.NA, pd.NaT):
        bound = team_space().begin([nothing, "The reds won."])
        assert (bound.positions.tolist(), bound.missing) == ([1], 1)
    frame = pd.DataFrame({"body": ["The reds won.", None]})
    assert team_space(column="body").begin(frame).missing == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "data must be texts.*data="),
        ("The reds won.", "list"),
        (["Hello."], "none of 1 texts.*team"),
        ([], "data must be texts to start from"),
        ([None, float("nan")], "data must be texts to start from, and all 2 are missing"),
        (["reds", 3], "text 1 must be a string, got 3"),
        (["reds", b"reds"], "text 1 must be a string"),
        (5, "data must be .*got 5"),
        (pd.DataFrame({"txt": ["reds"]}), "no column 'text'.*'txt'.*column="),
    ],
)
def test_data_that_are_none(data: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        team_space().begin(data)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"protected": "religions"}, "did you mean 'religion'"),
        ({"protected": []}, "at least one"),
        ({"protected": 3}, "lexicons"),
        ({"k": 0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"max_family_size": 1}, "max_family_size must be"),
        ({"occurrences": "all"}, "occurrences must be one of 'each', 'together'"),
        ({"ambiguous": "no"}, "ambiguous must be one of"),
        ({"avoid_protected": "no"}, "avoid_protected must be True or False, got 'no'"),
        ({"agree": "yes"}, "agree must be True or False"),
        ({"column": 3}, "column must be the name of a column, got 3"),
    ],
)
def test_settings_that_are_none(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        eh.TextSpace(**{"protected": "religion", **settings})


def test_vectors_are_read_when_they_are_needed(tmp_path: Path) -> None:
    space = eh.TextSpace("religion", tmp_path / "none.npz")
    with pytest.raises(DataError, match="no such file"):
        space.begin(["A Sikh."])


def test_a_space_comes_back_from_its_description() -> None:
    for space in (team_space(k=3, max_family_size=7), eh.TextSpace(["gender", "religion"], occurrences="together")):
        described = json.loads(json.dumps(space.describe()))
        again = eh.TextSpace.described(described)
        assert again == space
        assert again.lexicons[0].cells == space.lexicons[0].cells
    assert team_space() != team_space(k=3)


def test_similar_words_come_from_the_model_by_default() -> None:
    texts = ["reds ba be", "blues be bi"]

    def embed(words: list[str]) -> Any:
        return np.array([[ord(word[0]), ord(word[-1])] for word in words], dtype=float)

    none = eh.TextSpace({"team": ["reds", "blues"]})
    assert none.begin(texts).moves is None
    own = none.begin(texts, embed)
    assert own.similar is not None
    assert own.similar.words == ["ba", "be", "bi", "blues", "reds"]
    unknown = none.begin(texts, lambda words: [[1.0, len(w)] if w != "ba" else [2.0, 1.0] for w in words])
    assert unknown.similar.words == ["ba", "blues", "reds"]
    assert none.begin(texts, embed, ["be", "bo"]).similar.of("be") == ["bo"]
    given = eh.TextSpace({"team": ["reds", "blues"]}, (["x", "y"], np.eye(2))).begin(texts, embed)
    assert given.similar.words == ["x", "y"]


def test_protected_terms_are_not_similar_words_by_default() -> None:
    vectors = (["Muslim", "reds", "cat", "dog"], np.ones((4, 2)))
    space = eh.TextSpace({"team": ["reds", "blues"]}, vectors)
    assert space.similar.of("dog") == ["cat"]
    wild = eh.TextSpace({"team": ["reds", "blues"]}, vectors, avoid_protected=False)
    assert {"Muslim", "reds", "cat"} == set(wild.similar.of("dog"))


def test_descriptions_distinguish_vectors() -> None:
    texts = team_texts(0, 3)
    one, other = team_space().begin(texts).describe(), team_space(k=4).begin(texts).describe()
    assert one["similar"] != other["similar"]
    assert one == team_space().begin(texts).describe()
