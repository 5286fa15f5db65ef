"""Spaces as TOML."""

from __future__ import annotations

import datetime
import math
import tomllib

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenhand._files import limit
from evenhand.errors import ConfigError, EvenhandError, SpaceError
from evenhand.spaces.attributes import Boolean, Integer, Nominal, Ordinal, Real
from evenhand.spaces.base import space_digest
from evenhand.spaces.tabular import Space
from evenhand.spaces.toml import dumps, load, loads, save

SEX = Nominal("sex", ["Male", "Female"])


def same(space):
    """Write and read a space, and compare all there is."""
    text = dumps(space)
    back = loads(text)
    assert back == space
    assert space_digest(back) == space_digest(space)
    assert dumps(back) == text
    for old, new in zip(space.attributes, back.attributes, strict=True):
        assert old == new
        assert type(old) is type(new)
        assert [type(v) for v in getattr(old, "values", ())] == [type(v) for v in getattr(new, "values", ())]
        assert repr(old) == repr(new)
    assert back.protected == space.protected
    assert [c.text for c in back.constraints] == [c.text for c in space.constraints]
    assert back.links == space.links
    assert back.max_family_size == space.max_family_size
    return text


def test_the_format():
    space = Space(
        [
            Integer("age", 17, 90),
            Integer("hours", 0, 100, step=5, missing=True, dtype="Int64"),
            Real("ratio", 0, 1, step=0.1),
            Ordinal("education", ["none", "Bachelors"]),
            Nominal("marital-status", ["single", 3, 2.5, True], missing=True, dtype="object"),
            Nominal("relationship", ["Husband", "Wife", "Other"]),
            Boolean("ok"),
            SEX,
        ],
        protected=["sex", "ok"],
        constraints=['education == "none" or age >= 18', "`marital-status` != 3"],
        links={"sex": {"relationship": {"Female": {"Husband": "Wife"}, "Male": {"Wife": "Husband"}}}},
        max_family_size=77,
    )
    assert (
        same(space)
        == """\
protected = ["sex", "ok"]
constraints = [
    "education == \\"none\\" or age >= 18",
    "`marital-status` != 3",
]
max_family_size = 77

[[attribute]]
name = "age"
kind = "integer"
low = 17
high = 90

[[attribute]]
name = "hours"
kind = "integer"
low = 0
high = 100
step = 5
missing = true
dtype = "Int64"

[[attribute]]
name = "ratio"
kind = "real"
low = 0.0
high = 1.0
step = 0.1

[[attribute]]
name = "education"
kind = "ordinal"
values = ["none", "Bachelors"]

[[attribute]]
name = "marital-status"
kind = "nominal"
values = ["single", 3, 2.5, true]
missing = true
dtype = "object"

[[attribute]]
name = "relationship"
kind = "nominal"
values = ["Husband", "Wife", "Other"]

[[attribute]]
name = "ok"
kind = "boolean"

[[attribute]]
name = "sex"
kind = "nominal"
values = ["Male", "Female"]

[links.sex.relationship.Female]
Husband = "Wife"

[links.sex.relationship.Male]
Wife = "Husband"
"""
    )


LINKED = [
    Nominal("code", [1, "1", 2.5, "<missing>", "=1", "2.5"], missing=True),
    Integer("age", 0, 9, missing=True),
    Real("ratio", 0, 1, step=0.25),
    Boolean("ok", missing=True),
    Nominal("sex", ["M", "F", 3], missing=True),
    Boolean("p.q"),
    Integer("born", -5, 5),
]


@pytest.mark.parametrize(
    "links",
    [
        {"sex": {"code": {"M": {1: "1", "1": 1, 2.5: "2.5", "2.5": 2.5, None: "<missing>", "<missing>": None}}}},
        {"sex": {"code": {3: {"=1": 1, 1: "=1"}, None: {None: 1}}}},
        {"sex": {"age": {"F": {3: None, None: 4, 5: 6}}}},
        {"sex": {"ratio": {"F": {0.25: 0.5, 1.0: 0.0}, "M": {0: 1}}}},
        {"p.q": {"ok": {True: {True: False, False: None, None: True}}}},
        {"born": {"age": {-5: {1: 2}, 5: {2: 1}}}, "sex": {"ok": {"M": {True: False}}}},
        {"sex": {}},
        {"sex": {"age": {}}},
        {"sex": {"age": {"F": {}}}},
        {"sex": {"age": {}, "ok": {"F": {}, "M": {True: False}}}},
        {},
    ],
)
def test_links(links):
    same(Space(LINKED, protected=["sex", "p.q", "born"], links=links))


