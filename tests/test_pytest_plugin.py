"""Audits as tests: a project of one small file, run by pytest as a user would."""

from __future__ import annotations

import json
from typing import Any

import pytest

import evenhand as eh
import evenhand.pytest_plugin
import evenhand.regression_corpus
from evenhand.runs.pair_sentences import select_pairs
from tests.helpers import plugin_environment

pytest_plugins = ["pytester"]

SPACE = """\
protected = ["sex"]

[[attribute]]
name = "age"
kind = "integer"
low = 18
high = 80

[[attribute]]
name = "sex"
kind = "nominal"
values = ["f", "m"]
"""
SIX_LINES = """\
import evenhand as eh
from loans import decide

def test_loans_are_even_handed(evenhand_audit):
    evenhand_audit(decide, eh.Space.load("space.toml"), strategy="themis")
"""
UNFAIR = """\
from pathlib import Path

def decide(frame):
    with Path("calls").open("a") as file:
        print(len(frame), file=file)
    return (frame["age"] > 25) | (frame["sex"] == "m")
"""
FAIR = UNFAIR.replace('| (frame["sex"] == "m")', "")


class Project:
    """A folder with a model, a space and a test."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        pytester.makefile(".toml", space=SPACE)
        self.model(UNFAIR)
        self.test(SIX_LINES)

    def model(self, text: str) -> None:
        self.pytester.makepyfile(loans=text)

    def test(self, text: str) -> None:
        self.pytester.makepyfile(test_fairness=text)

    def run(self, *arguments: str) -> Any:
        # Where the package was installed before it had a plugin, pytest has to be told.
        plugin = ("-p", "evenhand.pytest_plugin") if plugin_environment() else ()
        (self.pytester.path / "calls").write_text("")
        return self.pytester.runpytest_inprocess(
            "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", *plugin, *arguments
        )

    @property
    def asked(self) -> list[int]:
        return [int(line) for line in (self.pytester.path / "calls").read_text().split()]

    @property
    def cases(self) -> dict[str, Any]:
        (path,) = (self.pytester.path / ".evenhand").iterdir()
        stored: dict[str, Any] = json.loads(path.read_text())
        return stored


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """Pytest within pytest forgets what it has imported, and NumPy cannot be imported twice in one process."""
    space = eh.Space([eh.Integer("age", 1, 9), eh.Boolean("member")], protected="member")
    run = eh.audit(lambda f: f["member"], space, "themis")
    select_pairs(run)
    eh.estimate(
        lambda f: f["member"],
        space,
        eh.populations.Uniform(exact=False),
        samples=100,
    )
    select_pairs(
        eh.audit(lambda t: ["Sikh" in one for one in t], eh.TextSpace("religion"), "text-random", data=["A Jew"])
    )
    assert evenhand.pytest_plugin
    assert evenhand.regression_corpus


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester)


def test_an_unfair_model_fails_and_is_shown(project: Project) -> None:
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(
        [
            "evenhand: 8 of 63 tests are treated differently; none is allowed",
            "  1. age *, sex *: *. The same person with sex *: *.",
            "  2. *",
            "  3. *",
            "  and 5 more",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    assert len(project.cases["cases"]) == 8


def test_findings_of_earlier_runs_are_tried_first(project: Project) -> None:
    project.run()
    searched = len(project.asked)
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["evenhand: 8 of the cases kept in * are still treated differently", "  1. age *"])
    assert (len(project.asked), sum(project.asked)) == (1, 16)
    assert searched > 1
    # A fair model passes, and is searched; what was broken once stays on the list.
    project.model(FAIR)
    project.run().assert_outcomes(passed=1)
    assert len(project.asked) > 1
    assert len(project.cases["cases"]) == 8
    project.model(UNFAIR)
    project.run().assert_outcomes(failed=1)
    assert len(project.asked) == 1


def test_cases_can_be_ignored(project: Project) -> None:
    project.run()
    done = project.run("--evenhand-no-cases")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*8 of 63 tests*"])
    project.test(SIX_LINES.replace('"themis")', '"themis", retry=False)'))
    project.run().stdout.fnmatch_lines(["*8 of 63 tests*"])


def test_a_fair_model_passes_and_leaves_nothing(project: Project) -> None:
    project.model(FAIR)
    project.run("--strict-markers").assert_outcomes(passed=1)
    assert not (project.pytester.path / ".evenhand").exists()


def test_limits(project: Project) -> None:
    project.test(
        """
        import evenhand as eh, pytest
        from loans import decide

        pytestmark = pytest.mark.fairness(fail_above="20%")

        @pytest.fixture
        def space():
            return eh.Space.load("space.toml")

        def test_mark_of_the_module(evenhand_audit, space):
            assert evenhand_audit(decide, space).found == 8

        @pytest.mark.fairness(fail_above="5%")
        def test_own_mark_goes_first(evenhand_audit, space):
            evenhand_audit(decide, space)

        def test_argument_goes_before_marks(evenhand_audit, space):
            evenhand_audit(decide, space, fail_on_finding=True)

        def test_two_models(evenhand_audit, space):
            evenhand_audit(decide, space)
            evenhand_audit(lambda frame: frame["sex"] == "f", space)

        def test_both(evenhand_audit, space):
            evenhand_audit(decide, space, fail_above="20%", fail_on_finding=True)

        @pytest.mark.fairness(fail_on_finding=False)
        def test_neither_is_needed(evenhand_audit, space):
            evenhand_audit(decide, space, fail_above="13%")
        """
    )
    done = project.run("--strict-markers")
    done.assert_outcomes(passed=2, failed=4)
    done.stdout.fnmatch_lines(["*12.7% of random valid individuals, more than 5%", "*8 of 63 tests*none is allowed*"])
    done.stdout.fnmatch_lines(["*100% of random valid individuals, more than 20%"])


def test_too_few_tests_fail_and_say_how_many_are_needed(project: Project) -> None:
    project.test(
        """
        import evenhand as eh
        from loans import decide

        def test_share(evenhand_audit):
            evenhand_audit(decide, eh.Space.load("space.toml"), fail_above="13%", budget=eh.Budget(tests=40))
        """
    )
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*too few tests to tell whether that is above 13%; about * more may suffice*"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("evenhand_audit(decide, space, fail_above='much')", "*BudgetError*fail_above must*"),
        ("evenhand_audit(decide, space, fail_above=0)", "*BudgetError*fail_above must*fail_on_finding=True*"),
        ("evenhand_audit(decide, space, fail_above='1%', strategy='kosei')", "*StrategyError*estimate*kosei*auto*"),
        ("evenhand_audit(decide, 'space')", "*SpaceError*space must be*"),
        ("evenhand_audit(decide, space, budgets=3)", "*TypeError*budgets*"),
    ],
)
def test_wrong_input_is_an_error_of_the_test(project: Project, call: str, words: str) -> None:
    head = "import evenhand as eh\nfrom loans import decide\nspace = eh.Space.load('space.toml')\n"
    project.test(f"{head}def test_it(evenhand_audit):\n    {call}\n")
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines([words])


def test_a_mark_takes_names_only(project: Project) -> None:
    project.test(SIX_LINES.replace("def test", "import pytest\n@pytest.mark.fairness(3)\ndef test"))
    done = project.run()
    assert done.ret != 0
    done.stdout.fnmatch_lines(["*takes settings by name*"])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("fail_abve=3", "*no setting 'fail_abve'; did you mean 'fail_above'?*"),
        ("gamma=0.1", "*in Python: criterion=eh.Gap(...)*"),
        ("qqq=3", "*'qqq'; there are 'fail_above', 'fail_on_finding', 'retry', 'strategy',*"),
    ],
)
def test_a_mark_takes_known_settings_only(project: Project, setting: str, words: str) -> None:
    project.test(SIX_LINES.replace("def test", f"import pytest\n@pytest.mark.fairness({setting})\ndef test"))
    done = project.run()
    assert done.ret != 0
    done.stdout.fnmatch_lines([words])


def test_a_marked_test_that_audits_nothing_fails(project: Project) -> None:
    project.test(
        """
        import evenhand as eh, pytest
        from loans import decide

        @pytest.fixture
        def audited(evenhand_audit):
            return evenhand_audit(decide, eh.Space.load("space.toml"), strategy="themis")

        @pytest.mark.fairness(fail_on_finding=True)
        def test_without_the_fixture():
            pass

        @pytest.mark.fairness
        def test_without_the_call(evenhand_audit):
            pass

        @pytest.mark.fairness(fail_on_finding=False)
        def test_by_another_fixture(audited):
            assert audited.found == 8

        @pytest.mark.fairness(fail_on_finding=True)
        def test_skipped():
            pytest.skip("today")

        @pytest.mark.fairness(fail_on_finding=True)
        def test_that_fails_by_itself():
            assert False, "of itself"

        @pytest.mark.fairness(fail_on_finding=True)
        class TestOfAClass:
            def test_something_else(self):
                pass
        """
    )
    done = project.run("--strict-markers")
    done.assert_outcomes(passed=2, failed=3, skipped=1)
    done.stdout.fnmatch_lines(["evenhand: a test marked fairness has to call evenhand_audit*audits nothing"] * 2)
    done.stdout.fnmatch_lines(["*of itself*"])


def test_damaged_cases_are_reported_and_kept(project: Project) -> None:
    project.run()
    (path,) = (project.pytester.path / ".evenhand").iterdir()
    path.write_text("<<<<<<< HEAD\n" + path.read_text())
    found = "*8 of 63 tests*(cases are not kept: *resolve the conflict*"
    for option, words in (("-q", "*DataError*cannot be read as findings*"), ("--evenhand-no-cases", found)):
        done = project.run(option)
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines([words])
        assert path.read_text().startswith("<<<<<<<")


def test_an_unwritable_folder_is_reported(project: Project) -> None:
    (project.pytester.path / ".evenhand").write_text("in the way")
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*8 of 63 tests*cases cannot be kept in *", "  1. age*"])


def test_repaired_models_pass(project: Project) -> None:
    """A model that averages over the protected attribute, as a marginal repair does, treats no one differently."""
    project.run().assert_outcomes(failed=1)
    averaged = """

