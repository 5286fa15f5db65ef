"""The papers' six-layer networks, trained here on the papers' coding: ``python -m benchmarks.nets`` says how well.

Inputs are the raw integer codes, as in the papers: the plain net trains well on them, so nothing is scaled and nothing
has to be folded into the first layer. It is fitted on the training rows of each data set's own split (the papers tell
of no split; their accuracies are those on rows that were trained on) and judged on both sides of it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import cross_entropy

import evenhand as eh
from benchmarks.machine import RESULTS, cpu, short
from benchmarks.subjects import DATA

LAYERS = (64, 32, 16, 8, 4, 2)
CACHE = Path(tempfile.gettempdir()) / "evenhand-benchmarks"
PAPER = json.loads((RESULTS.parent / "papers.json").read_text())["adf_accuracy_percent"]
"""Accuracies of ADF's table 3."""
MARGIN = 2.0
"""Points that a net's accuracy may be below the paper's; one that decides alike for everybody is further below."""
TRIES = 10

Table = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Training:
    """How a net is trained: Adam, whose rate falls linearly to zero, on the cross-entropy of shuffled minibatches."""

    rate: float
    batch: int
    epochs: int


TRAININGS = {
    "census": Training(rate=0.003, batch=256, epochs=200),
    "credit": Training(rate=0.001, batch=32, epochs=500),
    "bank": Training(rate=0.003, batch=256, epochs=100),
}


def tables(data: str) -> tuple[Table, Table]:
    """Return the codes and labels of the training rows, then those of the others."""
    dataset = eh.datasets.load(DATA[data][0])
    frame = pd.DataFrame({column.name: column.column(dataset.table) for column in dataset.paper})
    chosen = (dataset.table["split"] == "train").to_numpy()
    return _tensors(frame[chosen]), _tensors(frame[~chosen])


def _tensors(frame: pd.DataFrame) -> Table:
    codes, labels = frame.iloc[:, :-1].to_numpy(np.float32), frame.iloc[:, -1].to_numpy(np.int64)
    return torch.tensor(codes), torch.tensor(labels)


def untrained(inputs: int) -> Sequential:
    """Make the net with ReLU between its layers; its last layer gives two logits."""
    layers: list[torch.nn.Module] = []
    for before, after in pairwise((inputs, *LAYERS)):
        layers += [Linear(before, after), ReLU()]
    return Sequential(*layers[:-1])


@contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Make what torch does inside depend on the seed alone, and leave torch as it was."""
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict)


def train(table: Table, how: Training, seed: int) -> Sequential:
    """Train one net."""
    X, y = table
    with _repeatable(seed):
        net = untrained(X.shape[1])
        optimiser = torch.optim.Adam(net.parameters(), how.rate)
        for epoch in range(how.epochs):
            optimiser.param_groups[0]["lr"] = how.rate * (1 - epoch / how.epochs)
            for rows in torch.randperm(len(y)).split(how.batch):
                optimiser.zero_grad()
                cross_entropy(net(X[rows]), y[rows]).backward()
                optimiser.step()
    return net.eval()


def accuracy(net: Sequential, table: Table) -> float:
    """Return the share of rows that a net decides as they are labelled."""
    X, y = table
    with torch.no_grad():
        return float((net(X).argmax(1) == y).double().mean())


def _trained(data: str, number: int) -> tuple[Sequential, int]:
    """Train with one seed after the other; return the net of this number among the good ones, and its seed.

    A narrow ReLU net may die and decide alike for all.
    """
    table, how = tables(data)[0], TRAININGS[data]
    first = 0 if number == 0 else _stored(data, number - 1)[1] + 1
    for seed in range(first, first + TRIES):
        net = train(table, how, seed)
        if 100 * accuracy(net, table) >= PAPER[data] - MARGIN:
            return net, seed
    raise RuntimeError(f"{TRIES} nets for {data}, seeds {first} to {first + TRIES - 1}, are all worse than the paper's")


def _file(data: str, number: int) -> Path:
    """Name the file of a net after everything that makes it what it is."""
    X, y = tables(data)[0]
    rows = hashlib.sha256(X.numpy().tobytes() + y.numpy().tobytes()).hexdigest()
    wanted = [PAPER[data] - MARGIN, TRIES]
    key = json.dumps([asdict(TRAININGS[data]), LAYERS, wanted, rows, torch.__version__, number])
    return CACHE / f"{data}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.pt"


def _stored(data: str, number: int) -> tuple[Sequential, int]:
    """Return a net and the seed that it came of, from disk where it is there."""
    path = _file(data, number)
    if not path.exists():
        net, used = _trained(data, number)
        CACHE.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        torch.save({"weights": net.state_dict(), "seed": used}, temporary)
        temporary.replace(path)
    stored = torch.load(path, weights_only=True)
    net = untrained(stored["weights"]["0.weight"].shape[1])
    net.load_state_dict(stored["weights"])
    return net.eval(), stored["seed"]


def net(data: str, number: int = 0) -> Sequential:
    """Return the net of a data set (``census``, ``credit``, ``bank``), trained at the first call only."""
    return _stored(data, number)[0]


def facts(data: str, number: int = 0) -> dict[str, Any]:
    """Say how good a net is, which seed it came of, and how to tell it from another."""
    made, used = _stored(data, number)
    trained, others = tables(data)
    weights = b"".join(weight.numpy().tobytes() for weight in made.state_dict().values())
    return {
        "seed": used,
        "train_rows": len(trained[1]),
        "train_accuracy": short(accuracy(made, trained)),
        "test_rows": len(others[1]),
        "test_accuracy": short(accuracy(made, others)),
        "majority": short(max(float(trained[1].double().mean()), 1 - float(trained[1].double().mean()))),
        "paper_accuracy": short(PAPER[data] / 100),
        "weights": hashlib.sha256(weights).hexdigest()[:16],
    }


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    options.add_argument("--number", type=int, default=0, help="which of the nets")
    given = options.parse_args(arguments)
    for data in given.data:
        said, seconds = cpu(lambda data=data: facts(data, given.number))  # type: ignore[misc]
        print(data, said, f"{seconds:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
