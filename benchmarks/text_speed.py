"""How much of a net's own speed is left when texts are searched, and how far that is from asking one by one.

An LSTM of three layers of ten states on the generated comments. Efficiency is the CPU time of the bare net on the very
rows that a run asked (forward for scores, forward and backward for gradients; encoded beforehand, sorted by length, at
the fastest of some batch sizes) over the CPU time of the whole run, encoding included. The two are measured in turns;
the median counts. One by one is the bare net on single rows of the same run, a sample of them, encoding not counted.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from benchmarks.text_subjects import lexicon as lexicon_file
from evenhand.demo.text import PAD, Encoder, TextNet, Training, decide, repeatable, train
from evenhand.models.text.module import TextModule

LAYERS, STATES, WIDTH = 3, 10, 50
FINDINGS = 5_000
BATCHES = (256, 1_024, 4_096)
ROUNDS = 3
SAMPLE = 300
SEARCHES: dict[str, Any] = {
    "text-random": eh.TextRandom(),
    "text-adf asc": eh.TextAdf(),
    "text-adf hotflip": eh.TextAdf("hotflip"),
    "text-importance": eh.TextImportance(),
}
WANTED = {"efficiency": 0.5, "gain": 5.0}
Ids = npt.NDArray[np.int64]


class Recorder(TextModule):
    """Keeps the texts that a net is asked."""

    def __init__(self, net: TextNet, encode: Encoder) -> None:
        super().__init__(net, encode)
        self.scored: list[str] = []
        self.sloped: list[str] = []

    def labels(self, X: Any) -> Any:
        """Answer as the net does."""
        return self.decide(self.scores(X))

    def scores(self, X: Any) -> Any:
        """Answer as the net does."""
        self.scored += X
        return super().scores(X)

    def word_gradients(self, texts: Any, classes: Any) -> Any:
        """Answer as the net does."""
        self.sloped += texts.strings()
        return super().word_gradients(texts, classes)


def trained(texts: int | None) -> tuple[TextNet, Encoder, eh.datasets.Corpus]:
    """Train the net; also returned are what encodes for it and the comments to start from."""
    comments = eh.datasets.load("comments")
    part = comments.train[:texts]
    encode = Encoder.of(part.texts)
    with repeatable(0):
        net = TextNet(len(encode), WIDTH, "lstm", LAYERS, STATES)
    train(net, encode(part.texts), part.labels, Training(epochs=8))
    right = decide(net, encode(comments.test.texts)) == comments.test.labels
    print(f"accuracy {right.mean():.3f}", flush=True)
    return net, encode, comments.test


class Bare:
    """The net itself on encoded rows, as fast as it goes."""

    def __init__(self, net: TextNet, encode: Encoder, recorder: Recorder) -> None:
        self.net = net.eval()
        asked = ((recorder.scored, False), (recorder.sloped, True))
        self.parts = [(encode(texts), backward) for texts, backward in asked if texts]

    def seconds(self, batch: int) -> float:
        """Ask all rows; return the CPU seconds."""
        return sum(cpu(partial(self._ask, ids, batch, backward))[1] for ids, backward in self.parts)

    def one_by_one(self) -> float:
        """Ask some rows one by one; return the CPU seconds that all would take."""
        total = 0.0
        for ids, backward in self.parts:
            some = ids[:: max(1, len(ids) // SAMPLE)]
            total += cpu(partial(self._ask, some, 1, backward))[1] / len(some) * len(ids)
        return total

    def _ask(self, ids: Ids, batch: int, backward: bool) -> None:
        lengths = (ids != PAD).sum(axis=1)
        order = np.argsort(-lengths, kind="stable")
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            X = torch.from_numpy(ids[rows, : lengths[rows[0]]])
            if backward:
                _gradient(self.net, X)
            else:
                with torch.inference_mode():
                    self.net(X)


def _gradient(net: TextNet, X: Any) -> Any:
    kept = []

    def leaf(_: Any, __: Any, output: Any) -> Any:
        kept.append(output.detach().requires_grad_())
        return kept[0]

    handle = net.embedding.register_forward_hook(leaf)
    logits = net(X)
    handle.remove()
    loss = torch.nn.functional.cross_entropy(logits, logits.detach().argmax(1), reduction="sum")
    return torch.autograd.grad(loss, kept)


def measure(name: str, net: TextNet, encode: Encoder, comments: eh.datasets.Corpus, findings: int) -> dict[str, Any]:
    """Measure one search."""

    def audit(model: Any) -> eh.Run:
        space, budget = eh.TextSpace.paper(lexicon_file(eh.datasets.comments.LEXICON)), eh.Budget(findings=findings)
        return eh.audit(model, space, SEARCHES[name], budget, seed=0, data=comments.texts)

    recorder = Recorder(net, encode)
    recorded = audit(recorder)
    bare = Bare(net, encode, recorder)
    batch = min(BATCHES, key=bare.seconds)
    pairs = []
    for _ in range(ROUNDS):
        run, seconds = cpu(lambda: audit(eh.wrap(net, encode=encode)))
        assert (run.found, run.rows) == (recorded.found, recorded.rows)
        pairs.append((seconds, bare.seconds(batch)))
    run_seconds, bare_seconds = (statistics.median(times) for times in zip(*pairs, strict=True))
    one_by_one = bare.one_by_one()
    return {
        "findings": recorded.found,
        "tests": recorded.tests,
        "rows": recorded.rows,
        "asked": recorded.asked,
        "rows_checked": recorded.rows_checked,
        "batch": batch,
        "cpu_seconds": short(run_seconds),
        "bare_cpu_seconds": short(bare_seconds),
        "efficiency": short(statistics.median(bare / run for run, bare in pairs)),
        "one_by_one_cpu_seconds": short(one_by_one),
        "gain": short(one_by_one / run_seconds),
    }


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "text_speed.json")
    options.add_argument("--searches", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    options.add_argument("--findings", type=int, default=FINDINGS, help="where each run ends")
    options.add_argument("--texts", type=int, default=None, help="comments that the net is trained on; all")
    given = options.parse_args(arguments)
    torch.set_num_threads(1)
    net, encode, comments = trained(given.texts)
    result: dict[str, Any] = {"machine": facts(), "wanted": WANTED, "searches": {}}
    for name in given.searches:
        row = result["searches"][name] = measure(name, net, encode, comments, given.findings)
        print(name, row, flush=True)
    result["load_after"] = facts()["load"]
    save(given.out, result)


if __name__ == "__main__":
    main()