def marginal(frame):
    return sum(decide(frame.assign(sex=sex)).astype(float) for sex in ("f", "m")) / 2 >= 0.75
"""
    project.model(UNFAIR + averaged)
    project.test(SIX_LINES.replace("import decide", "import marginal").replace("(decide", "(marginal"))
    project.run().assert_outcomes(passed=1)


def test_texts_are_audited_and_tried_again(project: Project) -> None:
    project.model("def decide(texts):\n    return ['Sikh' in text and 'loud' in text for text in texts]\n")
    project.test("""
        import evenhand as eh
        from loans import decide

        def test_comments(evenhand_audit):
            said = ["A loud Jew \\ud83d.", "A Sikh."]
            evenhand_audit(decide, eh.TextSpace("religion"), strategy="text-random", data=said)
    """)
    done = project.run()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["evenhand: 1 of 2 tests are treated*", '  1. "?Jew?": False. The same text*True.*'])
    assert project.cases["cases"] == [{"text": "A loud Jew \ud83d."}]
    project.run().stdout.fnmatch_lines(["evenhand: 1 of the cases kept in * are still treated differently", "  1. *"])
    project.model("def decide(texts):\n    return ['loud' in text for text in texts]\n")
    project.run().assert_outcomes(passed=1)


def test_importing_the_plugin_is_light() -> None:
    import subprocess
    import sys

    code = "import evenhand.pytest_plugin, sys; print({'pandas', 'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_six_lines() -> None:
    assert len([line for line in SIX_LINES.splitlines() if line]) <= 6


BLIND = """\
import pandas as pd
from sklearn.linear_model import LogisticRegression

