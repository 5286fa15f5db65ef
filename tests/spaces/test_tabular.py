from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.errors import DataError, EvenhandError, SpaceError
from evenhand.spaces import individuals as individuals_module
from evenhand.spaces.individuals import Individuals
from tests.worlds import World, worlds


def people(**options: Any) -> eh.Space:
    attributes = [
        eh.Integer("age", 18, 21),
        eh.Nominal("relationship", ["Husband", "Wife", "Single"]),
        eh.Nominal("sex", ["Female", "Male"]),
        eh.Integer("pregnancies", 0, 2),
        eh.Nominal("race", ["a", "b", "c"]),
    ]
    return eh.Space(attributes, **{"protected": ["sex"], **options})


LINKS = {
    "sex": {
        "relationship": {"Female": {"Husband": "Wife"}, "Male": {"Wife": "Husband"}},
        "pregnancies": {"Male": {1: 0, 2: 0}},
    }
}


@settings(max_examples=60, deadline=None)
@given(worlds(most=600))
def test_ids_and_rows_correspond(world: World) -> None:
    coding = world.space.coding
    every = np.arange(coding.total)
    rows = coding.rows(every)
    assert len({tuple(r) for r in rows.tolist()}) == coding.total
    assert (coding.ids(rows) == every).all()


def test_large_spaces_count_in_limbs() -> None:
    space = eh.Space([*(eh.Integer(f"a{j}", 0, 999) for j in range(6)), eh.Boolean("b")], protected="b")
    rows = np.random.default_rng(0).integers(0, space.sizes, (1000, 7)).astype(np.int32)
    assert (space.coding.rows(space.coding.ids(rows)) == rows).all()


@settings(max_examples=60, deadline=None)
@given(worlds(constraints=True))
def test_families_match_plain_loops(world: World) -> None:
    space = world.space
    individuals, _ = space.sampler.draw(Stream(1), 0, 50)
    families = space.families(individuals, seed=0)
    for i, row in enumerate(individuals.rows):
        valid = np.ones(families.width, dtype=bool) if families.valid is None else families.valid[i]
        members = [m.tolist() for m in world._members(row)]
        assert families.rows[i][valid].tolist() == members
        assert families.rows[i, families.own[i]].tolist() == row.tolist()


def test_links_follow_a_protected_attribute_and_twins_are_one_test() -> None:
    space = people(links=LINKS)
    frame = pd.DataFrame(
        [
            [20, "Husband", "Male", 0, "a"],
            [20, "Wife", "Female", 0, "a"],
            [20, "Wife", "Female", 2, "a"],
            [20, "Single", "Male", 0, "a"],
        ],
        columns=list(space.names),
    )
    individuals = space.encode(frame, strict=True).individuals
    families = space.families(individuals, seed=0)
    members = [space.frame(rows).to_numpy().tolist() for rows in families.rows]
    assert members[0] == [[20, "Wife", "Female", 0, "a"], [20, "Husband", "Male", 0, "a"]]
    assert members[2] == [[20, "Wife", "Female", 2, "a"], [20, "Husband", "Male", 0, "a"]]
    keys = individuals.keys
    assert keys[0] == keys[1]
    assert len(set(keys.tolist())) == 3


def test_findings_with_links_show_the_followed_attributes() -> None:
    space = people(links=LINKS)
    run = eh.audit(lambda frame: frame["relationship"] == "Wife", space, strategy="themis")
    frame = run.findings
    assert {"counterpart_sex", "counterpart_relationship", "counterpart_pregnancies"} <= set(frame.columns)
    swapped = frame.assign(**{name: frame[f"counterpart_{name}"] for name in ("sex", "relationship", "pregnancies")})
    assert ((frame["relationship"] == "Wife") == frame["decision"]).all()
    assert ((swapped["relationship"] == "Wife") == frame["counterpart_decision"]).all()
    world = World(space, (space.coding.rows(np.arange(space.coding.total))[:, 1] == 1).astype(int))
    # What is shown is one member of the family, so its test is found through the pair itself.
    pairs = zip(run.pairs.individuals().ids.tolist(), run.pairs.individuals("counterpart").ids.tolist(), strict=True)
    families = world.families()
    unfair = {frozenset(space.coding.ids(np.array(families[key])).tolist()) for key in world.unfair_keys()}
    assert {frozenset(pair) for pair in pairs} == unfair


