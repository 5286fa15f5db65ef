from __future__ import annotations

import os
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import ModelError
from evenhand.models.client import ModelClient
from evenhand.models.torch import KerasModel
from evenhand.models.wrap import wrap
from tests.helpers import optional

os.environ["KERAS_BACKEND"] = "torch"
pytestmark = pytest.mark.slow
torch = optional("torch")
keras = optional("keras")
layers, ops = keras.layers, keras.ops

X = np.random.default_rng(0).normal(size=(40, 3))
CODES = np.arange(40) % 2
OTHER = "jax"
"""A backend that is not installed: models are built on torch's, and evenhand is told otherwise."""

# A last layer, or what follows it; how many outputs; "s" for a sigmoid of one, "m" for a softmax, "i" for sigmoids.
ENDS = {
    "one logit": (1, None, "s"),
    "one sigmoid": (1, "sigmoid", "s"),
    "a sigmoid layer": (1, lambda z: layers.Activation("sigmoid", dtype=z.dtype)(z), "s"),
    "a sigmoid, squeezed": (1, lambda z: ops.squeeze(ops.sigmoid(z), -1), "s"),
    "two logits": (2, None, "m"),
    "a softmax": (2, "softmax", "m"),
    "a softmax layer": (3, lambda z: layers.Softmax(dtype=z.dtype)(z), "m"),
    "three logits": (3, None, "m"),
    "a log_softmax": (3, "log_softmax", "m"),
    "three sigmoids": (3, "sigmoid", "i"),
}
# Keras says so where it makes arrays of weights and predictions.
keras_warns = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
every_end = pytest.mark.parametrize("end", ENDS)


def build(end, dtype="float32", seed=0):
    keras.utils.set_random_seed(seed)
    outputs, activation, _ = ENDS[end]
    rows = keras.Input((3,), dtype=dtype)
    hidden = layers.Dropout(0.5, dtype=dtype)(layers.Dense(5, activation="tanh", dtype=dtype)(rows))
    last = layers.Dense(outputs, activation=activation if isinstance(activation, str) else None, dtype=dtype)
    result = last(hidden)
    return keras.Model(rows, activation(result) if callable(activation) else result)


def truth(end, net, rows):
    """The probability of each class, computed from the weights alone."""
    w1, b1, w2, b2 = (np.asarray(w, dtype=np.float64) for w in net.get_weights() if np.ndim(w) and w.dtype.kind == "f")
    z = np.tanh(rows @ w1 + b1) @ w2 + b2
    kind = ENDS[end][2]
    if kind == "m":
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)
    p = 1 / (1 + np.exp(-z))
    return p if kind == "i" else np.column_stack([1 - p, p])


@keras_warns
@every_end
def test_scores_are_probabilities_and_labels_follow_them(end):
    net = build(end)
    model = wrap(net)
    assert isinstance(model, KerasModel)
    assert (model.name, model.input, model.gradient_source) == ("keras.Functional", "array", "autograd")
    scores, labels = ModelClient(model).both(X, len(X))
    np.testing.assert_allclose(scores, truth(end, net, X), atol=1e-6)
    np.testing.assert_array_equal(labels, truth(end, net, X).argmax(axis=1))
    np.testing.assert_array_equal(wrap(net).labels(X), labels)
    assert isinstance(wrap(net.predict), KerasModel)


@keras_warns
@given(st.sampled_from(sorted(ENDS)), st.integers(0, 10**6))
@settings(max_examples=30)
def test_gradients_equal_finite_differences(end, seed):
    net = build(end, "float64", seed)
    rng = np.random.default_rng(seed)
    rows, classes = rng.normal(size=(4, 3)), rng.integers(0, max(2, ENDS[end][0]), 4)
    step, wanted = 1e-5, np.empty_like(rows)
    for j in range(3):
        move = step * np.eye(3)[j]
        up, down = (-np.log(truth(end, net, rows + side))[np.arange(4), classes] for side in (move, -move))
        wanted[:, j] = (up - down) / (2 * step)
    np.testing.assert_allclose(ModelClient(wrap(net)).gradients(rows, classes), wanted, rtol=1e-4, atol=1e-7)


@keras_warns
def test_weights_and_modes_are_not_touched():
    wrapped = layers.TorchModuleWrapper(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5)))
    net = keras.Sequential([keras.Input((3,)), wrapped, layers.BatchNormalization(), layers.Dense(1)])
    parts = [part for layer in [net, *net.layers] for part in layer.modules()]
    for place, part in enumerate(parts):
        part.training = place % 2 == 0
    modes = [part.training for part in parts]
    before = [np.array(w) for w in net.get_weights()]
    model = wrap(net)
    np.testing.assert_array_equal(model.scores(X), model.scores(X))
    model.gradients(X, CODES)
    assert [part.training for part in parts] == modes
    assert all(p.grad is None for p in net.parameters())
    assert all(map(np.array_equal, before, net.get_weights()))


