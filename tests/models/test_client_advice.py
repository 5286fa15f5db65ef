"""The error for the wrong kind of input recommends the right kind, and other errors do not."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand as eh
from evenhand.errors import EvenhandError
from tests.helpers import optional

RNG = np.random.default_rng(0)
TEXTS = pd.DataFrame(
    {"age": RNG.integers(18, 60, 100), "hours": RNG.integers(1, 9, 100), "sex": RNG.choice(["F", "M"], 100)}
)
NUMBERS = TEXTS.assign(sex=(TEXTS["sex"] == "F").astype(int))
Y = (TEXTS["age"] > 30).astype(int)
SPACE, CODED = (eh.Space.infer(frame, protected="sex") for frame in (TEXTS, NUMBERS))
FRAME, ARRAY = 'eh.wrap(model, input="frame")', 'eh.wrap(model, input="array")'


class Rule:
    """An object with ``predict`` that does not say what it takes: it is given an array."""

    def __init__(self, predict):
        self.predict = predict


def fault(model, space):
    with pytest.raises(EvenhandError) as caught:
        eh.audit(model, space, "themis")
    return str(caught.value)


def encoded():
    encode = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(encode, LogisticRegression(max_iter=500)).fit(TEXTS, Y)


TAKE_FRAMES = {
    "a name": lambda X: X["age"] > 30,
    "names": lambda X: X[["age", "hours"]].sum(axis=1) > 30,
    "iloc": lambda X: X.iloc[:, 0] > 30,
    "loc": lambda X: X.loc[:, "age"] > 30,
    "columns": lambda X: X[X.columns[0]] > 30,
    "an attribute": lambda X: X.age > 30,
    "assign": lambda X: X.assign(old=X.age > 30).old,
    "apply": lambda X: X.apply(lambda row: row["age"] > 30, axis=1),
    "itertuples": lambda X: [row.age > 30 for row in X.itertuples()],
    "a pipeline inside": lambda X: encoded().predict(X),
}
TAKE_ARRAYS = {
    "a column": lambda X: X[:, 0] > 30,
    "a row": lambda X: X[0] > 30,
    "some columns": lambda X: X[:, [0, 1]].sum(axis=1) > 30,
    "a mask": lambda X: X[..., 0] > 30,
    "reshape": lambda X: X.reshape(-1, 3)[:, 0] > 30,
    "ravel": lambda X: X.ravel()[::3] > 30,
}


@pytest.mark.parametrize("space", [SPACE, CODED], ids=["texts", "numbers"])
@pytest.mark.parametrize("rule", TAKE_FRAMES.values(), ids=TAKE_FRAMES)
def test_models_of_frames_get_advice(rule, space):
    rule = (lambda X: LogisticRegression(max_iter=500).fit(NUMBERS, Y).predict(X[["age", "hours", "sex"]])) if (
        rule is TAKE_FRAMES["a pipeline inside"] and space is CODED
    ) else rule  # fmt: skip
    for model in (Rule(rule), eh.wrap(rule, input="array")):
        assert FRAME in fault(model, space)
    # And that is the remedy.
    assert eh.audit(eh.wrap(Rule(rule), input="frame"), space, "themis").tests == space.tests


@pytest.mark.parametrize("rule", TAKE_ARRAYS.values(), ids=TAKE_ARRAYS)
def test_models_of_arrays_get_advice(rule):
    text = fault(rule, CODED)
    assert ARRAY in text
    assert FRAME not in text


def test_tensors():
    torch = optional("torch")
    net = torch.nn.Linear(3, 2)
    for function in (lambda X: net(X), lambda X: torch.from_numpy(X)[:, 0] > 30, lambda X: torch.tensor(X)[:, 0] > 30):
        assert ARRAY in fault(function, CODED)


@pytest.mark.parametrize(
    ("model", "space"),
    [
        (LogisticRegression().fit(NUMBERS[["age", "hours"]].to_numpy(), Y), CODED),
        (lambda X: X["ages"] > 30, SPACE),
        (lambda X: X.agee > 30, SPACE),
        (lambda X: 1 if (X["age"] > 30) else 0, SPACE),
        (lambda X: X["sex"].astype(float) > 0, SPACE),
        (lambda X: encoded().predict(X.to_numpy()), SPACE),
        (lambda X: X @ np.ones(5), CODED),
        (encoded().set_params(), eh.Space.infer(TEXTS.drop(columns="age"), protected="sex")),
    ],
    ids=[
        "too wide",
        "a typing error",
        "another",
        "one row at a time",
        "texts as numbers",
        "values",
        "shape",
        "lacking",
    ],
)
def test_other_faults_get_no_such_advice(model, space):
    text = fault(model, space)
    assert FRAME not in text
    assert ARRAY not in text


def test_boosters_on_columns_of_text():
    xgboost = optional("xgboost")
    text = fault(xgboost.XGBClassifier(n_estimators=2).fit(NUMBERS, Y), SPACE)
    assert FRAME not in text
    assert ARRAY not in text