def test_large_families_are_sampled() -> None:
    attributes = [eh.Integer("x", 0, 9), eh.Integer("age", 0, 99), eh.Integer("country", 0, 49)]
    space = eh.Space(attributes, protected=["age", "country"], max_family_size=40)
    assert "sampled from 5,000" in repr(space)
    individuals = Individuals(space, rows=space.coding.rows(np.arange(0, space.coding.total, 997)))
    families, again = space.families(individuals, seed=3), space.families(individuals, seed=3)
    assert (families.rows == again.rows).all()
    assert (families.rows[np.arange(len(individuals)), families.own] == individuals.rows).all()
    for combinations in families.combinations:
        assert len(set(combinations.tolist())) == 40
    other = space.families(individuals, seed=4)
    assert (families.combinations != other.combinations).any()
    run = eh.audit(lambda f: f["age"] > 50, space, strategy="themis")
    assert (run.tests, run.rows) == (10, 400)


@pytest.mark.parametrize(
    ("constraints", "valid"),
    [
        (["age >= 20"], lambda f: f["age"] >= 20),
        (["sex != 'Male' or pregnancies == 0"], lambda f: (f["sex"] != "Male") | (f["pregnancies"] == 0)),
        (["age > 18", "age < 20 or race == 'a'"], lambda f: (f["age"] > 18) & ((f["age"] < 20) | (f["race"] == "a"))),
    ],
)
def test_samples_are_valid_uniform_and_complete(constraints: list[str], valid: Any) -> None:
    space = people(constraints=constraints)
    every = space.frame(space.coding.rows(np.arange(space.coding.total)))
    dealt, _ = space.sampler.draw(Stream(0), 0, 10_000)
    assert sorted(dealt.ids.tolist()) == np.flatnonzero(valid(every)).tolist()


def test_rejection_where_a_list_would_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.spaces.individuals.LISTED", 1)
    space = people(constraints=["age >= 20 and race != 'a'"])
    assert space.sampler.rejects
    dealt, at = space.sampler.draw(Stream(0), 0, 20)
    rest, _ = space.sampler.draw(Stream(0), at, 10_000)
    every = space.frame(space.coding.rows(np.arange(space.coding.total)))
    expected = np.flatnonzero((every["age"] >= 20) & (every["race"] != "a"))
    assert sorted([*dealt.ids.tolist(), *rest.ids.tolist()]) == expected.tolist()


def test_wide_spaces_have_distinct_keys() -> None:
    space = eh.Space([*(eh.Real(f"r{j}", 0, 1, 0.001) for j in range(12)), eh.Boolean("b")], protected="b")
    assert not space.coding.fits
    individuals, _ = space.sampler.draw(Stream(0), 0, 20_000)
    assert len(set(individuals.keys.tolist())) == 20_000
    twin = individuals.rows.copy()
    twin[:, -1] ^= 1
    assert (space.individuals(twin).keys == individuals.keys).all()
    assert (individuals.keys.imag % 2 == 0).all()
    moved = space.neighbours(individuals[:3]).rows
    assert all((moved[i] != individuals.rows[i // (len(moved) // 3)]).sum() == 1 for i in range(0, len(moved), 7))
    run = eh.audit(lambda f: (f["r0"] > 0.5) & f["b"], space, strategy="kosei", budget=eh.Budget(tests=3000))
    assert run.found > 1000


@pytest.mark.parametrize("size", [200, 40_000, 3_000_000])
def test_stored_individuals_of_wide_spaces_move_as_they_did(size: int) -> None:
    attributes = [*(eh.Integer(f"n{j}", 0, size) for j in range(10)), eh.Nominal("work", range(3)), eh.Boolean("b")]
    space = eh.Space(attributes, protected="b")
    assert not space.coding.fits
    individuals, _ = space.sampler.draw(Stream(0), 0, 50)
    stored = individuals.stored
    assert stored.itemsize * 8 >= size.bit_length()
    again = Individuals.from_stored(space, stored)
    assert (space.neighbours(again).rows == space.neighbours(individuals).rows).all()


def test_missing_values_are_valid_only_where_the_data_has_them() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0], "y": [1, 2, 3], "sex": ["F", "M", None]})
    space = eh.Space.infer(frame, protected="sex", missing="group")
    decoded = space.frame(space.encode(frame, strict=True).individuals.rows)
    pd.testing.assert_frame_equal(decoded, frame)
    with pytest.raises(DataError, match="'y'|y ="):
        space.encode(frame.assign(y=[1, None, 2]), strict=True)