decide = LogisticRegression().fit(pd.DataFrame({"age": [20, 30, 40, 50]}), [0, 0, 1, 1])
"""


@pytest.mark.parametrize(
    "limit",
    ['fail_above="1%", budget=eh.Budget(tests=20)', "fail_on_finding=True, strategy='themis'"],
)
@pytest.mark.parametrize("filters", [(), ("-W", "error")], ids=["", "errors"])
def test_a_model_that_never_receives_the_attribute_passes_with_a_warning(
    project: Project, limit: str, filters: tuple[str, ...]
) -> None:
    project.model(BLIND)
    project.test(SIX_LINES.replace('strategy="themis"', limit))
    done = project.run(*filters)
    done.assert_outcomes(passed=1, warnings=1)
    done.stdout.fnmatch_lines(
        ["*test_fairness.py:5: UnusedWarning: evenhand: the model does not receive 'sex'*see eh.groups*"]
    )


def test_answers_that_never_change_give_a_warning(project: Project) -> None:
    project.model(FAIR)
    done = project.run()
    done.assert_outcomes(passed=1, warnings=1)
    done.stdout.fnmatch_lines(["*UnusedWarning: evenhand: no decision changed in 63 families*"])
    project.run("-W", "ignore::evenhand.errors.UnusedWarning").assert_outcomes(passed=1, warnings=0)


def test_a_model_within_the_limit_gives_no_warning(project: Project) -> None:
    project.test(SIX_LINES.replace('strategy="themis"', 'fail_above="50%"'))
    project.run().assert_outcomes(passed=1, warnings=0)
