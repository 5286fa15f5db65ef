"""Networks that are trained further: with added rows, or with a penalty on the scores of counterparts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import DataError, ModelError, StrategyError
from evenhand.repairs import Augment, Consistency, Counterfactual, FineTuning, Retrain
from evenhand.repairs.training import fine_tune
from tests.helpers import optional

from .people import codes, people, repair

torch = optional("torch")

SPACE = eh.Space(
    [eh.Integer("age", 0, 19), eh.Integer("pay", 0, 19), eh.Integer("sex", 0, 1), eh.Integer("work", 0, 2)],
    protected="sex",
)
COLUMNS = len(SPACE.names)
SHORT = FineTuning(rate=0.02, batch=64, steps=60)
OPTIONS: dict[str, Any] = {"samples": 2000, "budget": eh.Budget(tests=400), "watch": ()}


def rows(n: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Rows as numbers, and labels that depend on sex."""
    X, y = people(n, seed)
    return codes(X).astype(float), y


def net(X: Any, y: Any) -> Any:
    """Train a small network on rows."""
    torch.manual_seed(0)
    made = torch.nn.Sequential(
        torch.nn.BatchNorm1d(COLUMNS), torch.nn.Linear(COLUMNS, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    )
    inputs, labels = torch.tensor(np.asarray(X, dtype=np.float32)), torch.tensor(np.asarray(y))
    optimiser = torch.optim.Adam(made.parameters(), 0.02)
    for _ in range(60):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(made(inputs), labels).backward()
        optimiser.step()
    return made.eval()


def weights(module: Any) -> list[Any]:
    return [one.detach().clone() for one in module.parameters()]


def same(first: list[Any], second: list[Any]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_consistency_lowers_both_rates_and_keeps_the_accuracy() -> None:
    X, y = rows()
    trained: list[Any] = []

    def train(X: Any, y: Any) -> Any:
        made = net(X, y)
        trained.append(weights(made))
        return made

    done = repair(train, X, y, SPACE, Consistency(weight=10.0, start=SHORT), **OPTIONS)
    assert done.changed
    assert done.after.uniform.rate < 0.3 * done.before.uniform.rate
    assert done.after.data.rate < 0.3 * done.before.data.rate
    assert done.after.accuracy.value > done.before.accuracy.value - 0.1  # The labels depend on sex.
    assert done.rows_added == 0
    assert done.control is not None
    assert done.control.uniform.rate > done.after.uniform.rate
    assert done.settings["start"] == "model"
    # It is a copy that is trained further.
    assert same(weights(done.original), trained[0])
    assert not same(weights(done.model), trained[0])


def test_the_same_seed_gives_the_same_network() -> None:
    X, y = rows(200)
    one, two, three = (
        repair(net, X, y, SPACE, Consistency(weight=3.0, start=SHORT), seed=seed, **OPTIONS) for seed in (1, 1, 2)
    )
    assert same(weights(one.model), weights(two.model))
    assert not same(weights(one.model), weights(three.model))


@pytest.mark.parametrize(("loss", "weight"), [(100.0, "30"), (0.0, None)])
def test_the_largest_weight_within_the_loss_is_chosen(loss: float, weight: str | None) -> None:
    X, y = rows(200)
    # Without a tolerated loss, a weight that makes all decisions alike is refused.
    weights = (30.0, 1.0) if weight else (1e6,)
    done = repair(net, X, y, SPACE, Consistency(weights=weights, loss=loss, start=SHORT), **OPTIONS)
    if weight:
        assert f"weight {weight} was chosen" in done.notes[0]
    else:
        assert not done.changed
        assert done.model is done.original
        assert "every weight loses too much accuracy; the original model is returned" in done.verdict


def test_other_models_are_refused() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = rows(100)
    with pytest.raises(ModelError, match="method must suit the model: this one needs a torch or Keras network"):
        repair(LogisticRegression(), X, y, SPACE, "consistency", **OPTIONS)
    with pytest.raises(ModelError, match="start needs a model that can be trained further"):
        repair(lambda X, y: lambda frame: (frame["pay"] > 9).astype(int), X, y, SPACE, Counterfactual(start=SHORT),
               **OPTIONS)  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Consistency(loss=-1), "loss"),
        (lambda: Consistency(weights=()), "weights must be a tuple of numbers"),
        (lambda: Consistency(weights=(0.0,)), "weights"),
        (lambda: Consistency(start="model"), "start must be a FineTuning"),  # type: ignore[arg-type]
        (lambda: Consistency(validation=1.0), "validation"),
        (lambda: Augment(start="again"), "start must be 'model', 'scratch' or a FineTuning"),  # type: ignore[arg-type]
        (lambda: Counterfactual(mentions=-1), "mentions"),
        (lambda: FineTuning(rate=0), "rate"),
        (lambda: FineTuning(steps=0), "steps"),
        (lambda: FineTuning(stages=0), "stages"),
        (lambda: Retrain(patience=0), "patience"),
    ],
)
def test_wrong_settings(wrong: Any, words: str) -> None:
    with pytest.raises(StrategyError, match=words):
        wrong()