def test_data_outside_the_space_is_clipped_or_dropped_and_counted() -> None:
    space = people(constraints=["age < 21"])
    frame = pd.DataFrame(
        [
            [18, "Wife", "Male", 0, "a"],
            [3, "Wife", "Male", 9, "a"],
            [18, "Cousin", "Male", 0, "a"],
            [30, "Wife", "Male", 0, "a"],
        ],
        columns=list(space.names),
    )
    encoded = space.encode(frame)
    assert (len(encoded.individuals), encoded.clipped, encoded.dropped) == (2, 1, 2)
    assert encoded.positions.tolist() == [0, 1]
    for i, word in ((1, "age = 3"), (2, "Cousin"), (3, "age = 30")):
        with pytest.raises(DataError, match=word):
            space.encode(frame.iloc[[i]], strict=True)
    with pytest.raises(DataError, match="breaks the constraint 'age < 21'"):
        space.encode(frame.iloc[[0]].assign(age=21), strict=True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protected": "sx"}, "no attribute 'sx'.*sex"),
        ({"protected": []}, "name at least one"),
        ({"protected": ["sex", "sex"]}, "once"),
        ({"protected": ["age", "relationship", "sex", "pregnancies", "race"]}, "must not name every attribute"),
        ({"constraints": ["age > 30"]}, "no valid individual.*age > 30"),
        ({"constraints": ["age > 19", "age < 19"]}, "cannot hold together"),
        ({"links": {"race": {}}}, "start at a protected attribute"),
        ({"links": {"sex": {"race": {"Other": {}}}}}, None),
        ({"links": {"sex": {"race": {"Male": {"a": "zz"}}}}}, "'zz' is not a value of 'race'"),
        ({"links": {"sex": {"sex": {"Male": {}}}}}, "end at a free attribute"),
        ({"max_family_size": 1}, "max_family_size"),
        ({"protected": 5}, "got 5"),
        ({"links": [1]}, "links must have nested mappings"),
        ({"links": {"sex": {"race": 5}}}, "links must have nested mappings.*got 5"),
        ({"links": {"sex": {"race": {"Male": 5}}}}, "links must have nested mappings.*got 5"),
        ({"protected": ["sex", "race"], "max_family_size": 5, "links": LINKS}, "max_family_size must be at least 6"),
        ({"sensitive_features": "race"}, "two names for one setting"),
    ],
)
def test_wrong_spaces_are_refused(wrong: dict[str, Any], words: str | None) -> None:
    if words is None:
        people(**wrong)
        return
    with pytest.raises(SpaceError, match=words):
        people(**wrong)


def test_wrong_attributes() -> None:
    with pytest.raises(SpaceError, match="must have different names.*'a'"):
        eh.Space([eh.Boolean("a"), eh.Boolean("a")], protected="a")
    with pytest.raises(SpaceError, match="single value"):
        eh.Space([eh.Boolean("a"), eh.Nominal("sex", ["F"])], protected="sex")
    with pytest.raises(SpaceError, match="attributes must be.*got 'a'"):
        eh.Space(["a"], protected="a")  # type: ignore[list-item]
    with pytest.raises(SpaceError, match="attributes must have at least one"):
        eh.Space([], protected="a")