def test_links_given_in_other_words():
    links = {"sex": {"code": {"M": {np.int64(1): np.str_("1"), float("nan"): pd.NA}}}}
    back = loads(dumps(Space(LINKED, protected=["sex", "p.q"], links=links)))
    assert back.links == {"sex": {"code": {"M": {1: "1", None: None}}}}
    with pytest.raises(SpaceError):
        loads(dumps(Space(LINKED, protected=["sex"])) + '[links.sex.age.M]\n3 = "x"\n')


def test_comments_say_why():
    frame = pd.DataFrame({"age": [1, 2], "sex": ["F", "M"]})
    space = Space.infer(frame, "sex")
    text = dumps(space)
    assert "# integer column" in text
    assert loads(text) == space


def test_files(tmp_path):
    space = Space([Nominal("größe", ["ß\r\n", "\u2028"]), SEX], protected="sex")
    path = tmp_path / "space.toml"
    save(space, path)
    assert load(path) == space
    assert load(str(path)) == space
    assert b"\r" not in path.read_bytes()
    assert Space.load(path) == space
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="directory"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="check the path"):
        load("a\0b")
    with pytest.raises(ConfigError, match="cannot be written"):
        save(space, tmp_path / "none" / "space.toml")
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(path)
    path.write_text("protected = [")
    with pytest.raises(ConfigError, match="space.toml: it is not valid TOML"):
        load(path)


@pytest.mark.parametrize(
    "attribute",
    [
        Nominal("x", [(1, 2)]),
        Nominal("x", [datetime.date(2020, 1, 1)]),
        Nominal("x", [b"a"]),
        Nominal("x", ["\ud800"], dtype="object"),
    ],
)
def test_values_that_toml_cannot_hold(attribute):
    with pytest.raises(ConfigError, match="cannot"):
        dumps(Space([attribute, SEX], protected="sex"))


