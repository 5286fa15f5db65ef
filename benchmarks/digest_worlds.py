"""Small spaces, models and data for ``benchmarks.digests``.

Models calculate with whole numbers and binary fractions alone, so that every processor gives the same answers.
"""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import evenhand as eh

WORK, DEGREE = ["clerk", "nurse", "cook"], ["none", "school", "college"]
TEAMS = ["reds", "blues", "greens"]
WORDS = [a + b for a, b in itertools.product("bdfklmnprt", "aeiou")]
VECTORS = np.array([[(7 * i * j + j * j) % 23 - 11 for j in range(1, 5)] for i in range(1, len(WORDS) + 1)], float)

PLAIN = eh.Space([*(eh.Integer(f"a{j}", 0, 9) for j in range(6)), eh.Boolean("sex")], protected="sex")
"""One protected attribute, a million tests."""
SMALL = eh.Space([eh.Integer("a", 0, 19), eh.Integer("b", 0, 19), eh.Nominal("sex", ["F", "M"])], protected="sex")
"""Few enough to ask everyone."""
PEOPLE = eh.Space(
    [
        eh.Integer("age", 18, 67),
        eh.Integer("pay", 0, 39),
        eh.Nominal("work", WORK),
        eh.Ordinal("degree", DEGREE),
        eh.Real("ratio", 0, 1, step=0.0625),
        eh.Boolean("member"),
        eh.Integer("children", 0, 5, missing=True),
        eh.Nominal("sex", ["F", "M"]),
        eh.Nominal("race", ["x", "y", "z"]),
    ],
    protected=["sex", "race"],
    constraints=["age >= 25 or degree != 'college'", "pay <= 30 or age >= 30"],
)
"""Every kind of attribute, missing values, constraints, two protected attributes."""
LINKED = eh.Space(
    [
        eh.Integer("age", 18, 67),
        eh.Integer("hours", 0, 60, step=5),
        eh.Nominal("relation", ["husband", "wife", "single"]),
        eh.Nominal("sex", ["F", "M"]),
    ],
    protected="sex",
    links={"sex": {"relation": {"F": {"husband": "wife"}, "M": {"wife": "husband"}}}},
    constraints=["relation != 'husband' or sex == 'M'", "relation != 'wife' or sex == 'F'"],
)
"""An attribute that follows a protected one."""
SAMPLED = eh.Space(
    [
        *(eh.Integer(name, 0, 19) for name in "abc"),
        eh.Nominal("origin", [f"o{i}" for i in range(8)]),
        eh.Integer("years", 0, 4),
    ],
    protected=["origin", "years"],
    max_family_size=6,
)
"""More counterparts than are asked about."""
HUGE = eh.Space([*(eh.Integer(f"a{j}", 0, 9) for j in range(24)), eh.Boolean("sex")], protected="sex")
"""More individuals than 64 bits can number."""
TEXTS = eh.TextSpace.paper({"team": TEAMS}, (WORDS, VECTORS), k=5)
TOGETHER = eh.TextSpace.paper({"team": TEAMS}, (WORDS, VECTORS), k=5, occurrences="together", agree=True)

Labels = npt.NDArray[Any]


def _halves(score: Any) -> npt.NDArray[np.float64]:
    score = np.asarray(score, dtype=np.float64)
    return np.stack([1 - score, score], axis=1)


def plain(X: Any) -> Labels:
    """Decide about rows of ``PLAIN``: women need a little more, in a part of the space."""
    raw = X[:, :6] @ np.array([3, 5, 7, 2, 4, 6])
    return (raw % 40 + 6 * X[:, 6] * (X[:, 0] > 3)) >= 24


def plain_later(X: Any) -> Labels:
    """Decide as a later version of ``plain`` that has fixed a part, and brought something new."""
    raw = X[:, :6] @ np.array([3, 5, 7, 2, 4, 6])
    return (raw % 40 + 6 * X[:, 6] * (X[:, 0] > 6) + 3 * X[:, 6] * (X[:, 1] == 2)) >= 24


def plain_scores(X: Any) -> npt.NDArray[np.float64]:
    """Score rows of ``PLAIN``, without jumps, so that there is a way to follow."""
    raw = X[:, 0] * X[:, 1] + 2 * X[:, 2] * X[:, 3] + X[:, 4] * (9 - X[:, 5]) + 20 * X[:, 6] * (X[:, 0] > 4)
    return _halves(raw / 512)