def test_rows_outside_the_space_are_refused() -> None:
    space = people()
    with pytest.raises(DataError, match="individual 0 is outside the space: 'age' has code 9"):
        space.individuals([[9, 0, 0, 0, 0]])
    with pytest.raises(DataError, match="shape"):
        space.individuals([[1, 2]])


def test_sensitive_features_is_another_name_of_protected() -> None:
    assert people(protected=None, sensitive_features="sex") == people()


@settings(max_examples=40, deadline=None)
@given(worlds(), st.integers(0, 3))
def test_arrays_and_frames_hold_the_same_values(world: World, seed: int) -> None:
    individuals, _ = world.space.sampler.draw(Stream(seed), 0, 40)
    families = world.space.families(individuals, 0)
    assert (families.array() == world.space.frame(families.asked).to_numpy(dtype=float)).all()


@settings(max_examples=60, deadline=None)
@given(world=worlds(), most=st.integers(1, 40))
def test_numbers_come_from_ids_as_from_rows(world: World, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Groups of one column, of some, and of all.
        patch.setattr(individuals_module, "LOOKED_UP", most)
        space = eh.Space(world.space.attributes, world.space.protected, world.space.constraints)
        ids = np.arange(space.coding.total)
        assert (Individuals(space, ids=ids).numbers == space.array(space.coding.rows(ids))).all()


def test_families_of_an_empty_block() -> None:
    for limit in (2, 64):
        space = eh.Space([eh.Integer("age", 1, 9), eh.Integer("pay", 1, 9)], protected="age", max_family_size=limit)
        empty = space.individuals(np.zeros((0, 2), dtype=np.int32))
        assert len(space.families(empty, 0)) == 0


def test_wrong_kinds_of_arguments() -> None:
    """Each error names the parameter, its value and what to do."""
    age, sex = eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])
    frame = pd.DataFrame({"age": [1, 2], "sex": ["F", "M"]})
    calls: list[tuple[str, Any, Callable[[], object]]] = [
        ("attributes", age, lambda: eh.Space(age, protected="sex")),  # type: ignore[arg-type]
        ("protected", 5, lambda: eh.Space([age, sex], protected=5)),  # type: ignore[arg-type]
        ("protected", 5, lambda: eh.Space.infer(frame, protected=5)),  # type: ignore[arg-type]
        ("path", 5, lambda: eh.Space.load(5)),  # type: ignore[arg-type]
    ]
    for parameter, value, call in calls:
        with pytest.raises(EvenhandError) as caught:
            call()
        assert (caught.value.parameter, caught.value.value) == (parameter, value)
        assert caught.value.remedy


def test_data_without_a_row_of_the_space_is_refused() -> None:
    """A search and an estimate of the data would otherwise leave the data out without a word."""
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    none = "none of them in the space"
    for rows, why in (
        ({"age": [1, 2], "sex": ["X", "X"]}, none),
        ({"age": ["u"], "sex": ["F"]}, none),
        ({"age": [], "sex": []}, "data has no rows"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            space.bind(rows, None)
        assert caught.value.parameter == "data"
        assert caught.value.remedy
    assert len(space.bind({"age": [1, 2], "sex": ["X", "F"]}, None).people) == 1


def test_missing_columns_and_contradictions_say_what_to_do() -> None:
    space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    for columns, there in (({}, "it has no columns"), ({"age": [1]}, "it has 'age'")):
        with pytest.raises(DataError) as caught:
            space.encode(columns)
        assert caught.value.reason.endswith(there)
        assert caught.value.remedy == "name its columns like the attributes"
    with pytest.raises(SpaceError, match="'age > 10' cannot hold; loosen it or"):
        eh.Space(space.attributes, "sex", constraints=["age > 10"])
