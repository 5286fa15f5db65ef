"""ADF against a plain reference, one seed at a time, written from the paper."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand._rng import Stream
from evenhand.engine.determinism import RowChecks
from evenhand.search import Problem, Query, contrast, in_turn, kmeans, watched
from evenhand.strategies.adf import EPSILON
from tests.helpers import optional, slow

Row = tuple[int, ...]


@dataclass(frozen=True)
class Watched:
    """A search whose visits are written down."""

    inner: eh.Adf
    visits: list[Row] = field(default_factory=list)
    uses_gradient: ClassVar[bool] = True

    @property
    def gradient(self) -> str:
        return self.inner.gradient

    def search(self, problem: Problem) -> Any:
        return watched(self.inner.search(problem), self.look)

    def look(self, query: Query) -> None:
        if query.kind == "contrast":
            assert query.individuals is not None
            self.visits.extend(map(tuple, query.individuals.rows.tolist()))


@dataclass
class Reference:
    """The paper's Algorithms 1 to 4 with plain loops; random draws are the run's own."""

    space: eh.Space
    outputs: Callable[[Row], Any]
    """The scores of one row."""
    slope: Callable[[Row, int], Any]
    """The gradient of the loss of a class at one row."""
    settings: eh.Adf
    seed: int

    def __post_init__(self) -> None:
        self.stream = Stream(self.seed)

    def counterparts(self, x: Row) -> list[Row]:
        values = [range(self.space.coding.sizes[p]) for p in self.space.protected_columns]
        out = []
        for combination in itertools.product(*values):
            other = list(x)
            for p, value in zip(self.space.protected_columns, combination, strict=True):
                other[p] = value
            if tuple(other) != x:
                out.append(tuple(other))
        return out

    def look(self, x: Row) -> tuple[bool, Row, int]:
        """Whether x is discriminatory, its most different counterpart, and its own decision."""
        own = self.outputs(x)
        y = int(np.argmax(own))
        others = [(other, self.outputs(other)) for other in self.counterparts(x)]
        flipped = [(other, said) for other, said in others if int(np.argmax(said)) != y]
        best, widest = None, -1.0
        for other, said in flipped or others:
            if abs(said[y] - own[y]) > widest:
                best, widest = other, abs(said[y] - own[y])
        assert best is not None
        return bool(flipped), best, y

    def draw(self, phase: str, walker: int, number: int) -> int:
        return int(self.stream.bits(phase, walker, number)[0])

    def clip(self, j: int, code: int) -> int:
        return min(max(code, 0), self.space.coding.sizes[j] - 1)

    def target(self, x: Row, j: int, walker: int, number: int) -> int:
        size = self.space.coding.sizes[j]
        return (x[j] + 1 + self.draw(f"jump{j}", walker, number) % max(size - 1, 1)) % size

    def one_step(self, x: Row, j: int, walker: int, number: int) -> Row:
        size = int(self.settings.step)
        down = self.draw("down", walker, number) >> 63
        there = self.clip(j, x[j] - size if down else x[j] + size)
        if not self.space.ordered[j]:
            there = self.target(x, j, walker, number)
        moved = (*x[:j], there, *x[j + 1 :])
        return moved if self.space.valid(np.array([moved], dtype=np.int32))[0] else x

    def steps(self, gradient: Any, x: Row, walker: int, number: int) -> list[float]:
        """The gradient times one step of each attribute; a nominal one steps to its drawn value."""
        return [
            float(gradient[j] * (1 if self.space.ordered[j] else self.target(x, j, walker, number) - x[j]))
            for j in range(len(x))
        ]

    def lead(self, walker: int, x: Row) -> tuple[list[Row], bool]:
        """Global: every place that a seed was judged at, and whether it was found at the last."""
        path = []
        for iteration in range(self.settings.max_iter):
            path.append(x)
            unfair, other, y = self.look(x)
            if unfair:
                return path, True
            if iteration == self.settings.max_iter - 1:
                break
            own = self.steps(self.slope(x, y), x, walker, iteration)
            theirs = self.steps(self.slope(other, y), x, walker, iteration)
            moved = list(x)
            for j in self.space.free_columns:
                if np.sign(own[j]) == np.sign(theirs[j]):
                    if self.space.ordered[j]:
                        moved[j] = self.clip(j, x[j] + int(np.sign(own[j])) * int(self.settings.step))
                    elif own[j] > 0:
                        moved[j] = self.target(x, j, walker, iteration)
            if tuple(moved) == x or not self.space.valid(np.array([moved], dtype=np.int32))[0]:
                free = self.space.free_columns
                x = self.one_step(x, free[self.draw("any", walker, iteration) % len(free)], walker, iteration)
            else:
                x = tuple(moved)
        return path, False

    def walk(self, walker: int, x: Row) -> list[Row | None]:
        """Local: every place that a found seed was judged at; None for a trial that changes nothing."""
        path: list[Row | None] = []
        free = self.space.free_columns
        for trial in range(self.settings.trials):
            if trial % self.settings.refresh == 0:
                _, other, y = self.look(x)
                own = self.steps(self.slope(x, y), x, walker, trial)
                theirs = self.steps(self.slope(other, y), x, walker, trial)
            total = [abs(own[j]) + abs(theirs[j]) for j in free]
            largest = max(total) or 1.0
            chances = [
                1 / (t / largest + EPSILON) if self.space.coding.sizes[j] > 1 else 0.0
                for t, j in zip(total, free, strict=True)
            ]
            at, chosen = self.stream.unit("choice", walker, trial)[0] * np.cumsum(chances)[-1], 0
            while np.cumsum(chances)[chosen] <= at and chosen < len(free) - 1:
                chosen += 1
            there = self.one_step(x, free[chosen], walker, trial)
            path.append(there if there != x else None)
            if self.look(there)[0] or self.stream.unit("stray", walker, trial)[0] < self.settings.stray:
                x = there
        return path

    def visits(self, seeds: list[Row]) -> list[Row]:
        """Everyone judged, in the order of a search whose walkers step together."""
        leads = [self.lead(walker, x) for walker, x in enumerate(seeds)]
        out = [path[i] for i in range(self.settings.max_iter) for path, _ in leads if i < len(path)]
        found: dict[Any, tuple[int, Row]] = {}
        for i in range(self.settings.max_iter):
            for walker, (path, unfair) in enumerate(leads):
                if unfair and len(path) == i + 1:
                    found.setdefault(tuple(path[-1][j] for j in self.space.free_columns), (walker, path[-1]))
        walks = [self.walk(walker, x) for walker, x in found.values()]
        return out + [row for t in range(self.settings.trials) for walk in walks if (row := walk[t]) is not None]


def network(torch: Any, widths: list[int], seed: int) -> Any:
    torch.manual_seed(seed)
    layers: list[Any] = []
    for a, b in itertools.pairwise(widths):
        layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
    net = torch.nn.Sequential(*layers[:-1]).double()
    with torch.no_grad():
        # Weights large enough that decisions change inside the space, centred so that they do.
        for parameter in net.parameters():
            parameter.mul_(2.0)
    return net


@st.composite
def spaces(draw: st.DrawFn) -> eh.Space:
    sizes = draw(st.lists(st.integers(2, 6), min_size=3, max_size=6))
    nominal = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    attributes = [
        eh.Nominal(f"a{j}", range(size)) if named else eh.Integer(f"a{j}", 0, size - 1)
        for j, (size, named) in enumerate(zip(sizes, nominal, strict=True))
    ]
    count = draw(st.integers(1, 2))
    protected = [f"a{j}" for j in draw(st.permutations(range(len(sizes))))[:count]]
    constraint = draw(st.sampled_from([[], [f"a{draw(st.integers(0, len(sizes) - 1))} != 1"]]))
    return eh.Space(attributes, protected, constraint if not draw(st.booleans()) else [])


def random_people(space: eh.Space, n: int, seed: int) -> Any:
    return space.frame(space.sampler.draw(Stream(seed + 99), 0, n)[0].rows)


def torch_functions(torch: Any, net: Any) -> tuple[Any, Any]:
    def outputs(x: Row) -> Any:
        with torch.no_grad():
            return torch.softmax(net(torch.tensor([x], dtype=torch.float64)), dim=1)[0].numpy()

    def slope(x: Row, y: int) -> Any:
        point = torch.tensor([x], dtype=torch.float64, requires_grad=True)
        torch.nn.functional.cross_entropy(net(point), torch.tensor([y])).backward()
        net.zero_grad()
        return point.grad[0].numpy()

    return outputs, slope


@settings(max_examples=30)
@given(
    space=spaces(),
    seed=st.integers(0, 10**6),
    seeds=st.integers(1, 12),
    max_iter=st.integers(1, 10),
    trials=st.integers(1, 12),
    step=st.integers(1, 2),
    stray=st.sampled_from([eh.Adf.PRINTED, eh.Adf.PROGRAM, 0.0]),
    refresh=st.sampled_from([1, 1, 2, 5, 20]),
)
def test_a_torch_net_is_searched_as_the_paper_does(
    space: eh.Space, seed: int, seeds: int, max_iter: int, trials: int, step: int, stray: float, refresh: int
) -> None:
    torch = optional("torch")
    net = network(torch, [len(space.names), 8, 2], seed)
    strategy = eh.Adf(seeds=seeds, max_iter=max_iter, trials=trials, step=step, stray=stray, refresh=refresh, rounds=1)
    watched = Watched(strategy)
    # Constraints on protected attributes leave some out of every family; the plain loops below do not know that.
    if space.constraints and set(space.constraints[0].names) & set(space.protected):
        space = eh.Space(space.attributes, space.protected)
    eh.audit(net, space, watched, eh.Budget(tests=10**9), seed=seed, data=random_people(space, 30, seed))
    reference = Reference(space, *torch_functions(torch, net), strategy, seed)
    start = _seeds_of(space, seeds, seed)
    assert watched.visits == reference.visits(start)[: len(watched.visits)]
    assert len(watched.visits) == len(reference.visits(start)) or _exhausted(space, watched)


def _exhausted(space: eh.Space, watched: Watched) -> bool:
    """A small space ends a search once every test was judged."""
    tests = {tuple(row[j] for j in space.free_columns) for row in watched.visits}
    return space.countable and len(tests) == space.tests


def _seeds_of(space: eh.Space, most: int, seed: int) -> list[Row]:
    """The seeds, clusters in turn, with plain loops."""
    stream, people = Stream(seed), space.encode(random_people(space, 30, seed)).individuals.rows
    order = stream.shuffled(np.arange(len(people)), len(people), "seeds")
    known, unique = set(), []
    for i in order:
        key = tuple(people[i][space.free_columns].tolist())
        if key not in known:
            known.add(key)
            unique.append(people[i])
    rows = np.array(unique)
    cluster = kmeans(space, rows, 4, int(stream.bits("kmeans", 0, 0)[0] >> np.uint64(32)))
    queues = [[tuple(rows[i].tolist()) for i in np.flatnonzero(cluster == c)] for c in range(4)]
    out: list[Row] = []
    while any(queues):
        out += [queue.pop(0) for queue in queues if queue]
    return out[:most]


@pytest.mark.parametrize("seed", [0, 1, *slow(range(2, 6))])
def test_a_scikit_learn_mlp_is_searched_as_the_paper_does(seed: int) -> None:
    torch = optional("torch")
    from sklearn.neural_network import MLPClassifier

    rng = np.random.default_rng(seed)
    space = eh.Space([eh.Integer(f"a{j}", 0, 9) for j in range(5)], protected=["a1"])
    X = rng.integers(0, 10, size=(300, 5)).astype(float)
    y = (np.sin(0.3 * X @ rng.normal(size=5) + X[:, 1]) > 0).astype(int)
    model = MLPClassifier((8, 6), activation="tanh", max_iter=3000, tol=1e-2, random_state=seed).fit(X, y)
    net = torch.nn.Sequential()
    for i, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        layer = torch.nn.Linear(*weights.shape).double()
        layer.weight.data, layer.bias.data = torch.tensor(weights.T), torch.tensor(bias)
        net.append(layer)
        if i < 2:
            net.append(torch.nn.Tanh())

    def outputs(x: Row) -> Any:
        return model.predict_proba([x])[0]

    def slope(x: Row, chosen: int) -> Any:
        point = torch.tensor([x], dtype=torch.float64, requires_grad=True)
        logit = net(point)[0, 0]
        torch.nn.functional.softplus(-logit if chosen else logit).backward()
        return point.grad[0].numpy()

    strategy = eh.Adf(seeds=20, trials=30, refresh=1, rounds=1)
    watched = Watched(strategy)
    run = eh.audit(model, space, watched, eh.Budget(tests=10**9), seed=seed, data=random_people(space, 30, seed))
    assert run.gradient == "closed form"
    reference = Reference(space, outputs, slope, strategy, seed)
    assert watched.visits == reference.visits(_seeds_of(space, 20, seed))
    assert run.found or seed == 0


def test_phases() -> None:
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("b", 0, 99), eh.Integer("sex", 0, 1)], protected="sex")

    def model(X: Any) -> Any:
        return np.column_stack([np.zeros(len(X)), (X[:, 0] + X[:, 1] + 4 * X[:, 2] - 100) / 50])

    wrapped = eh.wrap(model, input="array")
    data = random_people(space, 200, 0)
    one, ten, local, both = (
        eh.audit(wrapped, space, eh.Adf(seeds=100, trials=20, rounds=1, **more), eh.Budget(tests=10**9), data=data)
        for more in ({"phase": "global", "max_iter": 1}, {"phase": "global"}, {"phase": "local"}, {})
    )
    assert 0 < one.found < ten.found < both.found
    program, printed = (
        eh.audit(wrapped, space, eh.Adf(seeds=100, trials=20, stray=stray, rounds=1), eh.Budget(tests=10**9), data=data)
        for stray in (eh.Adf.PROGRAM, eh.Adf.PRINTED)
    )
    assert both.success_rate > program.success_rate > printed.success_rate
    # Only seeds that discriminate to begin with are walked from.
    assert one.tests == 100
    assert one.found < local.found <= one.found * 21
    assert ten.tests < both.tests


def test_gradients_find_more_than_random_steps() -> None:
    # The band of discrimination is thin and far from most seeds.
    space = eh.Space([*(eh.Integer(f"a{j}", 0, 50) for j in range(4)), eh.Integer("sex", 0, 1)], protected="sex")

    def model(X: Any) -> Any:
        value = X[:, :4].sum(axis=1) + 4 * X[:, 4] - 115.5
        return np.column_stack([-value, value])

    run = eh.audit(eh.wrap(model, input="array"), space, eh.Adf(seeds=200, max_iter=10, phase="global"), eh.Budget())
    plain = eh.audit(eh.wrap(model, input="array"), space, eh.Themis(samples=200), eh.Budget())
    assert run.found > 5 * plain.found


@pytest.mark.parametrize("missing", [False, True])
def test_all_zero_gradients_end_in_a_uniform_choice(missing: bool) -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 3, missing=missing), eh.Nominal("b", ["x", "y", "z"]), eh.Boolean("sex")], protected=["sex"]
    )

    def flat(frame: Any) -> Any:
        return np.full((len(frame), 2), 0.5)

    watched = Watched(eh.Adf(seeds=6, max_iter=30, phase="global"))
    run = eh.audit(flat, space, watched, eh.Budget())
    assert run.found == 0
    # Seeds that nothing leads wander, so that in the end everyone is judged.
    assert run.stop is eh.StopReason.EXHAUSTED


def test_clusters_take_turns_and_the_same_person_starts_once() -> None:
    assert in_turn(np.array([1, 0, 1, 1, 0])).tolist() == [1, 0, 4, 2, 3]
    space = eh.Space([eh.Integer("a", 0, 99), eh.Integer("sex", 0, 1)], protected="sex")
    frame = random_people(space, 200, 0)
    doubled = frame.assign(sex=1 - frame["sex"])
    import pandas as pd

    def model(X: Any) -> Any:
        return np.column_stack([X[:, 0], 50 - X[:, 0]])

    watched = Watched(eh.Adf(seeds=1000, phase="global", max_iter=1))
    run = eh.audit(eh.wrap(model, input="array"), space, watched, eh.Budget(), data=pd.concat([frame, doubled]))
    assert len(watched.visits) == run.tests == frame["a"].nunique()
    first = [row[0] for row in watched.visits[:4]]
    assert max(first) - min(first) > 40


def test_seeds_outside_the_space_are_clipped_and_counted() -> None:
    dataset = eh.datasets.load("adult")
    frame = dataset.paper_frame().iloc[:, :-1]
    model = eh.wrap(lambda X: np.column_stack([X[:, 0], X[:, 8]]), input="array")
    run = eh.audit(
        model, dataset.paper_space(protected=["sex"]), eh.Adf(seeds=50, trials=5, rounds=1), eh.Budget(), data=frame
    )
    assert run.counts["clipped"] == 2427


def test_models_that_return_numbers_are_refused() -> None:
    space = eh.Space([eh.Integer("a", 0, 19), eh.Integer("sex", 0, 1)], protected="sex")

    def chance(X: Any) -> Any:
        return 1 / (1 + np.exp(-(X[:, 0] + 3 * X[:, 1] - 10) / 5))

    plain = eh.wrap(chance, input="array")
    with pytest.raises(eh.errors.ModelError, match="look like scores"):
        eh.audit(plain, space, "adf")
    for criterion in (eh.Gap(0.1), eh.Gap(0.1) | eh.Gap(0.2)):
        assert eh.audit(plain, space, "adf", criterion=criterion).found
    cut = eh.wrap(chance, input="array", threshold=0.5)
    assert eh.audit(cut, space, "adf").found == eh.audit(cut, space, "themis").found == 3


def test_integer_scores_have_slopes() -> None:
    space = eh.Space([eh.Integer("a", 0, 19), eh.Integer("sex", 0, 1)], protected="sex")
    card = eh.wrap(lambda X: 300 + 10 * X[:, 0] + 25 * X[:, 1], input="array", threshold=400)
    assert eh.audit(card, space, "adf").found == 2
    assert eh.audit(eh.wrap(card.source, input="array"), space, "adf", criterion=eh.Gap(20)).found == 20


def test_only_valid_individuals_are_asked_about() -> None:
    space = eh.Space(
        [eh.Integer("a", 0, 30), eh.Integer("b", 0, 30), eh.Nominal("c", ["x", "y"]), eh.Nominal("sex", ["f", "m"])],
        protected="sex",
        constraints=["a <= b", "c == 'x' or a > 3"],
    )
    asked: list[Any] = []

    def model(frame: Any) -> Any:
        asked.append(frame)
        value = (frame["a"] + frame["b"] - 30 + 3 * (frame["sex"] == "m")) / 5
        return np.column_stack([-value, value])

    run = eh.audit(model, space, eh.Adf(seeds=50, trials=20), eh.Budget(tests=400))
    assert run.found
    assert run.gradient == "differences of scores"
    for frame in asked:
        assert space.encode(frame, strict=True).dropped == 0


def test_wide_nominal_attributes_and_nothing_else() -> None:
    values = [f"v{i}" for i in range(300)]
    space = eh.Space([eh.Nominal("city", values), eh.Nominal("sex", values)], protected="sex", max_family_size=50)

    def model(frame: Any) -> Any:
        value = frame["city"].str[1:].astype(int) - frame["sex"].str[1:].astype(int)
        return np.column_stack([-value, value])

    assert eh.audit(model, space, eh.Adf(seeds=20, trials=5), eh.Budget(tests=100)).found


def test_the_size_of_slopes_does_not_matter() -> None:
    space = eh.Space([*(eh.Integer(f"a{j}", 0, 50) for j in range(4)), eh.Integer("sex", 0, 1)], protected="sex")
    weights = np.array([1.0, 2.0, -1.0, 0.5, 5.0])

    class Model(eh.Model):
        name, input, has_scores, decides, gradient_source = "model", "array", True, True, "known"
        scale = 1.0

        def labels(self, X: Any) -> Any:
            return self.decide(self.scores(X))

        def scores(self, X: Any) -> Any:
            value = X @ weights - 60
            return np.column_stack([-value, value])

        def gradients(self, X: Any, classes: Any) -> Any:
            return np.where(classes == 1, -1, 1)[:, None] * weights * self.scale

    found = []
    for scale in (1.0, 1e-60, 1e60):
        model = Model()
        model.scale = scale
        found.append(eh.audit(model, space, eh.Adf(seeds=100, trials=20, rounds=1), eh.Budget()).found)
    assert found[0] == found[1] == found[2] > 0


def test_a_gradient_is_asked_in_pieces_that_a_budget_can_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the rows that check the model, every call belongs to a question of the search.
    monkeypatch.setattr(RowChecks, "check", lambda *_: (0, 0))
    space = eh.Space([*(eh.Integer(f"a{j}", 0, 50) for j in range(4)), eh.Integer("sex", 0, 1)], protected="sex")
    calls: list[int] = []

    def model(X: Any) -> Any:
        calls.append(len(X))
        value = X[:, :4].sum(axis=1) + 4 * X[:, 4] - 115.5
        return np.column_stack([-value, value])

    seen: list[int] = []
    eh.audit(
        eh.wrap(model, input="array", chunk=80),
        space,
        eh.Adf(seeds=100, phase="global"),
        eh.Budget(tests=10**6),
        progress=lambda status: seen.append(status.rows),
    )
    assert max(calls) <= 80
    # After every call there was a chance to stop; the first ones are for the rows that identify the model, and the
    # first blocks are asked in calls that start small.
    large = [size for size in calls if size > 32]
    assert len(seen) > len(large) - 8


def test_a_search_that_does_not_declare_gradients_is_refused() -> None:
    @dataclass(frozen=True)
    class Own:
        def search(self, problem: Problem) -> Any:
            yield from contrast(problem.sample(10))

    space = eh.Space([eh.Integer("a", 0, 19), eh.Integer("sex", 0, 1)], protected="sex")
    with pytest.raises(eh.errors.StrategyError, match="uses_gradient"):
        eh.audit(lambda frame: frame["a"] > 3, space, Own())


def test_empty_data_are_refused() -> None:
    space = eh.Space([eh.Integer("a", 0, 3), eh.Integer("sex", 0, 1)], protected="sex")
    frame = random_people(space, 4, 0)[:0]
    with pytest.raises(eh.errors.DataError, match="data has no rows"):
        eh.audit(eh.wrap(lambda X: X + 0.5, input="array"), space, "adf", data=frame)


def test_settings_may_be_numpy_numbers(tmp_path: Any) -> None:
    space = eh.Space([eh.Integer("a", 0, 9), eh.Integer("sex", 0, 1)], protected="sex")
    model = eh.wrap(lambda X: np.column_stack([X[:, 0], 5 - X[:, 1]]), input="array")
    strategy = eh.Adf(seeds=np.int64(5), trials=np.int64(3), stray=np.float64(0.5))
    run = eh.audit(model, space, strategy, directory=tmp_path / "run")
    assert eh.Run.load(tmp_path / "run").found == run.found


def test_a_model_with_labels_only_is_refused_by_name() -> None:
    space = eh.Space([eh.Integer("a", 0, 3), eh.Integer("sex", 0, 1)], protected="sex")
    for answer in (lambda X: X[:, 0] > 1, lambda X: X[:, 0].astype(int), lambda X: np.where(X[:, 0] > 1, "y", "n")):
        with pytest.raises(eh.errors.ModelError, match="kosei"):
            eh.audit(eh.wrap(answer, input="array"), space, "adf")


@pytest.mark.parametrize(
    "setting",
    [
        {"clusters": 0},
        {"seeds": 0},
        {"max_iter": 0},
        {"trials": 1.5},
        {"refresh": 0},
        {"step": 0.5},
        {"step": 0},
        {"step": 1e10},
        {"stray": 1.5},
        {"stray": "no"},
        {"phase": "none"},
        {"gradient": "none"},
    ],
)
def test_wrong_settings_are_named(setting: dict[str, Any]) -> None:
    with pytest.raises(eh.errors.StrategyError) as caught:
        eh.Adf(**setting)
    assert caught.value.parameter == next(iter(setting))