AGE = 'protected = ["sex"]\n[[attribute]]\nname = "sex"\nkind = "boolean"\n[[attribute]]\nname = "age"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs attributes"),
        ("protected = [", "not valid TOML"),
        ("a = 1" + "0" * 5000, "not valid TOML"),
        ("protected = 3\n" + AGE[20:] + 'kind = "boolean"', "'protected' must be a list of texts, got 3"),
        (AGE[20:] + 'kind = "boolean"', "'protected' is missing"),
        ("constraints = [1]\n" + AGE + 'kind = "boolean"', "'constraints' must be a list of texts"),
        (
            'max_family_size = "x"\n' + AGE + 'kind = "boolean"',
            "'max_family_size' in the file must be a whole number, got 'x'",
        ),
        ("max_family_size = true\n" + AGE + 'kind = "boolean"', "'max_family_size' in the file must be a whole number"),
        (
            "max_family_sizes = 3\n" + AGE + 'kind = "boolean"',
            "unknown key 'max_family_sizes' in the file; did you mean 'max_family_size'",
        ),
        ("attribute = 3", "needs attributes"),
        ("attribute = [3]", "needs attributes"),
        (AGE, "'kind' is missing in attribute 2"),
        ("[[attribute]]\nkind = 'boolean'", "'name' is missing in attribute 1"),
        ("[[attribute]]\nname = 3\nkind = 'boolean'", "'name' in attribute 1 must be a text, got 3"),
        (AGE + "kind = 'int'", "'kind' in attribute 'age' must be one of integer"),
        (AGE + "kind = 'integer'", "'low' is missing in attribute 'age'"),
        (AGE + "kind = 'integer'\nlow = 0\nhihg = 3", "unknown key 'hihg' in attribute 'age' of kind integer; did"),
        (AGE + "kind = 'integer'\nlow = 0\nhigh = '3'", "'high' in attribute 'age' must be a number, got '3'"),
        (AGE + "kind = 'integer'\nlow = true\nhigh = 3", "'low' in attribute 'age' must be a number"),
        (AGE + "kind = 'integer'\nlow = -inf\nhigh = 3", "'low' in attribute 'age' must be a number"),
        (AGE + "kind = 'real'\nlow = nan\nhigh = 3", "'low' in attribute 'age' must be a number"),
        (AGE + "kind = 'nominal'", "'values' is missing"),
        (AGE + "kind = 'nominal'\nvalues = 'a'", "'values' in attribute 'age' must be a list, got 'a'"),
        (AGE + "kind = 'nominal'\nvalues = [[1]]", "'values' in attribute 'age' must be texts"),
        (AGE + "kind = 'nominal'\nvalues = [nan]", "'values' in attribute 'age' must be texts"),
        (AGE + "kind = 'nominal'\nvalues = [2020-01-01]", "'values' in attribute 'age' must be texts"),
        (AGE + "kind = 'boolean'\nvalues = ['a']", "unknown key 'values'"),
        (AGE + "kind = 'boolean'\nmissing = 1", "'missing' in attribute 'age' must be true, false or"),
        (AGE + "kind = 'boolean'\ndtype = 1", "'dtype' in attribute 'age' must be a text"),
        (AGE + "kind = 'boolean'\ndtype = 'nonsense'", "must be a dtype of pandas"),
        *[
            (AGE + f"kind = 'integer'\nlow = 0\nhigh = 900\ndtype = '{dtype}'", f"'dtype' in attribute 'age'.*{dtype}")
            for dtype in ("S2000000000", "V2000000000", "U9", "i4,i4", "float128", "interval", "int8", "Int8")
        ],
        ("links = 3\n" + AGE + "kind = 'boolean'", "\\[links\\] must be a table, got 3"),
        (AGE + "kind = 'boolean'\n[links]\nsex = 3", "\\[links.sex\\] must be a table"),
        (AGE + "kind = 'boolean'\n[links.sex]\nage = 3", "\\[links.sex.age\\] must be a table"),
        (AGE + "kind = 'boolean'\n[links.sex.age]\nTrue = 3", "\\[links.sex.age.True\\] must be a table"),
        (AGE + "kind = 'boolean'\n[links.sex.agee.True]", "'agee', which is not an attribute; did you mean 'age'"),
        (AGE + "kind = 'boolean'\n[links.sexx.age.True]", "'sexx', which is not an attribute; did you mean 'sex'"),
        (AGE + "kind = 'boolean'\n[links.sex.age.x]", "'x' in \\[links.sex.age\\] is not a value of 'sex'"),
        (AGE + "kind = 'boolean'\n[links.sex.age.True]\nx = 1", "'x' in \\[links.sex.age.True\\] is not a value"),
        (AGE + "kind = 'boolean'\n[links.sex.age.True]\nTrue = []", "must be those of 'age', got \\[\\]"),
        (
            AGE + "kind = 'integer'\nlow = 0\nhigh = 1\n[links.sex.age.True]\nx = 1",
            "'x' in \\[links.sex.age.True\\] is not a value of 'age'; allowed: whole numbers 0 to 1",
        ),
    ],
)
def test_wrong_files(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        loads(text, "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert len(str(caught.value).split("\n")) <= 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AGE + "kind = 'real'\nlow = 1" + "0" * 400 + "\nhigh = 3", "low of 'age' must be a finite number"),
        (AGE + "kind = 'integer'\nlow = 3\nhigh = 0", "at most high"),
        (AGE + "kind = 'integer'\nlow = 0.5\nhigh = 3", "whole number"),
        (AGE + "kind = 'nominal'\nvalues = []", "at least one value"),
        (AGE + "kind = 'nominal'\nvalues = ['a', 'a']", "list each value once"),
        ("constraints = ['agee > 3']\n" + AGE + "kind = 'boolean'", "did you mean 'age'"),
        ("max_family_size = 1\n" + AGE + "kind = 'boolean'", "max_family_size"),
        (AGE.replace('["sex"]', '["sexx"]') + "kind = 'boolean'", "did you mean 'sex'"),
        (AGE + "kind = 'boolean'\n[links.sex.age.True]\nTrue = 'x'", "'x' is not a value of 'age'"),
        (AGE + "kind = 'boolean'\n[links.age.sex.True]\nTrue = false", "links must start at a protected attribute"),
    ],
)
def test_files_of_impossible_spaces(text, message):
    with pytest.raises(SpaceError, match=message) as caught:
        loads(text, "my.toml")
    assert str(caught.value).startswith("my.toml: ")


