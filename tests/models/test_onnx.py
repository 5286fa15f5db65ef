from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from evenhand.errors import MissingExtra, ModelError
from evenhand.models.client import ModelClient
from evenhand.models.wrap import wrap
from tests.helpers import optional
from tests.models.people import answers, approved, frames, numbers, people

optional("onnxruntime")
skl2onnx = optional("skl2onnx")
types = optional("skl2onnx.common.data_types")

FRAME = people()
X = np.nan_to_num(numbers(FRAME)).round(2)
TEXT = answers(FRAME)
CODES = approved(FRAME).astype(int)
KINDS = {"age": types.Int64TensorType, "work": types.StringTensorType, "sex": types.StringTensorType}


def export(estimator, path, inputs=None, **options):
    inputs = inputs or [("X", types.FloatTensorType([None, X.shape[1]]))]
    chosen = {id(estimator): options} if options else None
    path.write_bytes(skl2onnx.convert_sklearn(estimator, initial_types=inputs, options=chosen).SerializeToString())
    return path


@pytest.mark.parametrize("target", [TEXT, CODES, np.where(X[:, 0] > 6, 7, CODES)], ids=["text", "int", "three"])
@pytest.mark.parametrize("zipmap", [True, False])
def test_a_classifier_on_a_matrix(tmp_path, target, zipmap):
    tree = DecisionTreeClassifier(max_depth=3).fit(X, target)
    model = wrap(export(tree, tmp_path / "loans.onnx", zipmap=zipmap))
    assert (model.name, model.input, model.columns) == ("loans", "array", None)
    scores, labels = ModelClient(model).both(X, len(X))
    assert labels.tolist() == tree.predict(X).tolist()
    np.testing.assert_allclose(scores, tree.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("zipmap", [True, False])
def test_a_threshold(tmp_path, zipmap):
    tree = DecisionTreeClassifier(max_depth=3).fit(X, TEXT)
    model = wrap(export(tree, tmp_path / "m.onnx", zipmap=zipmap), threshold=0.3)
    names = ["no", "yes"] if zipmap else [0, 1]
    chosen = (tree.predict_proba(X)[:, 1] >= 0.3).astype(int)
    assert model.labels(X).tolist() == [names[code] for code in chosen]


@pytest.fixture(scope="module")
def columns_model(tmp_path_factory):
    encode = make_column_transformer((OneHotEncoder(), ["work", "sex"]), remainder="passthrough")
    pipeline = make_pipeline(encode, LogisticRegression(max_iter=1000)).fit(FRAME[list(KINDS)], TEXT)
    inputs = [(name, kind([None, 1])) for name, kind in KINDS.items()]
    path = export(pipeline, tmp_path_factory.mktemp("onnx") / "columns.onnx", inputs)
    return pipeline, wrap(str(path))


def test_one_input_per_column(columns_model):
    pipeline, model = columns_model

    @given(frames())
    @settings(deadline=None)
    def agree(frame):
        assert model.labels(frame).tolist() == pipeline.predict(frame).tolist()
        np.testing.assert_allclose(model.scores(frame), pipeline.predict_proba(frame), atol=1e-5)

    assert (model.input, model.columns) == ("frame", tuple(KINDS))
    agree()


def test_values_that_the_graph_cannot_hold_are_refused(columns_model):
    model = columns_model[1]
    with pytest.raises(ModelError, match="fractions or missing values"):
        model.labels(FRAME.assign(age=1.5))
    with pytest.raises(ModelError, match="fractions or missing values"):
        model.labels(FRAME.assign(age=np.nan))
    with pytest.raises(ModelError, match="takes text in column 'work'"):
        model.labels(FRAME.assign(work=None))
    with pytest.raises(ModelError, match="takes int64 in column 'age', which has texts"):
        model.labels(FRAME.assign(age="old"))
    with pytest.raises(ModelError, match="raised Fail"):
        ModelClient(model).labels(FRAME.assign(work="pilot"), len(FRAME))


def test_a_wrong_number_of_columns_is_refused(tmp_path):
    model = wrap(export(DecisionTreeClassifier().fit(X, TEXT), tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match="takes 4 columns, but is given 2"):
        model.labels(X[:, :2])


def test_a_regressor_gives_a_score(tmp_path):
    tree = DecisionTreeRegressor(max_depth=3).fit(X, X[:, 0] / 3)
    ask = ModelClient(wrap(export(tree, tmp_path / "m.onnx")))
    np.testing.assert_allclose(ask.scores(X, len(X))[:, 0], tree.predict(X), atol=1e-5)
    with pytest.raises(ModelError, match="look like scores"):
        ask.labels(X, len(X))


def graph(path, inputs, outputs, nodes):
    onnx = optional("onnx")
    made = onnx.helper.make_graph(nodes, "g", inputs, outputs)
    opset = [onnx.helper.make_opsetid("", 17)]
    path.write_bytes(onnx.helper.make_model(made, opset_imports=opset, ir_version=8).SerializeToString())
    return path


def value(name, shape, kind="FLOAT"):
    onnx = optional("onnx")
    return onnx.helper.make_tensor_value_info(name, getattr(onnx.TensorProto, kind), shape)


def node(operation, inputs, output, **attributes):
    return optional("onnx").helper.make_node(operation, inputs, [output], **attributes)


def test_scores_alone_decide_by_the_highest(tmp_path):
    softmax = [node("Softmax", ["X"], "p")]
    model = wrap(graph(tmp_path / "m.onnx", [value("X", ["n", 4])], [value("p", ["n", 4])], softmax))
    scores, labels = ModelClient(model).both(X, len(X))
    assert labels.tolist() == X.argmax(axis=1).tolist()
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)


def test_labels_alone(tmp_path):
    best = [node("ArgMax", ["X"], "label", axis=1, keepdims=1)]
    model = wrap(graph(tmp_path / "m.onnx", [value("X", ["n", 4])], [value("label", ["n", 1], "INT64")], best))
    assert not model.has_scores
    assert ModelClient(model).labels(X, len(X)).tolist() == X.argmax(axis=1).tolist()
    with pytest.raises(ModelError, match="no scores"):
        model.scores(X)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([("X", [1, 4])], "always has 1 rows"),
        ([("X", ["n", 4]), ("Z", ["n", 1])], "one column"),
        ([("X", ["n"])], "two dim"),
    ],
)
def test_graphs_with_other_inputs_are_refused(tmp_path, inputs, message):
    nodes = [node("Identity", ["X"], "p")]
    declared = [value(name, shape) for name, shape in inputs]
    path = graph(tmp_path / "m.onnx", declared, [value("p", inputs[0][1])], nodes)
    with pytest.raises(ModelError, match=message):
        wrap(path)


