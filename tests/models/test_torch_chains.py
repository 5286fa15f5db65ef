"""Chains of linear layers: the same gradients as autograd, and only for such chains."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.models.torch import chain_of
from evenhand.models.wrap import wrap
from tests.helpers import optional

torch = optional("torch")
nn = torch.nn


class Hidden(nn.Module):  # type: ignore[misc]
    """The same network, out of sight."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, rows: Any) -> Any:
        return self.net(rows)


ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Identity, lambda: nn.Dropout(0.5), lambda: nn.ReLU(inplace=True)]


@st.composite
def chains(draw: st.DrawFn) -> Any:
    torch.manual_seed(draw(st.integers(0, 10**6)))
    sizes = [3, *draw(st.lists(st.integers(1, 6), max_size=4)), draw(st.integers(1, 4))]
    parts: list[Any] = []
    for ins, outs in itertools.pairwise(sizes):
        parts += [nn.Linear(ins, outs, bias=draw(st.booleans())), draw(st.sampled_from(ACTIVATIONS))()]
    net = nn.Sequential(nn.Sequential(*parts[:2]), *parts[2:-1]) if len(parts) > 2 else nn.Sequential(*parts[:-1])
    return net.double() if draw(st.booleans()) else net


@given(chains(), st.integers(0, 10**6))
def test_gradients_are_those_of_autograd(net: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-5, 6, (20, 3)).astype(np.float64)
    fast, slow = wrap(net), wrap(Hidden(net))
    assert (fast.gradient_source, slow.gradient_source) == ("closed form", "autograd")
    classes = rng.integers(0, fast.scores(X).shape[1], 20)
    expected = slow.gradients(X, classes)
    np.testing.assert_allclose(fast.gradients(X, classes), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_gradients_use_the_current_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 1))
    model, row, one = wrap(net), np.array([[0.0, 0.0]]), np.array([1])
    with torch.no_grad():
        net[0].weight[:] = torch.tensor([[1.0, -1.0]])
        net[0].bias[:] = 0
    assert model.gradients(row, one).tolist() == [[-0.5, 0.5]]
    net[0].weight = nn.Parameter(torch.tensor([[2.0, 0.0]]))
    assert model.gradients(row, one).tolist() == [[-1.0, 0.0]]


def _hooked() -> Any:
    net = nn.Sequential(nn.Linear(2, 2))
    net[0].register_forward_hook(lambda module, given, output: 2 * output)
    return net


def _normed() -> Any:
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)))


class Own(nn.Linear):  # type: ignore[misc]
    def forward(self, rows: Any) -> Any:
        return super().forward(rows) ** 2


@pytest.mark.parametrize(
    "make",
    [
        _hooked,
        _normed,
        lambda: nn.Linear(2, 2).to(torch.bfloat16),
        lambda: nn.Sequential(Own(2, 2)),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2)),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sigmoid(), nn.Linear(2, 2)),
        lambda: nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1)),
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(2, 2)),
        lambda: nn.Sequential(),
        lambda: nn.GRU(2, 2),
    ],
)
def test_other_modules_are_not_chains(make: Any) -> None:
    assert chain_of(make()) is None


def test_infinite_weights_give_nan_gradients() -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        net[0].weight[:] = float("inf")
    assert np.isnan(wrap(net).gradients(np.array([[0.0, 1.0]]), np.array([0]))).any()