def test_a_subclass_that_was_called():
    class Judge(keras.Model):
        def __init__(self):
            super().__init__()
            self.last = layers.Dense(1, activation="sigmoid")

        def call(self, rows, training=False):
            return self.last(rows * (0 if training else 1))

    net = Judge()
    with pytest.raises(ModelError, match=r"is not built; start it with keras.Input\(\(columns,\)\), or call it"):
        wrap(net)
    net(np.zeros((1, 3)))
    assert wrap(net).name == "Judge"
    assert wrap(net, threshold=0.5).labels(X).shape == (40,)


def test_a_threshold_and_a_sequential():
    net = keras.Sequential([layers.Dense(2)])
    net.build((None, 3))
    model = wrap(net, threshold=0.6)
    assert model.name == "keras.Sequential"
    assert model.labels(X).tolist() == (model.scores(X)[:, 1] >= 0.6).astype(int).tolist()


@pytest.mark.parametrize("backend", ["torch", OTHER])
def test_other_inputs_and_outputs_are_refused(backend, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    one, two, image = keras.Input((3,)), keras.Input((2,)), keras.Input((4, 4))
    both = keras.Model([one, two], layers.Concatenate()([one, two]))
    with pytest.raises(ModelError, match=r"takes \[\(None, 3\), \(None, 2\)\]; one input of shape \(None, columns\)"):
        wrap(both)
    with pytest.raises(ModelError, match=r"takes \(None, 4, 4\); one input"):
        wrap(keras.Model(image, layers.Flatten()(image)))
    for question in (wrap(build("two logits")).labels, wrap(build("two logits")).scores):
        with pytest.raises(ModelError, match="takes 3 columns, but is given 4"):
            question(np.zeros((5, 4)))
    with pytest.raises(ModelError, match="takes numbers"):
        wrap(build("two logits"), input="frame")


@keras_warns
@pytest.mark.parametrize("backend", ["torch", OTHER])
def test_other_outputs_are_refused(backend, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    one = keras.Input((3,))
    with pytest.raises(ModelError, match="returned a list"):
        wrap(keras.Model(one, [layers.Dense(1)(one), layers.Dense(1)(one)])).labels(X)
    with pytest.raises(ModelError, match=r"of shape \(40, 3, 1\)"):
        wrap(keras.Model(one, ops.expand_dims(one, -1))).labels(X)
    labels = wrap(keras.Model(one, ops.argmax(one, axis=1)))
    assert labels.labels(X).tolist() == X.argmax(axis=1).tolist()
    with pytest.raises(ModelError, match=r"returns labels(.|\n)*strategy='kosei'"):
        labels.scores(X)


@keras_warns
@every_end
def test_another_backend_is_asked_with_predict(end, monkeypatch):
    net = build(end)
    expected = truth(end, net, X)
    monkeypatch.setattr(keras.backend, "backend", lambda: OTHER)
    model = wrap(net)
    assert model.gradient_source is None
    with pytest.raises(ModelError, match="has no gradients; use strategy='kosei'"):
        model.gradients(X, CODES)
    if end == "a sigmoid, squeezed":
        with pytest.raises(ModelError, match="may be a probability or a logit"):
            model.labels(X)
        return
    scores, labels = ModelClient(model).both(X, len(X))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_array_equal(labels, expected.argmax(axis=1))
    np.testing.assert_array_equal(wrap(net).labels(X), labels)


@keras_warns
def test_another_backend_and_a_model_with_an_unknown_output(monkeypatch):
    class Judge(keras.Model):
        def call(self, rows):
            return rows[:, :1] * self.factor

    net = Judge()
    net.factor = 1.0
    net(np.zeros((1, 3)))
    monkeypatch.setattr(keras.backend, "backend", lambda: OTHER)
    assert wrap(net).labels(X).tolist() == (X[:, 0] > 0).astype(int).tolist()
    with pytest.raises(ModelError, match="may be a probability or a logit"):
        wrap(net).labels(np.abs(X) / 10)


@keras_warns
def test_a_model_can_be_sent_to_another_process():
    model = wrap(build("a softmax"), threshold=0.4)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.labels(X), model.labels(X))


def test_an_audit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(1, 9, 100), "sex": rng.integers(0, 2, 100)})
    net = keras.Sequential([keras.Input((2,)), layers.Dropout(0.5), layers.Dense(1, activation="sigmoid")])
    net.layers[-1].set_weights([np.array([[1.0], [2.0]]), np.array([-4.5])])
    run = eh.audit(net, eh.Space.infer(frame, protected="sex"), strategy="themis", budget=eh.Budget(tests=8))
    assert len(run.findings) == 2
