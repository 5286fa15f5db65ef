"""Repairs: AEQUITAS's retraining and ADF's augmentation as in their papers, and averaging over protected values.

Rows are independent of each other and of seeds, so that many can be measured at the same time: ``--rows`` and
``--seeds`` choose, ``--out`` writes a part, and ``--merge`` puts parts together.
"""

from __future__ import annotations

import copy
import hashlib
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import evenhand as eh
from benchmarks.machine import Results, cpu, parser, save, short
from benchmarks.subjects import DATA, MODELS, SVM_ROWS, load

CLASSIFIERS = ("fair SVM", "SVM", "MLP", "forest", "tree", "ensemble")
PAIRS = ("census/age", "census/race", "census/sex", "bank/age", "credit/age", "credit/sex")
VOTED, VOTERS = ("census/sex", "bank/age", "credit/sex"), 5
SOURCES = ("aequitas", "symbolic", "adf")
AVERAGED = ("logistic regression", "boosting")
ROWS = (
    *(f"retrain/{name}" for name in CLASSIFIERS),
    *(f"augment/{pair}" for pair in PAIRS),
    *(f"votes/{pair}" for pair in VOTED),
    *(f"marginal/{name}" for name in AVERAGED),
)
QUESTIONS = ("retrain", "augment", "votes", "marginal")
SEEDS = 10
SETTINGS: dict[str, Any] = {
    "samples": 100_000,
    "tests": 1_000_000,
    "svm_samples": 20_000,
    "svm_tests": 100_000,
    "net_tests": 200_000,
    "symbolic_tests": 5_000,
    "uniform": 1_000_000,
    "share": 0.05,
    "held_out": 0.3,
    "epochs": None,
}
SMALL: dict[str, Any] = SETTINGS | {
    "samples": 2_000,
    "tests": 3_000,
    "svm_samples": 500,
    "svm_tests": 1_000,
    "net_tests": 3_000,
    "symbolic_tests": 100,
    "uniform": 5_000,
    "epochs": 3,
}
ALIVE = 0.02
"""A net that is not so much better than always saying the same is dead, as narrow nets may be, and is trained anew."""
TRIES = 5


