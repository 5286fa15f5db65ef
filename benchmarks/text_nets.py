"""The paper's nets on words, trained here.

The folder that EVENHAND_TEXT_DATA names has a table with the columns ``text`` and ``toxic`` (.csv, also .xz) and word
vectors (.npz). As in the paper, nets have three layers of ten states, LSTM or GRU, and a dense layer on the last state;
the vectors are given and stay as they are, an unknown word has their mean. They differ from the paper's: the vectors
have the width of the file (the paper's have 50), and one table stands for its two.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import evenhand as eh
from benchmarks.machine import short
from benchmarks.nets import CACHE
from evenhand.demo.text import Encoder, TextNet, Training, decide, given, repeatable, train
from evenhand.spaces.text.similar import load as load_vectors

LAYERS, STATES = 3, 10
LONGEST = 200
"""Words of a comment that a net reads; 95 % of the comments are shorter."""
TRAINING = Training(rate=0.01, batch=128, epochs=15)
PAPER = {"lstm": {"wiki": 0.899, "jigsaw": 0.858}, "gru": {"wiki": 0.907, "jigsaw": 0.868}}
"""Accuracies of its table 3."""


def folder() -> Path:
    """Return the folder of the data."""
    named = os.environ.get("EVENHAND_TEXT_DATA", "")
    if not named or not Path(named).is_dir():
        raise SystemExit("set EVENHAND_TEXT_DATA to a folder with a table of comments and word vectors")
    return Path(named)


@lru_cache(maxsize=1)
def corpus() -> tuple[eh.datasets.Corpus, eh.datasets.Corpus]:
    """Return the comments to train on, and the others."""
    path = next(iter(sorted(folder().glob("*comments*.csv*"))), folder() / "comments.csv")
    return eh.datasets.read_comments(path).split()


@lru_cache(maxsize=1)
def vectors() -> tuple[list[str], Any]:
    """Return the words and their vectors."""
    return load_vectors(next(iter(sorted(folder().glob("*.npz"))), folder() / "vectors.npz"))


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    """Return what encodes texts for every net here."""
    return Encoder(vectors()[0], LONGEST)


def _file(kind: str, seed: int) -> Path:
    """Name the file of a net after everything that makes it what it is."""
    rows = hashlib.sha256(repr(corpus()[0].texts).encode() + corpus()[0].labels.tobytes() + vectors()[1].tobytes())
    key = json.dumps([asdict(TRAINING), kind, LAYERS, STATES, LONGEST, rows.hexdigest(), torch.__version__, seed])
    return CACHE / f"text-{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.pt"


def net(kind: str, seed: int = 0, device: str = "cpu") -> TextNet:
    """Return a net (``lstm``, ``gru``), trained at the first call only."""
    path = _file(kind, seed)
    with repeatable(seed):
        made = given(vectors()[1], kind, LAYERS, STATES)  # type: ignore[arg-type]
    CACHE.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        # Another process that wants the same net waits until it is trained.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            chosen = corpus()[0]
            train(made, encoder()(chosen.texts), chosen.labels, TRAINING, seed, device)
            weights = {name: value for name, value in made.state_dict().items() if not name.startswith("embedding")}
            temporary = path.with_suffix(".tmp")
            torch.save(weights, temporary)
            temporary.replace(path)
    made.load_state_dict(torch.load(path, weights_only=True, map_location=device), strict=False)
    return made.to(device).eval()


def facts(kind: str, seed: int = 0, device: str = "cpu") -> dict[str, Any]:
    """Say how good a net is."""
    made = net(kind, seed, device)
    said: dict[str, Any] = {}
    for name, part in zip(("train", "test"), corpus(), strict=True):
        right = decide(made, encoder()(part.texts)) == part.labels
        said |= {f"{name}_texts": len(part), f"{name}_accuracy": short(float(right.mean()))}
    toxic = float(corpus()[1].labels.mean())
    return said | {"majority": short(max(toxic, 1 - toxic)), "width": vectors()[1].shape[1], "paper": PAPER[kind]}
