"""Texts from templates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.errors import EvenhandError
from evenhand.spaces.text.lexicon import NAMES

INTERSECTIONS = ("race*gender", "religion*gender", "disability*gender")


@pytest.mark.parametrize("name", [*NAMES, *INTERSECTIONS])
def test_built_in_templates_are_filled_and_can_be_tested(name):
    space = eh.TextTemplates(name)
    bound = space.begin(None)
    assert len(bound.seeds) == len(space.texts) == len(set(space.texts)) > 20
    for text in bound.families(bound.seeds, 0).asked:
        assert "{" not in text
        assert text[0].isupper()
        assert text.endswith((".", "?"))
        assert not any(f" a {vowel}" in text.lower() for vowel in "ai")


def test_audits_need_no_data():
    def model(texts):
        return ["rude" if "Muslim" in text else "fine" for text in texts]

    run = eh.audit(model, eh.TextTemplates("religion"), "text-random")
    assert run.found == run.tests > 100
    found = eh.estimate(model, eh.TextTemplates("religion"))
    assert found.rate == 1
    assert eh.audit(model, eh.TextTemplates("religion"), "text-random", data=["A Jew came."]).tests == 1


def test_a_bias_against_a_combination_is_found():
    def model(texts):
        return [any(f"{who} wom" in text for who in ("black", "African American")) for text in texts]

    assert eh.audit(model, eh.TextTemplates(["race", "gender"]), "text-random").found == 0
    run = eh.audit(model, eh.TextTemplates("race*gender"), "text-random")
    assert run.found == run.tests
    space = eh.TextSpace("race*gender")
    assert eh.audit(model, space, "text-random", data=["A white man came."]).found == 1
    with pytest.raises(eh.errors.DataError):
        space.begin(["A white man lost his keys."])


def test_templates_of_a_user(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('adjective = ["A {adjective} {job}."]\n[slots]\njob = ["cook", "baker"]\n')
    assert eh.TextTemplates("ethnic", path).texts == ["An African cook.", "An African baker."]
    assert eh.TextTemplates("ethnic", path, most=1).texts == ["An African cook."]
    mapping = {"person": ["This {person} came."]}
    assert eh.TextTemplates({"team": {"forms": [{"name": "x", "number": "singular"}], "terms": [["Red"], ["Blue"]]}},
                            mapping).texts == ["This Red came."]  # fmt: skip


def test_the_notebook_runs():
    path = Path(__file__).parents[3] / "notebooks" / "text.ipynb"
    names: dict[str, object] = {}
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["run"].found


@pytest.mark.parametrize(
    "wrong",
    [
        {"adjectives": ["A {adjective} cook."]},
        {"adjective": ["A {adjective} {job}."]},
        {"adjective": ["A cook."]},
        {"adjective": "A {adjective} cook."},
        {"adjective": [3]},
        {"slots": []},
        {"slots": {"job": []}},
        {"name": ["{name} came."]},
        {},
    ],
)
def test_wrong_templates_are_refused(wrong):
    with pytest.raises(EvenhandError):
        eh.TextTemplates("religion", wrong)


def test_names_of_a_group_must_agree():
    def model(texts):
        return ["Jamal" in text for text in texts]

    run = eh.audit(model, eh.TextTemplates("first_names"), "text-random")
    assert run.found == 0
    assert run.counts["depends_on_the_spelling"] == run.tests
