"""Proofs of networks contain what enumeration says, on random small worlds."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neural_network import MLPClassifier
from torch import nn

import evenhand as eh
from evenhand.errors import EvenhandError, ModelError
from evenhand.proofs import bounding, slabs
from evenhand.proofs.bounding import Boxes
from evenhand.proofs.crown import Inputs, bound, enclose
from evenhand.proofs.domain import Domain
from evenhand.proofs.networks import activate, read_network
from tests.proofs.test_small_worlds import SEEDS, check
from tests.proofs.worlds import pipeline, spaces, truth

FAST, MANY = 8, 150
pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")


def network(seed: int) -> Any:
    """Return a network to be fitted."""
    return MLPClassifier(
        [(6,), (5, 4), (4, 3, 3)][seed % 3],
        activation=["relu", "tanh", "logistic", "identity"][seed // 3 % 4],
        max_iter=5,
        learning_rate_init=0.05,
        random_state=seed,
    )


def prove(space: eh.Space, seed: int, missing: bool, small: int, boxes: int) -> None:
    try:
        model = pipeline(space, network(seed), seed, missing)
    except ValueError:  # fewer than two classes, or constraints without individuals
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "SMALL", small)
        patch.setattr(slabs, "CELLS", 64)
        patch.setattr(slabs, "LISTED", 8)
        check(model, space, exact=False, boxes=boxes)


@settings(max_examples=FAST)
@given(spaces(), SEEDS, st.sampled_from([0, 4]), st.sampled_from([1, 9, 400]))
def test_networks(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, False, small, boxes)


@settings(max_examples=FAST)
@given(spaces(missing=True), SEEDS, st.sampled_from([0, 4]), st.sampled_from([1, 9, 400]))
def test_networks_with_missing_values(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, True, small, boxes)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(spaces(), SEEDS, st.sampled_from([0, 1, 4]), st.sampled_from([1, 5, 9, 40, 400]))
def test_many_networks(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, False, small, boxes)


@pytest.mark.slow
@settings(max_examples=MANY)
@given(spaces(missing=True), SEEDS, st.sampled_from([0, 1, 4]), st.sampled_from([1, 5, 9, 40, 400]))
def test_many_networks_with_missing_values(space: eh.Space, seed: int, small: int, boxes: int) -> None:
    prove(space, seed, True, small, boxes)


def small() -> eh.Space:
    return eh.Space([eh.Integer("age", 0, 6), eh.Integer("hours", 0, 5), eh.Nominal("sex", [0, 1])], "sex")


def chain(*parts: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return nn.Sequential(*(nn.Linear(*part) if isinstance(part, tuple) else part() for part in parts))


@pytest.mark.parametrize(
    ("model", "threshold"),
    [
        (lambda: chain((3, 6), nn.ReLU, (6, 1)), None),
        (lambda: chain((3, 6), nn.ReLU, (6, 1)), 0.53),
        (lambda: chain((3, 6), nn.Tanh, (6, 3), nn.ReLU, (3, 2)), None),
        (lambda: chain((3, 6), nn.Sigmoid, (6, 1), nn.Sigmoid), None),
        (lambda: chain((3, 4), nn.ReLU, (4, 2), lambda: nn.Softmax(dim=1)).double(), 0.48),
        (lambda: nn.Sequential(chain((3, 4), nn.ReLU), nn.Dropout(), chain((4, 4), (4, 2))), None),
        (lambda: chain((3, 2)), None),
        (lambda: chain((3, 1)), 0.6),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_chains_of_torch(model: Any, threshold: float | None, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not whole:
        monkeypatch.setattr(bounding, "SMALL", 4)
    wrapped, space = eh.wrap(model(), threshold=threshold), small()
    proof, (fair, unfair, _) = eh.prove(wrapped, space), truth(wrapped, space)
    assert (proof.counts.fair, proof.counts.unfair, proof.counts.undecided) == (fair, unfair, 0)
    assert proof.check(500) == 500


@pytest.mark.slow
@pytest.mark.parametrize("last", ["linear", "sigmoid", "softmax"])
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_keras(last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(6, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(4), keras.layers.ReLU()]
    head = keras.layers.Dense(2 if last == "softmax" else 1, last)
    model, space = keras.Sequential([keras.Input((3,)), *layers, head]), small()
    monkeypatch.setattr(bounding, "SMALL", 4)
    proof, (fair, unfair, _) = eh.prove(model, space), truth(model, space)
    assert (proof.counts.fair, proof.counts.unfair) == (fair, unfair)


def wide(size: int = 4) -> tuple[Any, eh.Space]:
    """Return a network, and a space too large to be listed."""
    columns = [eh.Integer(f"x{at}", 0, 200) for at in range(size)]
    net = chain((size + 1, 12), nn.ReLU, (12, 1), seed=1)
    with torch.no_grad():
        net[0].weight[:, :size] /= 50
        net[0].weight[:, size] *= 3
    return net, eh.Space([*columns, eh.Boolean("member")], "member")


def test_a_network_that_stops_has_bounds_around_the_truth() -> None:
    net, space = wide()
    proof = eh.prove(net, space, boxes=300)
    estimate = eh.estimate(net, space, samples=20_000, confidence=0.9999)
    assert proof.status.value == "stopped"
    assert 0 < proof.unfair <= estimate.high
    assert estimate.low <= proof.high
    assert proof.undecided < 0.5
    assert proof.counterexample is not None
    assert proof.check(20_000) > 5_000
    sampled = proof.estimate(2_000, confidence=0.9999)
    assert sampled.samples == 2_000
    assert sampled.low <= estimate.high
    assert estimate.low <= sampled.high
    with pytest.raises(EvenhandError, match="no certificate"):
        proof.save("proof.json.gz")


def test_shares_of_data_are_bounded_too() -> None:
    net, space = wide(3)
    rng = np.random.default_rng(1)
    rows = space.frame(rng.integers(0, space.coding.sizes, size=(300, 4)).astype(np.int32))
    proof = eh.prove(net, space, data=rows, boxes=100)
    assert proof.data is not None
    assert proof.data.total == 300
    assert proof.marginals is not None
    assert proof.marginals.total == 300**4
    assert proof.marginals.shares[1] == pytest.approx(proof.unfair, abs=0.1)


def test_ctrl_c_gives_the_bounds_reached(monkeypatch: pytest.MonkeyPatch, ctrl_c: None) -> None:
    net, space = wide()
    step, steps = Boxes.step, list[int]()

    def interrupted(self: Boxes) -> None:
        step(self)
        steps.append(1)
        if len(steps) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Boxes, "step", interrupted)
    proof = eh.prove(net, space)
    assert proof.status.value == "stopped"
    assert len(steps) == 3
    assert proof.undecided < 1
    del ctrl_c


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, rows: Any) -> Any:
        return self.layer(rows) + rows[:, :1]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: chain((3, 4), nn.ReLU, (4, 3)), "3 outputs"),
        (lambda: chain((3, 4), nn.GELU, (4, 1)), "gelu"),
        (Branching, "Branching"),
        (lambda: chain((3, 4), nn.ReLU, (4, 1)).half(), "float16"),
    ],
)
def test_networks_that_cannot_be_read(model: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words) as error:
        eh.prove(model(), small())
    assert "eh.estimate" in str(error.value)


@settings(max_examples=60)
@given(st.sampled_from(["relu", "tanh", "logistic"]), st.floats(-30, 30), st.floats(0, 40) | st.floats(0, 1e-6))
def test_lines_enclose_activations(name: str, low: float, width: float) -> None:
    ends = np.array([low]), np.array([low + width])
    lines, points = enclose(name, *ends), np.linspace(low, low + width, 101)
    values = activate(name, points)
    assert (lines.below * points + lines.below_constant <= values + 1e-12).all()
    assert (lines.above * points + lines.above_constant >= values - 1e-12).all()


@settings(max_examples=20)
@given(SEEDS, st.sampled_from([nn.ReLU, nn.Tanh, nn.Sigmoid]))
def test_bounds_contain_what_the_model_computes(seed: int, activation: Any) -> None:
    space = eh.Space([eh.Integer("a", 0, 5000), eh.Integer("b", -9, 9), eh.Boolean("member")], "member")
    net = chain((3, 7), activation, (7, 5), activation, (5, 1), seed=seed)
    model, domain = eh.wrap(net), Domain(space)
    network = read_network(model, space)
    assert network is not None
    inputs, rng = Inputs(network, domain), np.random.default_rng(seed)
    ends = np.sort(rng.integers([[0, 0]], [[5001, 19]], size=(20, 2, 2)), axis=1)
    bounds = bound(network, inputs, ends[:, 0], ends[:, 1])
    free = rng.integers(ends[:, :1], ends[:, 1:] + 1, size=(20, 30, 2))
    for member in (0, 1):
        rows = domain.rows(free.reshape(-1, 2), member)
        scores = net(torch.tensor(space.inputs(rows, "array"), dtype=torch.float32)).detach().numpy().reshape(20, 30)
        values = np.stack([inputs.tables[f][free[:, :, i]] for f, i in enumerate(inputs.place)], axis=-1)
        kind = inputs.kind_of[domain.own(member)]
        low = (values @ bounds.lower[:, kind, :, None])[..., 0] + bounds.lower_constant[:, kind, None]
        high = (values @ bounds.upper[:, kind, :, None])[..., 0] + bounds.upper_constant[:, kind, None]
        assert (low <= scores).all()
        assert (scores <= high).all()


def test_what_needs_leaves_is_refused_for_networks() -> None:
    net, space = chain((3, 6), nn.ReLU, (6, 1)), small()
    with pytest.raises(ModelError, match="within"):
        eh.prove(net, space, data=space.frame(np.zeros((1, 3), dtype=np.int32)), within=0.1)
    with pytest.raises(ModelError, match="largest gap"):
        eh.prove(net, space).largest_gap()
