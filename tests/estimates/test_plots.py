"""Plots: every estimate can be drawn."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import MissingExtra
from tests.helpers import optional, slow, with_settings

SPACE = eh.Space([eh.Integer("a", 0, 999), eh.Nominal("s", ["x", "y", "z"])], protected="s")


@pytest.fixture(autouse=True)
def matplotlib() -> None:
    optional("matplotlib")


def scores(frame):
    p = np.clip(frame["a"] / 1000 + 0.1 * (frame["s"] == "x"), 0, 1)
    return np.column_stack([1 - p, p])


def fair(frame):
    return frame["a"] > 3


@pytest.mark.parametrize("model", [scores, fair])
@pytest.mark.parametrize(
    "kwargs", [{}, {"exact": False, "samples": 3_000}, {"exact": False, "samples": 1}, {"half_width": 0.04}]
)
@pytest.mark.parametrize("favourable", [None, *slow([1])])
def test_every_estimate_can_be_drawn(model, kwargs, favourable) -> None:
    estimate = with_settings(model, SPACE, favourable=favourable, **kwargs)
    for plot in (estimate.plot_convergence, estimate.plot_intervals, estimate.plot_gaps):
        figure = plot()
        figure.savefig(io.BytesIO(), format="svg")
    shown = sys.modules.get("matplotlib.pyplot")
    assert shown is None or not shown.get_fignums()


def test_convergence_ends_at_the_result() -> None:
    estimate = eh.estimate(scores, SPACE, eh.populations.Uniform(exact=False), samples=3_000)
    line = estimate.plot_convergence().axes[0].lines[0]
    assert line.get_xdata()[-1] == 3_000
    assert line.get_ydata()[-1] == pytest.approx(100 * estimate.rate)
    whole = eh.estimate(scores, SPACE).plot_convergence().axes[0].lines[0]
    assert whole.get_xdata()[-1] == 3_000


def test_interval_plots_show_favoured_values() -> None:
    axes = eh.estimate(scores, SPACE, favourable=1).plot_intervals().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "s x / s y"
    assert "favoured" in axes.get_xlabel()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = eh.estimate(scores, SPACE)
    monkeypatch.setattr("evenhand.estimates.plots.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'evenhand\[plots\]'"):
        estimate.plot_gaps()
