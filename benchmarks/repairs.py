"""Repairs: retraining and augmentation as in the papers, and what works better, each beside its control.

Five questions: AEQUITAS's table 5, with six classifiers; ADF's table 10, on its authors' networks; networks trained
here, with consistency and counterfactual rows; texts, with counterfactual texts; averaging over protected values.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import evenhand as eh
from benchmarks import authors
from benchmarks.machine import cpu, short
from benchmarks.subjects import MODELS, SVM_ROWS, load
from benchmarks.tasks import Task
from benchmarks.text_subjects import lexicon as lexicon_file

CLASSIFIERS = ("fair SVM", "SVM", "MLP", "forest", "tree", "ensemble")
MEMBERS = ("individual", "all")
"""What is added of a finding: the individual, or its whole family."""
SOURCES = ("adf", "aequitas", "symbolic")
OWN = ("census/sex", "bank/age")
TEXTS = ("tf-idf", "gru", "lstm")
LEXICON = "orientation"
AVERAGED = ("logistic regression", "boosting")
COSTS = {"fair SVM": 15, "SVM": 60, "MLP": 60, "forest": 25, "tree": 12, "ensemble": 50}
QUESTIONS = ("aequitas", "authors", "own", "texts", "marginal")
SEEDS, REPEATS, FEWER, OWN_SEEDS = 10, 5, 1, 5
TEXT_SEEDS = 3
FULL: dict[str, Any] = {
    "samples": 100_000,
    "tests": 200_000,
    "svm_samples": 20_000,
    "svm_tests": 40_000,
    "svm_rows": SVM_ROWS,
    "net_tests": 10_000_000,
    "symbolic_tests": 5_000,
    "text_tests": 2_000,
    "text_words": 30_000,
    "text_weight": 30.0,
    "texts": None,
    "uniform": 1_000_000,
    "share": 0.05,
    "held_out": 0.3,
    "epochs": None,
    "steps": 640,
    "trials": 1_000,
    "patience": 3,
}
USES = {"texts": ("text_tests", "text_words", "text_weight", "texts"), "own": ("steps",), "authors": ("steps",)}
"""Settings of one question, or of some, only."""
QUICK: dict[str, Any] = FULL | {
    "samples": 500,
    "tests": 1_000,
    "svm_samples": 100,
    "svm_tests": 200,
    "svm_rows": 300,
    "symbolic_tests": 30,
    "text_tests": 100,
    "texts": 600,
    "uniform": 2_000,
    "epochs": 1,
    "steps": 5,
    "trials": 10,
    "patience": 1,
}
LONGER = ("census/sex", "credit/sex")
"""Fine-tuned for twice as many steps."""


def tasks(settings: dict[str, Any], quick: bool) -> Iterator[Task]:
    """List everything that is measured: each seed of each row."""

    def task(question: str, key: str, call: Callable[[], Any], cost: float) -> Task:
        return Task("repairs", question, key, call, cost)

    for seed in range(1 if quick else SEEDS):
        for name in ("tree",) if quick else CLASSIFIERS:
            call = partial(aequitas, name, seed, settings)
            yield task("aequitas", f"{name}/{seed}", call, COSTS[name])
    # Without the folders these are left out.
    if authors.there():
        for repeat in range(1 if quick else REPEATS):
            for pair in authors.PAIRS[-1:] if quick else authors.PAIRS:
                # The other searches' findings are compared in fewer repeats.
                for source in SOURCES[:1] if quick or repeat >= FEWER else SOURCES:
                    call = partial(augment, pair, source, repeat, settings)
                    yield task("authors", f"{pair}/{source}/{repeat}", call, 50)
    for seed in range(1 if quick else OWN_SEEDS):
        for pair in ("credit/sex",) if quick else OWN:
            yield task("own", f"{pair}/{seed}", partial(own, pair, seed, settings), 90)
    for name in (TEXTS[:1] if quick else TEXTS) if os.environ.get("EVENHAND_TEXT_DATA") else ():
        for seed in range(1 if quick else TEXT_SEEDS):
            yield task("texts", f"{name}/{seed}", partial(texts, name, seed, settings), 20 if name == "tf-idf" else 300)
    for name in AVERAGED[:1] if quick else AVERAGED:
        yield task("marginal", f"{name}/0", partial(marginal, name, settings), 30)


def aequitas(name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Retrain one of AEQUITAS's classifiers with the findings of its fully directed search."""
    space, (X, y) = load("census")
    samples, tests = settings["samples"], settings["tests"]
    if name == "SVM":
        # Its cost is the square of the rows, and each answer costs as many products as it has support vectors.
        chosen = np.random.default_rng(0).permutation(len(y))[: settings["svm_rows"]]
        X, y, samples, tests = X[chosen], y[chosen], settings["svm_samples"], settings["svm_tests"]
    estimator = fair_svm(space.protected_columns[0]) if name == "fair SVM" else MODELS[name]()
    ways = {
        members: eh.repairs.Retrain(samples=samples, patience=settings["patience"], members=members)  # type: ignore[arg-type]
        for members in MEMBERS
    }
    done = eh.repair(
        estimator,
        X,
        y,
        space,
        list(ways.values()),
        seed=seed,
        options=_options(settings["held_out"], samples),
        strategy=eh.Aequitas("full", samples=1000, rounds=1, stray=eh.Aequitas.PROGRAM),
        budget=eh.Budget(tests=tests),
    )
    return compared(done, ways)