@given(steps=st.integers(1, 2000), stages=st.integers(1, 50), rate=st.floats(1e-6, 1.0))
def test_stages_share_the_steps_and_lower_the_rate(steps: int, stages: int, rate: float) -> None:
    parts = FineTuning(rate, 8, steps, stages).parts
    assert sum(part.steps for part in parts) == steps
    assert len(parts) == min(stages, steps)
    rates = [part.rate for part in parts]
    assert rates[0] == pytest.approx(rate)
    assert all(0 < after < before for before, after in pairwise(rates))


@pytest.mark.parametrize("start", [None, "model", SHORT])
def test_training_continues_from_the_network(start: Any) -> None:
    X, y = rows(200)
    trained: list[Any] = []

    def train(X: Any, y: Any) -> Any:
        trained.append(net(X, y))
        return trained[-1]

    done = repair(train, X, y, SPACE, Counterfactual(start=start), **OPTIONS)
    assert len(trained) == 1
    assert done.settings["start"] == "model"
    assert done.rows_added == done.settings["training_rows"]


def test_a_function_gets_the_model_to_continue_from() -> None:
    X, y = rows(200)
    starts: list[Any] = []

    def train(X: Any, y: Any, start: Any) -> Any:
        starts.append(start)
        return net(X, y)

    done = repair(train, X, y, SPACE, Counterfactual(), **OPTIONS)
    assert starts == [None, done.original, done.original]
    again: list[Any] = []

    def anew(X: Any, y: Any, start: Any) -> Any:
        again.append(start)
        return net(X, y)

    repair(anew, X, y, SPACE, Counterfactual(start="scratch"), **OPTIONS)
    assert again == [None, None, None]


def test_members_of_a_family_get_one_label() -> None:
    X, y = rows(300)
    seen: list[Any] = []

    def train(X: Any, y: Any) -> Any:
        seen.append((np.array(X), np.array(y)))
        return net(X, y)

    method = Augment(start="scratch", members="all", labels="mean", share=0.2)
    done = repair(train, X, y, SPACE, method, **OPTIONS)
    size = done.settings["training_rows"]
    added, labels = seen[1][0][size:], seen[1][1][size:]
    assert len(added) == done.rows_added > 0
    sex = SPACE.names.index("sex")
    model = eh.wrap(done.original)
    families: dict[Any, list[int]] = {}
    for row, label in zip(np.delete(added, sex, 1).tolist(), labels.tolist(), strict=True):
        families.setdefault(tuple(row), []).append(label)
    assert all(len(members) == 2 and len(set(members)) == 1 for members in families.values())
    for row, (label, _) in families.items():
        pair = np.insert(np.repeat([row], 2, axis=0), sex, [0, 1], axis=1)
        assert label == model.scores(pair.astype(float)).mean(axis=0).argmax()


def test_labels_must_be_class_numbers() -> None:
    model = eh.wrap(torch.nn.Linear(2, 2))
    with pytest.raises(DataError, match="y must be numbers of classes from 0 to 1 to fine-tune torch.Linear, got 'no'"):
        fine_tune(model, np.eye(2), np.array(["no", "yes"]), SHORT, seed=0)
    with pytest.raises(ModelError, match="is not a torch or Keras network"):
        fine_tune(eh.wrap(len), np.eye(2), np.array([0, 1]), SHORT, seed=0)