def test_the_old_key_limit_is_read():
    assert loads("limit = 7\n" + AGE + "kind = 'boolean'").max_family_size == 7


@pytest.mark.parametrize("dtype", ["int16", "float32", "Int64", "object", "category", "float64"])
def test_dtypes_that_hold_the_values_are_kept(dtype):
    space = loads(AGE + f"kind = 'integer'\nlow = 0\nhigh = 900\ndtype = '{dtype}'")
    assert space.attributes[1].dtype == dtype


def test_short_forms():
    space = loads(AGE.replace('["sex"]', '"sex"') + "kind = 'real'\nlow = 0\nhigh = 1")
    assert space.attributes[1] == Real("age", 0, 1)
    assert space.protected == ("sex",)
    assert space.max_family_size == 1000


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text):
    with pytest.raises(EvenhandError):
        loads(text)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
scalars = st.one_of(names, st.text(max_size=3), st.integers(), st.floats(allow_nan=False), st.booleans())


@st.composite
def attributes(draw, name):
    kind = draw(st.sampled_from([Integer, Real, Ordinal, Nominal, Boolean]))
    missing = draw(st.booleans())
    if kind is Boolean:
        return Boolean(name, missing, dtype=draw(st.sampled_from([None, "boolean", "object"])))
    if kind in (Ordinal, Nominal):
        values = draw(st.lists(scalars.filter(lambda v: v == v), min_size=2, max_size=6, unique=True))
        return kind(name, values, missing, dtype=draw(st.sampled_from([None, "category", "object"])))
    if kind is Integer:
        low, step, size = draw(st.integers(-(2**52), 2**52)), draw(st.integers(1, 1000)), draw(st.integers(1, 1000))
        return Integer(name, low, low + step * size, step, missing)
    low, size = draw(st.floats(-1e100, 1e100)), draw(st.floats(0.5, 1e100))
    high = low + size if low + size > low else low + abs(low) + 1
    return Real(name, low, high, None, missing)


@st.composite
def spaces(draw):
    columns = [draw(attributes(name)) for name in draw(st.lists(names, min_size=2, max_size=5, unique=True))]
    protected = [a.name for a in columns[: draw(st.integers(1, len(columns) - 1))]]
    free = [a for a in columns if a.name not in protected]
    links = {}
    listed = [a for a in columns if isinstance(a, Nominal | Ordinal | Boolean)]
    for source in [a for a in listed if a.name in protected]:
        for target in [a for a in listed if a in free]:
            options = [*target.values, *[None] * target.missing]
            starts = st.sampled_from([*source.values, *[None] * source.missing])
            mapping = st.dictionaries(st.sampled_from(options), st.sampled_from(options), max_size=3)
            links.setdefault(source.name, {})[target.name] = draw(st.dictionaries(starts, mapping, max_size=2))
    constraints = [
        f"`{a.name.replace('`', '``')}` is not missing" for a in columns if draw(st.booleans()) and not a.missing
    ]
    # Links want every counterpart.
    least = 2 if not links else max(2, math.prod(c.size for c in columns if c.name in protected))
    return Space(columns, protected, constraints, links, draw(st.integers(least, least + 10**6)))


@settings(deadline=None)
@given(spaces())
def test_round_trip(space):
    assume(min(space.max_family_size, space.combinations) <= limit("space_counterparts"))
    text = same(space)
    tomllib.loads(text)