def _options(held_out: Any, samples: int) -> eh.repairs.RepairOptions:
    """Ask for the rates: the check by another search and other attributes are not what the papers report."""
    return eh.repairs.RepairOptions(held_out=held_out, samples=samples, watch=(), check=eh.Themis(samples=1000))


def fair_svm(sex: int) -> Callable[[Any, Any], Any]:
    """Make a training function of the SVM that stands in for the paper's fair one."""

    def train(X: Any, y: Any) -> Any:
        from benchmarks.estimates import fair_svm as fit

        return fit((X, y), sex)

    return train


def augment(pair: str, source: str, repeat: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Fine-tune one of the authors' networks with five per cent of the findings of a search, as ADF's table 10 does."""
    import torch

    torch.set_num_threads(1)
    data = pair.split("/")[0]
    net, (X, y), space = authors.net(data), authors.table(data), authors.space(pair)
    start = eh.repairs.FineTuning(steps=settings["steps"] * (2 if pair in LONGER else 1))
    ways = {
        members: eh.repairs.Augment(settings["share"], start=start, members=members)  # type: ignore[arg-type]
        for members in MEMBERS
    }
    seeds = min(settings["trials"], 600 if data == "credit" else 1000)
    done = eh.repair(
        lambda *_: copy.deepcopy(net),
        X,
        y,
        space,
        list(ways.values()),
        seed=repeat,
        strategy=_search(source, seeds, settings["trials"]),
        budget=eh.Budget(tests=settings["symbolic_tests" if source == "symbolic" else "net_tests"]),
        # As in the paper, no row is held out: accuracy is that on the training rows.
        options=_options((X, y), settings["samples"]),
    )
    return compared(done, ways)


def _search(source: str, seeds: int, trials: int) -> Any:
    """Make a search as its paper sets it, with the walks of the published programs."""
    if source == "symbolic":
        return eh.Symbolic()
    if source == "aequitas":
        return eh.Aequitas("full", samples=seeds, steps=trials, rounds=1, stray=eh.Aequitas.PROGRAM)
    return eh.Adf(seeds=seeds, trials=trials, refresh=1, rounds=1, stray=eh.Adf.PROGRAM)


def own(pair: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Repair a six-layer network trained here, in the ways that continue from it, and from scratch."""
    data, protected = pair.split("/")
    _, (X, y) = load(data)
    space = authors.space(f"{data}/{protected}")
    start = eh.repairs.FineTuning(steps=settings["steps"])
    augment, share = eh.repairs.Augment, settings["share"]
    ways: dict[str, Any] = {
        "5% of the findings": augment(share, start=start),
        "counterfactual rows and members": augment(share, start=start, members="all", labels="mean", counterparts=True),
        "consistency": eh.repairs.Consistency(start=eh.repairs.FineTuning(steps=3 * settings["steps"])),
        "5% of the findings, from scratch": augment(share, start="scratch"),
    }
    done = eh.repair(
        net_trainer(data, seed, settings["epochs"]),
        X,
        y,
        space,
        list(ways.values()),
        seed=seed,
        budget=eh.Budget(tests=min(settings["tests"], settings["net_tests"])),
        options=_options(settings["held_out"], settings["samples"]),
    )
    return compared(done, ways)


def net_trainer(data: str, seed: int, epochs: int | None) -> Callable[[Any, Any], Any]:
    """Make a training function. Another training has another seed, as where a user trains again."""
    import torch

    from benchmarks import nets

    torch.set_num_threads(1)
    how = nets.TRAININGS[data]
    if epochs is not None:
        how = nets.Training(how.rate, how.batch, epochs)
    number = iter(range(1000 * seed, 1000 * seed + 1000))

    def train(X: Any, y: Any) -> Any:
        table = torch.tensor(np.asarray(X, dtype=np.float32)), torch.tensor(np.asarray(y, dtype=np.int64))
        usual = max(float(table[1].double().mean()), 1 - float(table[1].double().mean()))
        for attempt in number:
            net = nets.train(table, how, attempt)
            # Narrow nets may die, and then decide alike for everybody.
            if epochs is not None or nets.accuracy(net, table) > usual + ALIVE:
                break
        return net

    return train


ALIVE = 0.02
"""A network that is not so much better than always saying the same is trained anew."""


def texts(name: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Repair a classifier of comments, by sexual orientation.

    Findings are added to the quick one only: what they do to the networks is in the paper's own tables. Both ways of
    repairing a network train it further in the same way; counterfactual texts, which take longer, with one seed.
    """
    from benchmarks import text_nets
    from evenhand.repairs.consistency import TEXTS as HOW

    space = eh.TextSpace.paper(lexicon_file(LEXICON), text_nets.vectors() if name != "tf-idf" else None)
    train, held = (part[: settings["texts"]] for part in text_nets.corpus())
    how = replace(HOW, steps=min(HOW.steps, settings["steps"]))
    ways: dict[str, Any] = {"augment": "augment", "counterfactual": "counterfactual"}
    if name != "tf-idf":
        ways = {"consistency": eh.repairs.Consistency(weight=settings["text_weight"], start=how)}
        ways |= {} if seed else {"counterfactual": eh.repairs.Counterfactual(start=how)}
    done = eh.repair(
        _text_trainer(name, seed, settings),
        train.texts,
        train.labels,
        space,
        list(ways.values()),
        seed=seed,
        strategy="text-random",
        budget=eh.Budget(tests=settings["text_tests"]),
        options=eh.repairs.RepairOptions(held_out=(held.texts, held.labels)),
    )
    return compared(done, ways)


def _text_trainer(name: str, seed: int, settings: dict[str, Any]) -> Any:
    if name == "tf-idf":
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        vectors = TfidfVectorizer(min_df=3, max_features=settings["text_words"], sublinear_tf=True)
        return make_pipeline(vectors, LogisticRegression(C=3, max_iter=1000, random_state=seed))
    from benchmarks.texts import trainer

    return trainer(name, seed, settings["epochs"])


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
        said, seconds = cpu(partial(asked.predict, rows))
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


def compared(done: eh.Repair, ways: Iterable[str]) -> dict[str, Any]:
    """Keep what several repairs of one model did, under the names of these ways."""
    assert done.comparison is not None
    # In the order in which they were given; one that failed has no figures.
    made = iter(done.comparison.done.values())
    assert not done.comparison.failed, done.comparison.failed
    return {"ways": {name: facts(one) for name, one in zip(ways, made, strict=True)}}


def facts(done: eh.Repair) -> dict[str, Any]:
    """Keep what the pages show of one repair: of the model that was made, even if evenhand refuses to return it."""
    after = done.rejected or done.after
    made = done.changed or done.rejected is not None
    rows = done.rows_added or max((one.added for one in done.rounds if one.kept), default=0)
    shown = {"before": done.before, "after": after, "control": done.control}
    return {
        **{when: figures(evidence) for when, evidence in shown.items() if evidence is not None},
        "added": short(rows / done.settings["training_rows"]),
        "rows_added": rows,
        "made": made,
        "changed": done.changed,
    }


def figures(evidence: Any) -> dict[str, Any]:
    """Keep the figures of one model."""
    out = {"accuracy": short(evidence.accuracy.value)}
    for name, found in (("uniform", evidence.uniform), ("data", evidence.data)):
        if found is not None:
            out[name] = short(found.rate)
    if evidence.texts and evidence.data is not None:
        out |= {"data_found": evidence.data.found, "data_samples": evidence.data.samples}
    return out | ({} if evidence.kept is None else {"kept": short(evidence.kept)})


def quiet() -> None:
    """The papers' networks are trained for so many rounds, whether they have come to rest or not."""
    warnings.simplefilter("ignore", ConvergenceWarning)
