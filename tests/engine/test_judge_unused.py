"""A model that does not use a protected attribute never passes without a note."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.cli.estimate import facts
from evenhand.errors import UnusedWarning
from evenhand.estimates.result import Limit, Outcome
from evenhand.models import client
from evenhand.runs.exports import to_junit, to_markdown, to_sarif
from tests.reports.page import Page

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 60, 300),
        "hours": RNG.integers(1, 9, 300),
        "sex": RNG.choice(["F", "M"], 300),
        "race": RNG.choice(["A", "B", "C"], 300),
    }
)
Y = (PEOPLE["age"] + 3 * PEOPLE["hours"] > 50).astype(int)
NUMBERS = ["age", "hours"]
BY_SEX = eh.Space.infer(PEOPLE[[*NUMBERS, "sex"]], protected="sex")
BY_BOTH = eh.Space.infer(PEOPLE, protected=["sex", "race"])
FEW = eh.Budget(tests=200)
BEYOND = "it may still disadvantage a group through other attributes: see eh.groups"


def without_sex():
    return LogisticRegression(max_iter=500).fit(PEOPLE[NUMBERS], Y)


def test_an_audit_says_that_the_column_is_not_received(tmp_path):
    run = eh.audit(without_sex(), BY_SEX, budget=FEW, directory=tmp_path)
    assert (run.unused, run.unaware, run.found) == (("sex",), True, 0)
    assert repr(run).count("the model does not receive 'sex'") == 1
    assert BEYOND in repr(run)
    kept = eh.Run.load(tmp_path)
    assert (kept.unused, kept.note) == (run.unused, run.note)
    assert json.loads(json.dumps(run.to_dict()))["unused"] == ["sex"]


def test_an_estimate_has_the_note_instead_of_a_bound():
    for found in (
        eh.estimate(without_sex(), BY_SEX, eh.populations.Uniform(exact=False), samples=50),
        eh.estimate(without_sex(), BY_SEX),
        eh.estimate(without_sex(), BY_SEX, "data", data=PEOPLE, favourable=1),
    ):
        assert found.verdict == "not received"
        assert "at most" not in repr(found)
        assert repr(found).count("the model does not receive 'sex'") == 1
        assert BEYOND in found.sentence
        # However few were asked, it cannot be otherwise.
        assert Limit(share=0.0001).of_estimate(found) is Outcome.PASS


def test_other_protected_attributes_are_still_judged():
    encode = make_column_transformer((OneHotEncoder(), ["race"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression(max_iter=500)).fit(
        PEOPLE[[*NUMBERS, "race"]], PEOPLE["race"] == "A"
    )
    run = eh.audit(model, BY_BOTH, budget=FEW)
    assert run.found
    assert (run.unused, run.unaware) == (("sex",), False)
    assert "does not receive 'sex'" in run.note
    assert "the findings are about 'race'" in run.note
    assert eh.estimate(model, BY_BOTH, "data", data=PEOPLE).verdict == "treated differently"


def test_note_without_findings_names_no_attribute(tmp_path):
    encode = make_column_transformer((OneHotEncoder(), ["race"]), remainder="passthrough")
    model = make_pipeline(encode, DecisionTreeClassifier(max_depth=1)).fit(PEOPLE[[*NUMBERS, "race"]], PEOPLE.age > 30)
    run = eh.audit(model, BY_BOTH, budget=FEW)
    found = eh.estimate(model, BY_BOTH, "data", data=PEOPLE)
    eh.report(run, tmp_path / "r.html", data=PEOPLE, samples=200)
    page = Page((tmp_path / "r.html").read_text())
    for text in (run.note, found.note, page.text):
        assert "does not receive 'sex'" in text
        assert "the findings are about" not in text
        assert "the model may not use 'race'" in text
        assert "the model may not use 'sex'" not in text
    assert run.unused == found.unused == ("sex",)


def test_findings_of_the_estimate_alone_remove_the_note(tmp_path):
    def rare(frame):
        return (frame["sex"] == "F") & (frame["age"] == 31) & (frame["hours"] == 3)

    space = eh.Space([eh.Integer("age", 18, 60), eh.Integer("hours", 1, 8), eh.Nominal("sex", ["F", "M"])], "sex")
    run = eh.audit(rare, space, "themis", eh.Budget(tests=3))
    eh.report(run, tmp_path / "r.html")
    text = Page((tmp_path / "r.html").read_text()).text
    assert (run.found, "may not use" in run.note, "may not use" in text) == (0, True, False)


PIPELINES = {
    "names": ColumnTransformer([("n", StandardScaler(), NUMBERS)]),
    "one name": ColumnTransformer([("n", "passthrough", ["age"]), ("m", StandardScaler(), ["hours"])]),
    "numbers": ColumnTransformer([("n", StandardScaler(), [0, 1])]),
    "mask": ColumnTransformer([("n", StandardScaler(), [True, True, False, False])]),
    "slice": ColumnTransformer([("n", StandardScaler(), slice(0, 2))]),
    "slice of names": ColumnTransformer([("n", StandardScaler(), slice("age", "hours"))]),
    "selector": ColumnTransformer([("n", StandardScaler(), make_column_selector(dtype_include="number"))]),
    "dropped by name": ColumnTransformer([("d", "drop", ["sex", "race"])], remainder=StandardScaler()),
}


@pytest.mark.parametrize("first", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize(
    "around",
    [lambda m: m, lambda m: GridSearchCV(m, {"logisticregression__C": [1.0]}, cv=2), FixedThresholdClassifier],
    ids=["pipeline", "search", "threshold"],
)
def test_a_column_that_the_first_step_drops_is_not_received(first, around):
    model = around(make_pipeline(first, LogisticRegression(max_iter=500))).fit(PEOPLE, Y)
    assert eh.audit(model, BY_BOTH, budget=FEW).unused == ("sex", "race")


def test_columns_dropped_from_arrays():
    space = eh.Space([eh.Integer("age", 18, 60), eh.Integer("hours", 1, 8), eh.Integer("sex", 0, 1)], protected="sex")
    rows = PEOPLE[NUMBERS].assign(sex=PEOPLE["sex"] == "F").to_numpy(dtype=float)
    first = ColumnTransformer([("n", StandardScaler(), [0, 1])])
    assert eh.audit(make_pipeline(first, LogisticRegression()).fit(rows, Y), space, budget=FEW).unused == ("sex",)


@pytest.mark.parametrize(
    "first",
    [
        ColumnTransformer([("n", StandardScaler(), NUMBERS)], remainder=OrdinalEncoder()),
        ColumnTransformer([("n", StandardScaler(), NUMBERS), ("o", OrdinalEncoder(), ["race", "sex"])]),
        ColumnTransformer([("d", "drop", ["sex", "race"]), ("o", OrdinalEncoder(), ["race", "sex"])]),
    ],
)
def test_a_column_that_is_kept_somewhere_is_received(first):
    model = make_pipeline(first, LogisticRegression(max_iter=500)).fit(PEOPLE, Y)
    assert not {"sex", "race"} & set(eh.wrap(model).unread(BY_BOTH.names))


def test_boosters_are_known_by_their_columns():
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    rows = PEOPLE[NUMBERS].rename(columns={"hours": "hours a day"})
    for booster in (xgboost.XGBClassifier(n_estimators=3), lightgbm.LGBMClassifier(n_estimators=3, verbose=-1)):
        model = eh.wrap(booster.fit(rows, Y))
        assert model.unread(["age", "hours a day", "sex"]) == ("sex",)


def scores_of_age(frame):
    share = frame["age"].to_numpy() / 100
    return np.column_stack([1 - share, share])


def test_the_note_counts_families_and_scores():
    run = eh.audit(scores_of_age, BY_SEX, "themis")
    families = len(set(zip(PEOPLE["age"], PEOPLE["hours"], strict=True)))
    assert run.tests == BY_SEX.tests >= families
    assert f"no decision changed in {run.tests:,} families, all that the space has" in repr(run)
    assert "no score in 256 whose scores were compared: no decision depends on 'sex'" in repr(run)
    assert run.scored == (256, 0)
    found = eh.estimate(scores_of_age, BY_SEX)
    # Every family once, though two individuals stand in each.
    assert (found.families, found.samples) == (BY_SEX.tests, 2 * BY_SEX.tests)
    assert f"no decision changed in {BY_SEX.tests:,} families, all that the space has" in repr(found)
    assert f"no score in {BY_SEX.tests:,} whose scores were compared: no decision depends on 'sex'" in repr(found)


def test_fewer_tests_than_compared_scores():
    run = eh.audit(scores_of_age, BY_SEX, budget=eh.Budget(tests=100))
    assert "no decision changed in 100 families, and no score in 256 drawn to compare scores" in repr(run)
    assert "the model may not use 'sex'" in run.note
    data = eh.estimate(scores_of_age, BY_SEX, eh.populations.Data(about="rows"), data=PEOPLE)
    assert (data.exact, "may not use 'sex'" in data.note) == (True, True)


def test_the_note_for_a_model_with_labels_only():
    run = eh.audit(lambda frame: frame["age"] > 30, BY_SEX, "themis")
    assert run.scored is None
    assert f"changed in {run.tests:,} families, all that the space has: no decision depends" in repr(run)
    assert repr(run).endswith(BEYOND)
    few = eh.audit(lambda frame: frame["age"] > 30, BY_SEX, "themis", budget=eh.Budget(tests=50))
    assert f"no decision changed in 50 families: the model may not use 'sex'; {BEYOND}" in repr(few)


def test_changed_scores_mean_no_note():
    def moved(frame):
        share = 0.2 + 0.1 * (frame["sex"] == "F")
        return np.column_stack([1 - share, share])

    run = eh.audit(moved, BY_SEX, "themis")
    assert (run.found, run.scored, run.note) == (0, (256, 256), None)
    assert eh.estimate(moved, BY_SEX).note is None


@pytest.mark.parametrize(
    "model",
    [RandomForestClassifier(5, random_state=0), SVC(kernel="linear"), LinearRegression()],
    ids=lambda model: type(model).__name__,
)
def test_estimators_that_ignore_a_received_column(model):
    rows = PEOPLE[NUMBERS].assign(sex=0)
    space = eh.Space([eh.Integer("age", 18, 60), eh.Integer("hours", 1, 8), eh.Integer("sex", 0, 1)], protected="sex")
    criterion = eh.Gap(0.1) if isinstance(model, LinearRegression) else None
    run = eh.audit(model.fit(rows, Y), space, "themis", FEW, criterion=criterion)
    assert (run.unused, run.scored) == ((), (256, 0))
    # What that took is counted apart: families of two.
    assert run.rows_checked >= 2 * 256
    assert run.rows == 2 * run.tests


def test_texts_are_always_received():
    texts = ["A Sikh came.", "A Jew is bad.", "Somebody."]
    space = eh.TextSpace("religion")
    run = eh.audit(lambda said: ["bad" in text for text in said], space, "text-random", data=texts)
    assert "no decision changed in 2 families: the model may not use 'religion'" in repr(run)
    found = eh.estimate(lambda said: [[0.5, 0.5] for _ in said], space, "data", data=texts)
    assert "no decision changed in 2 families, and no score in 2" in repr(found)


def test_linked_attributes_are_named_separately():
    space = eh.Space(
        [eh.Integer("age", 18, 60), eh.Nominal("kin", ["wife", "husband", "none"]), eh.Nominal("sex", ["F", "M"])],
        protected="sex",
        links={"sex": {"kin": {"M": {"wife": "husband"}, "F": {"husband": "wife"}}}},
    )
    model = eh.wrap(lambda frame: frame["kin"] == "wife")
    model.columns = ("age", "kin")
    run = eh.audit(model, space, "themis")
    assert run.found
    assert (run.unused, run.unaware) == (("sex",), False)
    assert "does not receive 'sex' itself, only 'kin', which follows it" in run.note
    assert eh.estimate(model, space).verdict == "treated differently"


def test_a_target_left_in_the_space_is_named():
    space = eh.Space.infer(PEOPLE[[*NUMBERS, "sex"]].assign(paid=Y), protected="sex")
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough"), LogisticRegression(max_iter=500)
    ).fit(PEOPLE[[*NUMBERS, "sex"]], PEOPLE["sex"] == "F")
    run = eh.audit(model, space, budget=FEW)
    assert (run.unused, run.unaware) == (("paid",), False)
    assert "the space has 'paid', which the model does not receive" in repr(run)


def test_the_note_comes_first_in_a_report(tmp_path):
    run = eh.audit(without_sex(), BY_SEX, budget=FEW)
    eh.report(run, tmp_path / "r.html", data=PEOPLE, favourable=1)
    page = Page((tmp_path / "r.html").read_text())
    assert "The model does not receive 'sex'" in page.text
    assert "None found" not in page.html.split('class="verdict"')[1].split("</p>")[0]


def test_a_model_that_uses_the_attribute_gets_no_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnusedWarning)
        run = eh.audit(lambda frame: frame["sex"] == "F", BY_SEX, "themis")
    assert (run.note, run.unused, run.scored) == (None, (), None)
    assert eh.estimate(lambda frame: frame["sex"] == "F", BY_SEX).note is None


def test_files_for_pull_requests_and_ci_carry_the_note():
    space = eh.Space([eh.Integer("age", 0, 9), eh.Nominal("sex", ["f", "m"])], protected="sex")
    run = eh.audit(lambda frame: frame["age"] > 3, space, "themis")
    assert run.note is not None
    for text in (to_markdown(run), to_junit(run, 10), to_sarif(run, 10)):
        assert "no decision depends on" in text


def test_rows_for_comparing_scores_are_counted():
    asked = 0

    def labels(frame):
        nonlocal asked
        asked += len(frame)
        return np.where(frame["age"] > 30, "yes", "no")

    run = eh.audit(labels, BY_SEX, "themis", FEW)
    assert run.found == 0
    assert run.rows + run.rows_checked == asked


def test_a_slow_model_is_asked_for_fewer_scores(monkeypatch):
    class Slow(eh.Model):
        name, input, has_scores, classes = "slow", "frame", True, (0, 1)
        now = 0.0

        def monotonic(self):
            return self.now

        def scores(self, X):
            type(self).now += 0.05 * len(X)
            return np.tile([0.2, 0.8], (len(X), 1))

        def labels(self, X):
            return self.decide(self.scores(X))

    model = Slow()
    monkeypatch.setattr(client, "time", model)
    run = eh.audit(model, BY_SEX, "themis", FEW)
    assert run.scored is not None
    families, changed = run.scored
    assert changed == 0
    assert 0 < families <= 10
    assert f"no score in {families}" in run.note


@pytest.mark.parametrize("favourable", [None, 1])
def test_an_attribute_that_is_not_received_has_a_rate_of_zero(favourable, tmp_path):
    found = eh.estimate(without_sex(), BY_SEX, "data", data=PEOPLE, favourable=favourable)
    assert (found.low, found.high, found.interval) == (0, 0, "not received")
    assert dict(facts(found))["interval"] == "none needed: the model does not receive the protected attributes"
    (share,) = found.shares
    assert (share.low, share.high) == (0, 0)
    (pair,) = found.comparisons
    assert (pair.low, pair.high, pair.verdict) == (0, 0, "not received")
    assert (pair.net_low, pair.net_high) == ((0, 0) if favourable else (None, None))
    assert "insufficient" not in repr(found)


@pytest.mark.parametrize("regression", [False, True])
def test_only_the_attribute_that_is_not_received_has_no_interval(regression, tmp_path):
    encode = make_column_transformer((OneHotEncoder(), ["race"]), remainder="passthrough")
    last = LinearRegression() if regression else LogisticRegression(max_iter=500)
    wanted = (PEOPLE["race"] == "A") * (1000.5 if regression else 1)
    model = make_pipeline(encode, last).fit(PEOPLE[[*NUMBERS, "race"]], wanted)
    settings = {"criterion": eh.Gap(100)} if regression else {}
    favourable = "higher" if regression else 1
    found = eh.estimate(model, BY_BOTH, "data", data=PEOPLE, favourable=favourable, **settings)
    by = {share.attributes: (share.low, share.high) for share in found.shares}
    assert by["sex",] == (0, 0)
    assert by["race",][1] > 0
    for c in found.comparisons:
        same = c.first.get("race") == c.second.get("race")
        assert (c.verdict == "not received") == same
        if same:
            assert (c.high, c.net_low, c.net_high) == (0, 0, 0)
            assert {c.difference, c.difference_low, c.difference_high} == ({0.0} if regression else {None})
    assert "sex F against" not in repr(found)
    run = eh.audit(model, BY_BOTH, budget=FEW, **settings)
    eh.report(run, tmp_path / "r.html", data=PEOPLE, favourable=favourable, samples=300)
    text = Page((tmp_path / "r.html").read_text()).text
    rows = text.split("sex F and as sex M")[1:]
    assert rows
    for row in rows:
        assert "the model does not receive it" in row.split(" and as ")[0]
        assert "too little evidence" not in row.split("the model does not")[0]


def test_linked_attributes_are_still_estimated():
    space = eh.Space(
        [eh.Integer("age", 18, 60), eh.Nominal("kin", ["wife", "husband"]), eh.Nominal("sex", ["F", "M"])],
        protected="sex",
        links={"sex": {"kin": {"M": {"wife": "husband"}, "F": {"husband": "wife"}}}},
    )
    model = eh.wrap(lambda frame: frame["age"] > 30)
    model.columns = ("age", "kin")
    found = eh.estimate(model, space, eh.populations.Uniform(exact=False), samples=300)
    assert (found.unused, found.unaware, found.high > 0) == (("sex",), False, True)
    assert found.comparisons[0].verdict != "not received"


def test_a_comparison_first_names_a_missing_column():
    with_sex = eh.audit(lambda frame: frame["sex"] == "F", BY_SEX, budget=FEW)
    without = eh.audit(without_sex(), BY_SEX, budget=FEW)
    said = eh.compare(with_sex, without, samples=200).sentence
    assert said.startswith("Of the second model: the model does not receive 'sex'")
    assert "Of the first model" not in said