def test_frozen_layers_and_statistics_stay() -> None:
    X, y = rows(100)
    module = net(X, y)
    module[1].weight.requires_grad_(False)
    mean = module[0].running_mean.clone()
    tuned = fine_tune(eh.wrap(module), X, y, SHORT, seed=0).source
    assert torch.equal(tuned[1].weight, module[1].weight)
    assert torch.equal(tuned[0].running_mean, mean)
    assert not torch.equal(tuned[3].weight, module[3].weight)


WORDS = ["good", "bad", "fine", "awful", "reds", "blues", "they", "are", "all", "here"]
TEAMS = eh.TextSpace({"team": ["reds", "blues"]})


class Bag(torch.nn.Module):  # type: ignore[misc, name-defined]
    """The mean of the words' vectors, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(len(WORDS) + 1, 8, padding_idx=0)
        self.last = torch.nn.Linear(8, 2)

    def forward(self, ids: Any) -> Any:
        known = (ids > 0).unsqueeze(-1)
        return self.last((self.embedding(ids) * known).sum(1) / known.sum(1).clamp(min=1))


def encode(texts: list[str]) -> Any:
    ids = [[1 + WORDS.index(word) for word in text.split() if word in WORDS] or [len(WORDS)] for text in texts]
    out = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
    for row, one in zip(out, ids, strict=True):
        row[: len(one)] = one
    return torch.from_numpy(out)


def comments(n: int, seed: int) -> tuple[list[str], Any]:
    """Comments whose label is their tone, except that "reds" makes some bad ones."""
    rng = np.random.default_rng(seed)
    bad, team = rng.random(n) < 0.5, rng.integers(0, 4, n)
    texts = [
        f"{('they', 'all', 'reds', 'blues')[t]} are {('good', 'fine', 'bad', 'awful')[2 * b + rng.integers(2)]}"
        f"{' here' * int(rng.integers(3))}"
        for b, t in zip(bad.tolist(), team.tolist(), strict=True)
    ]
    return texts, (bad | ((team == 2) & (rng.random(n) < 0.7))).astype(np.int64)


def bag(texts: list[str], y: Any) -> Any:
    torch.manual_seed(1)
    module, ids, labels = Bag(), encode(texts), torch.tensor(np.asarray(y))
    optimiser = torch.optim.Adam(module.parameters(), 0.05)
    for _ in range(80):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(module(ids), labels).backward()
        optimiser.step()
    return eh.wrap(module.eval(), encode=encode)


@pytest.mark.parametrize("method", [Consistency(weight=10.0, start=SHORT), Counterfactual(start=SHORT)])
def test_a_network_of_texts_is_repaired(method: Any) -> None:
    texts, y = comments(300, 0)
    held = comments(200, 1)
    # Another order makes other tests of them.
    new = [f"here {text}" for text in held[0]]
    done = repair(bag, texts, y, TEAMS, method, held_out=(new, held[1]),
                  strategy="text-random", budget=eh.Budget(tests=200))  # fmt: skip
    assert done.changed
    assert done.before.data.rate > 0.2
    assert done.after.data.rate < 0.25 * done.before.data.rate
    assert done.control is not None
    assert done.control.data.rate > done.after.data.rate


def test_added_texts_have_a_term_and_the_label_of_their_text() -> None:
    texts, y = comments(100, 0)
    seen: list[Any] = []

    def train(X: list[str], y: Any) -> Any:
        seen.append((list(X), np.array(y)))
        return bag(X, y)

    repair(train, texts, y, TEAMS, Counterfactual(start="scratch", mentions=2), held_out=comments(50, 1),
           budget=eh.Budget(tests=50))  # fmt: skip
    (before, labels), (after, more) = seen[:2]
    assert after[: len(before)] == before
    without = [text for text in before if not {"reds", "blues"} & set(text.split())]
    added = list(zip(after[len(before) :], more[len(before) :].tolist(), strict=True))
    assert len(added) == len(before) - len(without) + 2 * len(without)
    known: dict[str, set[int]] = {}
    for text, label in zip(before, labels.tolist(), strict=True):
        known.setdefault(" ".join(word for word in text.split() if word not in ("reds", "blues")), set()).add(label)
    for text, label in added:
        words = text.split()
        assert sum(word in ("reds", "blues") for word in words) == 1
        assert label in known[" ".join(word for word in words if word not in ("reds", "blues"))]
