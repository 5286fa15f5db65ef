"""Models that take protected values separately from the rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.errors import FlakyModel, ModelError
from evenhand.spaces.individuals import Individuals

fairlearn = pytest.importorskip("fairlearn.postprocessing")

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"age": RNG.integers(18, 60, 600), "hours": RNG.integers(1, 9, 600)})
SEX = pd.Series(RNG.choice(["F", "M"], 600), name="sex")
RACE = pd.Series(RNG.choice(["A", "B"], 600), name="race")
Y = (ROWS["age"] + 3 * ROWS["hours"] + 10 * (SEX == "M") + RNG.normal(0, 8, 600) > 50).astype(int)
SPACE = eh.Space.infer(ROWS.assign(sex=SEX), protected="sex")


def optimised(rows=ROWS, told=SEX, **settings):
    model = fairlearn.ThresholdOptimizer(
        estimator=LogisticRegression(max_iter=500), predict_method="predict_proba", **settings
    )
    return model.fit(rows, Y, sensitive_features=told)


def everyone(space):
    individuals = Individuals(space, ids=np.arange(space.coding.total))
    return space.frame(individuals.rows)


@pytest.mark.parametrize("rows", [ROWS, ROWS.to_numpy(dtype=float)], ids=["frame", "array"])
def test_findings_match_the_probabilities(rows):
    model = optimised(rows)
    run = eh.audit(eh.wrap(model, threshold=0.5), SPACE, "themis")
    people = everyone(SPACE)
    given = people[["age", "hours"]] if rows is ROWS else people[["age", "hours"]].to_numpy(dtype=float)
    chances = model._pmf_predict(given, sensitive_features=people["sex"])[:, 1]
    decided = people.assign(yes=chances >= 0.5).groupby(["age", "hours"])["yes"].nunique()
    assert run.found == (decided > 1).sum() > 0
    assert (run.unused, run.unaware) == ((), False)
    assert eh.estimate(eh.wrap(model, threshold=0.5), SPACE).rate == pytest.approx((decided > 1).mean())


def test_columns_can_be_named():
    space = eh.Space.infer(ROWS.assign(sex=SEX, race=RACE), protected=["sex", "race"])
    model = optimised()
    named = eh.audit(eh.wrap(model, sensitive_features="sex", threshold=0.5), space, "themis")
    assert named.unused == ("race",)
    assert named.found
    both = optimised(told=pd.DataFrame({"sex": SEX, "race": RACE}))
    assert eh.audit(eh.wrap(both, threshold=0.5), space, "themis").unused == ()
    with pytest.raises(ModelError, match="needs the columns job"):
        eh.audit(eh.wrap(model, sensitive_features="job", threshold=0.5), space, "themis")
    with pytest.raises(ModelError, match="sensitive_features is for models"):
        eh.wrap(LogisticRegression().fit(ROWS, Y), sensitive_features="sex")


def test_random_decisions_are_refused():
    model = optimised()
    with pytest.raises(FlakyModel, match=r"rows at random.*threshold=0\.5") as caught:
        eh.audit(model, SPACE, "themis")
    assert 0 < caught.value.noise <= 1
    with pytest.raises(FlakyModel, match="rows at random"):
        eh.estimate(model, SPACE)


class Fixed:
    """Decides by a threshold for each group, and never by lot."""

    def predict(self, X, *, sensitive_features):
        limit = np.where(np.asarray(sensitive_features) == "F", 40, 30)
        return (np.asarray(X)[:, 0] > limit).astype(int)


def test_a_custom_rule():
    run = eh.audit(Fixed(), SPACE, "themis")
    ages = SPACE.frame(run.pairs.rows("individual", np.arange(run.found)))["age"]
    assert set(ages) == set(range(31, 41))
    assert eh.groups(Fixed(), SPACE, ROWS.assign(sex=SEX), favourable=1).rows == 600


def test_at_the_end_of_a_pipeline():
    pipe = make_pipeline(
        StandardScaler(), fairlearn.ThresholdOptimizer(estimator=LogisticRegression(), predict_method="predict_proba")
    )
    pipe.fit(ROWS, Y, thresholdoptimizer__sensitive_features=SEX)
    people = everyone(SPACE)
    with pytest.raises(FlakyModel):
        eh.audit(pipe, SPACE, "themis")
    labels = eh.wrap(pipe, sensitive_features="sex")
    assert labels.unread(SPACE.names) == ()
    assert len(people)


def test_a_model_that_reads_a_frame_gets_one():
    class Reads:
        def predict(self, X, *, sensitive_features):
            return (X["income"] > 5) & (sensitive_features == "m")

    space = eh.Space([eh.Integer("income", 0, 9), eh.Nominal("sex", ["f", "m"])], protected="sex")
    for model in (Reads(), eh.wrap(Reads(), input="frame", sensitive_features="sex")):
        assert eh.audit(model, space, "themis").found == 4


def test_columns_that_it_was_not_fitted_on_are_refused():
    both = optimised(told=pd.DataFrame({"sex": SEX, "race": RACE}))
    space = eh.Space.infer(ROWS.assign(sex=SEX, race=RACE), protected="sex")
    rows = ROWS.assign(sex=SEX, race=RACE)

    def wrapped(model, names=None):
        return eh.wrap(model, threshold=0.5, sensitive_features=names)

    asked = (
        lambda model: eh.audit(model, space, budget=eh.Budget(tests=50)),
        lambda model: eh.estimate(model, space, samples=50),
        lambda model: eh.groups(model, space, rows, 1),
    )
    for ask in asked:
        for wrong in (wrapped(both), wrapped(both, ["race", "sex"]), wrapped(optimised(told=RACE))):
            with pytest.raises(ModelError, match=r"sensitive_features=\[\.\.\.\]") as caught:
                ask(wrong)
            assert "'F'" in str(caught.value) or "'A,F'" in str(caught.value)
    assert eh.audit(wrapped(both, ["sex", "race"]), space, budget=eh.Budget(tests=200)).found


@pytest.mark.parametrize("values", [["yes, once", "no\\"], [0, 1], [True, False]])
def test_groups_have_the_names_that_fairlearn_gives(values, recwarn):
    told = pd.DataFrame({"sex": SEX, "other": pd.Series(np.resize(values, len(ROWS)), dtype=type(values[0]))})
    space = eh.Space.infer(ROWS.assign(**told), protected=["sex", "other"])
    for names in (["sex", "other"], ["other"]):
        model = optimised(told=told[names])
        eh.audit(eh.wrap(model, threshold=0.5, sensitive_features=names), space, budget=eh.Budget(tests=10))
    assert not [w for w in recwarn if "not fitted on" in str(w.message)]


def test_a_group_that_it_does_not_know_is_named():
    space = eh.Space(
        [eh.Integer("age", 18, 59), eh.Integer("hours", 1, 8), eh.Nominal("sex", ["F", "M", "X"])], protected="sex"
    )
    with pytest.warns(UserWarning, match=r"1 of the 3 groups of the space \('X'\)"):
        eh.audit(eh.wrap(optimised(), threshold=0.5), space, budget=eh.Budget(tests=10))