def test_ambiguous_outputs_are_refused(tmp_path):
    nodes = [node("Identity", ["X"], "a"), node("Identity", ["X"], "b")]
    shape = ["n", 4]
    path = graph(tmp_path / "m.onnx", [value("X", shape)], [value("a", shape), value("b", shape)], nodes)
    with pytest.raises(ModelError, match=r"a \(tensor\(float\)\), b .* unclear"):
        wrap(path)
    nodes = [node("Identity", ["X"], "a"), node("Softmax", ["X"], "probability")]
    path = graph(tmp_path / "m.onnx", [value("X", shape)], [value("a", shape), value("probability", shape)], nodes)
    assert wrap(path).has_scores


@pytest.mark.parametrize("content", [b"abc" * 100, b"\x08\x08" * 50, b"\0"])
def test_a_damaged_file_is_one_clear_error(tmp_path, content, capfd):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as ONNX") as caught:
        wrap(path)
    assert len(str(caught.value).splitlines()) <= 2
    assert capfd.readouterr().err == ""


def test_a_cut_off_file_is_one_clear_error(tmp_path):
    path = export(DecisionTreeClassifier().fit(X, TEXT), tmp_path / "m.onnx")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelError, match="cannot be read as ONNX"):
        wrap(path)


def test_a_model_can_be_sent_to_another_process(tmp_path, monkeypatch):
    export(DecisionTreeClassifier().fit(X, TEXT), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    model = wrap("m.onnx", threshold=0.4)
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(model))
    assert again.labels(X).tolist() == model.labels(X).tolist()


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    path = export(DecisionTreeClassifier().fit(X, TEXT), tmp_path / "m.onnx")
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"evenhand\[onnx\]"):
        wrap(path)