def small(frame: pd.DataFrame) -> Labels:
    """Decide about individuals of ``SMALL``."""
    bonus = 3 * (frame["sex"] == "M") * (frame["a"] < 8)
    return np.where(frame["a"] + frame["b"] + bonus > 14, "yes", "no")


def hopeful(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Score people of ``PEOPLE``."""
    work = frame["work"].map({name: i for i, name in enumerate(WORK)}).astype(int)
    degree = frame["degree"].map({name: i for i, name in enumerate(DEGREE)}).astype(int)
    children = pd.to_numeric(frame["children"]).fillna(-2).astype(int)
    ratio = (frame["ratio"].astype(float) * 16).round().astype(int)
    raw = frame["age"] + 2 * frame["pay"] + 5 * work + 6 * degree + ratio + 3 * frame["member"].astype(int) + children
    against = 12 * ((frame["sex"] == "F") & (frame["pay"] > 15)) + 8 * ((frame["race"] == "z") & (frame["age"] < 35))
    return _halves(np.clip((raw - against).astype(int), 0, 256) / 256)


def decided(frame: pd.DataFrame) -> Labels:
    """Decide about people of ``PEOPLE``."""
    return np.where(hopeful(frame)[:, 1] > 0.375, "granted", "refused")


def linked(frame: pd.DataFrame) -> Labels:
    """Decide about people of ``LINKED``: wives who work little are refused."""
    return ~((frame["relation"] == "wife") & (frame["hours"] < 25)) & (frame["age"] + frame["hours"] > 40)


def sampled(frame: pd.DataFrame) -> Labels:
    """Decide about people of ``SAMPLED``."""
    origin = frame["origin"].str[1:].astype(int)
    return frame["a"] + frame["b"] * 2 + frame["c"] + origin * (frame["years"] > 2) > 44


def huge(X: Any) -> Labels:
    """Decide about rows of ``HUGE``, as numbers."""
    return X[:, :24] @ (np.arange(24) % 5 + 1) % 60 + 6 * X[:, 24] > 40


class NoisyModel:
    """Decides as ``small``, but now and then otherwise, by a stream of numbers of its own."""

    def __init__(self, share: float = 0.02) -> None:
        self.share, self.random = share, np.random.default_rng(5)

    def __call__(self, frame: pd.DataFrame) -> Labels:
        """Decide, wrongly in a small share of the rows."""
        wrong = self.random.random(len(frame)) < self.share
        return np.where(wrong, "no", small(frame))


def rows(count: int = 200) -> pd.DataFrame:
    """Make data rows of ``PEOPLE``; some are out of bounds, break a constraint or have an unknown value."""
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": random.integers(16, 72, count),
            "pay": random.integers(0, 40, count),
            "work": random.choice(WORK, count),
            "degree": random.choice(DEGREE, count),
            "ratio": random.integers(0, 17, count) / 16,
            "member": random.random(count) < 0.5,
            "children": np.where(random.random(count) < 0.2, np.nan, random.integers(0, 6, count)),
            "sex": random.choice(["F", "M"], count),
            "race": random.choice(["x", "y", "z"], count, p=[0.6, 0.25, 0.15]),
        }
    )
    frame.loc[3, "work"] = "pilot"
    return frame


def weights(count: int = 200) -> npt.NDArray[np.float64]:
    """Make a weight for each row."""
    return np.arange(count) % 4 + 1.0


def plain_rows(count: int = 120) -> pd.DataFrame:
    """Make data rows of ``PLAIN``."""
    numbers = np.random.default_rng(4).integers(0, 10, (count, 7))
    frame = pd.DataFrame(numbers, columns=[*(f"a{j}" for j in range(6)), "sex"])
    return frame.assign(sex=frame["sex"] > 4)


def small_rows(count: int, seed: int) -> tuple[pd.DataFrame, npt.NDArray[np.int64]]:
    """Make rows of ``SMALL`` with numbers as labels, for training."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({name: random.integers(0, 20, count) for name in "ab"})
    frame["sex"] = random.choice(["F", "M"], count)
    y = frame["a"] + frame["b"] + 6 * (frame["sex"] == "M") + random.integers(-2, 3, count) > 21
    return frame, y.to_numpy().astype(np.int64)


def sentences(count: int = 60, seed: int = 1) -> list[str]:
    """Make sentences with a team in each, and two in some."""
    random = np.random.default_rng(seed)
    out = []
    for number in range(count):
        chosen = random.choice(WORDS, 7).tolist()
        for at in random.choice(7, 1 + (number % 5 == 0), replace=False):
            chosen[at] = str(random.choice(TEAMS))
        out.append(f"{' '.join(chosen[:3]).capitalize()}, {' '.join(chosen[3:])}!")
    return out


def checksum(text: str, salt: int = 0) -> int:
    """Give a number of a text, the same on every machine."""
    return zlib.crc32(text.encode(), salt)


class Reader(eh.Model):
    """Scores texts by checksums, with made-up gradients of words."""

    name, input, has_scores, decides, classes = "reader", "text", True, True, np.array(["bad", "good"])
    has_words, gradient_source = True, "made up"

    def __init__(self, share: int = 30, salt: int = 0) -> None:
        self.share, self.salt = share, salt

    def scores(self, X: Any) -> Any:
        """Score texts: the checksum of a text says how good it is."""
        numbers = np.array([checksum(text, self.salt) % 1024 for text in X]) / 1024
        return _halves(np.clip(numbers + 0.5 - self.share / 128, 0, 1))

    def labels(self, X: Any) -> Any:
        """Decide about texts."""
        return self.decide(self.scores(X))

    def word_vectors(self, words: Any) -> Any:
        """Give vectors."""
        known = dict(zip(WORDS, VECTORS, strict=True))
        return np.array([known.get(word.lower(), np.zeros(4)) for word in words])

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Give gradients."""
        known = np.array([checksum(word) % 97 for word in texts.vocabulary.words])
        whole = np.bincount(texts.rows, weights=known[texts.words], minlength=len(texts)).astype(int)
        own = known[texts.words] * 3 + whole[texts.rows] + classes[texts.rows]
        return (own[:, None] * np.arange(1, 5) % 17 - 8) / 8


def torch_rows() -> Any:
    """Make a net on rows of ``PLAIN`` with fixed weights; None where torch is not installed."""
    try:
        import torch
        from torch import nn
    except ImportError:
        return None
    net = nn.Sequential(nn.Linear(7, 8), nn.Tanh(), nn.Linear(8, 2), nn.Softmax(1)).double()
    with torch.no_grad():
        for weight in net.parameters():
            numbers = (torch.arange(weight.numel()) * 37 % 41 - 20).double() / 64
            weight.copy_(numbers.reshape(weight.shape) / 4)
        net[0].weight[:, 6] = (torch.arange(8) % 3 - 1).double()
        net[0].bias -= 4.5 * net[0].weight[:, :6].sum(1)
    return eh.wrap(net.eval(), input="array", name="net")


def torch_texts(logits: bool = False) -> Any:
    """Make a net on texts with fixed weights; None where torch is not installed."""
    try:
        import torch
        from torch import nn
    except ImportError:
        return None
    numbers = {word: number for number, word in enumerate([*WORDS, *TEAMS], 2)}

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(len(numbers) + 2, 4, padding_idx=0)
            self.out, self.softmax = nn.Linear(4, 2), nn.Identity() if logits else nn.Softmax(1)

        def forward(self, ids: Any) -> Any:
            real = (ids != 0)[:, :, None]
            mean = (self.embedding(ids) * real).sum(1) / real.sum(1).clamp(min=1)
            return self.softmax(self.out(mean))

    def encode(texts: list[str]) -> Any:
        split = [[numbers.get(word.strip(",!").lower(), 1) for word in text.split()] or [1] for text in texts]
        longest = max(map(len, split))
        return np.array([one + [0] * (longest - len(one)) for one in split])

    net = Net().double()
    with torch.no_grad():
        for weight in net.parameters():
            fixed = (torch.arange(weight.numel()) * 29 % 43 - 21).double() / 32
            weight.copy_(fixed.reshape(weight.shape))
        net.embedding.weight[0] = 0
        net.embedding.weight[-len(TEAMS) :] *= 6
    return eh.wrap(net.eval(), encode=encode, embedding="embedding", words=numbers, name="text net")