def retrain(name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Retrain one of AEQUITAS's classifiers with the findings of its fully directed search."""
    space, (X, y) = load("census")
    samples, tests = settings["samples"], settings["tests"]
    if name == "SVM":
        # Its cost is the square of the rows, and each answer costs as many products as it has support vectors.
        chosen = np.random.default_rng(0).permutation(len(y))[:SVM_ROWS]
        X, y, samples, tests = X[chosen], y[chosen], settings["svm_samples"], settings["svm_tests"]
    training = round(len(y) * (1 - settings["held_out"]))

    def made() -> eh.Repair:
        return eh.repair(
            fair_svm(space.protected_columns[0]) if name == "fair SVM" else MODELS[name](),
            X,
            y,
            space,
            eh.repairs.Retrain(samples=samples),
            seed=seed,
            options=eh.repairs.RepairOptions(held_out=settings["held_out"], samples=samples, watch=()),
            strategy=eh.Aequitas("full", samples=1000, rounds=1),
            budget=eh.Budget(tests=tests, findings=training),
        )

    found, seconds = measured(made)
    return found | {"cpu_seconds": short(seconds)}


def fair_svm(sex: int) -> Callable[[Any, Any], Any]:
    """Make a training function of the SVM that stands in for the paper's fair one."""

    def train(X: Any, y: Any) -> Any:
        from benchmarks.estimates import fair_svm as fit

        return fit((X, y), sex)

    return train


def augment(pair: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Augment a six-layer net's training rows with five per cent of the findings of each search."""
    augmented = augmenter(pair, seed, settings)
    return {source: augmented(source) for source in SOURCES}


def votes(pair: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Label ADF's findings by other voters: classifiers of other kinds, as everywhere here, or nets of the same kind.

    The paper names separately trained models. Either vote on the individual, or on its counterparts with it.
    """
    augmented, data = augmenter(pair, seed, settings), pair.split("/")[0]
    # Seeds that no net of the tables has.
    nets = tuple(net_trainer(data, 1000 + 10 * seed + at, settings["epochs"]) for at in range(VOTERS))
    out = {}
    for name, voters in {"kinds": (), "nets": nets}.items():
        for whose in ("individual", "family"):
            found = augmented("adf", voters=voters, vote=whose)
            out[f"{name}, {whose}"] = {key: found[key] for key in ("before", "after", "data_before", "data_after")}
    return out


def augmenter(pair: str, seed: int, settings: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """Make a function that augments the rows of a six-layer net with the findings of a search."""
    from benchmarks import nets

    data, protected = pair.split("/")
    space = eh.datasets.load(DATA[data][0]).paper_space(protected=[protected])
    X, y = (np.concatenate([part.numpy() for part in parts]) for parts in zip(*nets.tables(data), strict=True))
    train = net_trainer(data, seed, settings["epochs"])
    starts = 600 if data == "credit" else 1000
    searches: dict[str, tuple[Any, int]] = {
        "aequitas": (eh.Aequitas("full", samples=1000, rounds=1), settings["net_tests"]),
        "symbolic": (eh.Symbolic(), settings["symbolic_tests"]),
        "adf": (eh.Adf(seeds=starts, trials=1000, rounds=1), settings["net_tests"]),
    }

    def augmented(source: str, **labels: Any) -> dict[str, Any]:
        strategy, tests = searches[source]
        method = eh.repairs.Augment(settings["share"], repeats=1, samples=min(20_000, settings["samples"]), **labels)

        def made() -> eh.Repair:
            return eh.repair(
                train,
                X.astype(np.float64),
                y,
                space,
                method,
                seed=seed,
                strategy=strategy,
                budget=eh.Budget(tests=tests),
                options=eh.repairs.RepairOptions(held_out=settings["held_out"], samples=settings["samples"], watch=()),
            )

        return measured(made)[0]

    return augmented


def net_trainer(data: str, seed: int, epochs: int | None) -> Callable[[Any, Any], Any]:
    """Make a training function; the same rows give the same net, trained once and kept."""
    import torch

    from benchmarks import nets

    how = nets.TRAININGS[data]
    if epochs is not None:
        how = nets.Training(how.rate, how.batch, epochs)
    kept: dict[str, Any] = {}

    def train(X: Any, y: Any) -> Any:
        key = hashlib.sha256(np.ascontiguousarray(X).tobytes() + np.ascontiguousarray(y).tobytes()).hexdigest()
        if key not in kept:
            table = torch.tensor(np.asarray(X, dtype=np.float32)), torch.tensor(np.asarray(y, dtype=np.int64))
            common = max(float(table[1].double().mean()), 1 - float(table[1].double().mean()))
            best, score = None, -1.0
            for attempt in range(TRIES):
                net = nets.train(table, how, seed * TRIES + attempt)
                right = nets.accuracy(net, table)
                if right > score:
                    best, score = net, right
                if score > common + ALIVE or epochs is not None:
                    break
            kept[key] = best
        return copy.deepcopy(kept[key])

    return train


def measured(made: Callable[[], eh.Repair]) -> tuple[dict[str, Any], float]:
    """Repair, and keep what the page shows; and in how many CPU seconds."""
    with warnings.catch_warnings():
        # The papers' networks are trained for so many rounds, whether they have come to rest or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        done, seconds = cpu(made)
    # As in the papers: of the model that was made, whether it is one that a user would be handed or not.
    after = done.rejected or done.after
    assert done.before.uniform is not None
    assert after.uniform is not None
    rows = max((one.added for one in done.rounds if one.kept), default=0)
    found = {
        "before": short(done.before.uniform.rate),
        "after": short(after.uniform.rate),
        "data_before": None if done.before.data is None else short(done.before.data.rate),
        "data_after": None if after.data is None else short(after.data.rate),
        "accuracy_before": short(done.before.accuracy.value),
        "accuracy_after": short(after.accuracy.value),
        "added": short(rows / done.settings["training_rows"]),
        "rows_added": rows,
        "made": done.changed or done.rejected is not None,
        "changed": done.changed,
    }
    return found, seconds


def marginal(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Average a model of Adult's own values over sex; judge it on the rows of Adult's own test split."""
    from benchmarks.estimates import pipelines

    dataset = eh.datasets.load("adult")
    X, y = dataset.train[list(dataset.features)], dataset.train[dataset.target]
    rows, right = dataset.test[list(dataset.features)], dataset.test[dataset.target]
    model = pipelines(list(X.select_dtypes(exclude="number").columns))[name].fit(X, y)
    space = dataset.space()
    out: dict[str, Any] = {}
    for key, asked in (("before", model), ("after", eh.MarginalModel(model, space))):
        said, seconds = cpu(lambda asked=asked: asked.predict(rows))  # type: ignore[misc]
        found = eh.estimate(asked, space, samples=settings["uniform"])
        people = eh.estimate(asked, space, "data", data=rows)
        out[key] = {
            "accuracy": short(float(np.mean(said == right))),
            "found": found.found,
            "samples": found.samples,
            "high": short(found.high),
            "data_found": people.found,
            "data_samples": people.samples,
            "cpu_seconds_to_predict": short(seconds),
        }
    return out


ANSWERS = {"retrain": retrain, "augment": augment, "votes": votes}


def merge(parts: list[Path], out: Path) -> None:
    """Put parts together, each seed of each row once."""
    loaded = [json.loads(path.read_text()) for path in parts]
    whole = loaded[0]
    for part in loaded[1:]:
        if part["settings"] != whole["settings"]:
            raise SystemExit("the parts have different settings")
        for question in QUESTIONS:
            whole[question] = whole.get(question, {}) | part.get(question, {})
    order = {f"{row}/{seed}": place for place, (row, seed) in enumerate((r, s) for r in ROWS for s in range(1000))}
    for question in QUESTIONS:
        whole[question] = dict(sorted(whole[question].items(), key=lambda item: order[f"{question}/{item[0]}"]))
    save(out, whole)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "repairs.json")
    options.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    options.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)), metavar="SEED")
    options.add_argument("--small", action="store_true", help="a try: few epochs, tests and samples")
    options.add_argument("--fresh", action="store_true", help="forget the results that are there")
    options.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="put these parts together into --out")
    given = options.parse_args(arguments)
    if given.merge:
        merge(given.merge, given.out)
        return
    settings = SMALL if given.small else SETTINGS
    results = Results(given.out, given.fresh, settings, QUESTIONS)
    for row in given.rows:
        question, _, name = row.partition("/")
        for seed in [0] if question == "marginal" else given.seeds:
            key = f"{name}/{seed}"
            if results.lacks(question, key):
                if question == "marginal":
                    results.add(question, key, marginal(name, settings))
                else:
                    results.add(question, key, ANSWERS[question](name, seed, settings))


if __name__ == "__main__":
    main()
