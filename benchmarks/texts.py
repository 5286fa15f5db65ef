"""ADF for texts, as in its tables 8, 9, 11, 13 and 14: on the nets and comments of ``benchmarks.text_nets``.

A seed is that of the net and of the searches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks import text_nets
from benchmarks.machine import cpu, short
from benchmarks.tasks import Task
from benchmarks.text_subjects import (
    FLIPS,
    FULL,
    LONG,
    METHODS,
    QUESTIONS,
    QUICK,
    SOURCED,
    SOURCES,
    SUBJECTS,
    USES,
    WALKS,
)
from benchmarks.text_subjects import lexicon as lexicon_file

__all__ = ["FULL", "QUESTIONS", "QUICK", "USES", "tasks"]


def strategy(name: str, lexicon: str, settings: dict[str, Any], phase: Any = "both") -> Any:
    """Make a search by the paper's name for it."""
    sizes = {key: settings[key] for key in ("max_iter", "trials")} | {"phase": phase}
    sizes |= {"seeds": settings["seeds"][lexicon], "rounds": 1}
    if name == "RP":
        return eh.TextRandom(**sizes)
    direction: Any = "asc" if name.endswith("ASC") else "hotflip-unsigned" if "printed" in name else "hotflip"
    return eh.TextAdf(direction, pair=name.startswith("ADF"), **sizes)


@lru_cache(maxsize=2)
def subject(name: str, seed: int, avoid: bool, limit: int | None, epochs: int | None) -> tuple[Any, Any, list[str]]:
    """Return a net, the space of a lexicon with the similar words of the vectors, and the comments to start from."""
    kind, lexicon = name.split("/")
    parts = [part[:limit] for part in text_nets.corpus()]
    model = trainer(kind, seed, epochs)(parts[0].texts, parts[0].labels)
    space = eh.TextSpace.paper(lexicon_file(lexicon), text_nets.vectors(), avoid_protected=avoid)
    return model, space, [text for part in parts for text in part.texts]


def audited(name: str, method: str, seed: int, s: dict[str, Any], phase: Any = "both", **options: Any) -> Any:
    """Search a subject; return the run, its CPU seconds and its seconds."""
    model, space, texts = subject(name, seed, s["avoid_protected"], s["texts"], s["epochs"])
    budget = options.pop("budget", eh.Budget(tests=s["tests"]))
    begin = time.perf_counter()
    search = strategy(method, name.partition("/")[2], s, phase)
    run, seconds = cpu(lambda: eh.audit(model, space, search, budget, seed, data=texts))
    return run, short(seconds), short(time.perf_counter() - begin)


def globally(name: str, method: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Lead seeds to where they are found: table 8; the quality of what is found: table 9; seconds per judgement."""
    run, spent, _ = audited(name, method, seed, s, "global")
    measured = eh.quality(run, encoder=mean_vectors)
    assert run.origin is not None
    return {
        "seeds": min(s["seeds"][name.partition("/")[2]], len(np.unique(run.origin.data.keys))),
        "raw": measured.raw,
        "found": run.found - measured.raw,
        "tests": run.tests,
        "seconds": spent,
        "quality": _means(measured),
    }


def mean_vectors(texts: Sequence[str]) -> Any:
    """Stand in for a sentence encoder: the mean of the vectors of a text's known words."""
    vectors = text_nets.vectors()[1]
    ids, table = text_nets.encoder()(texts), np.vstack([np.zeros((2, vectors.shape[1])), vectors])
    return table[ids].sum(axis=1) / np.maximum(1, (ids > 1).sum(axis=1))[:, np.newaxis]


def _means(measured: eh.results.Quality) -> dict[str, float]:
    return {str(name): short(float(value)) for name, value in measured.mean.items()} if measured.edited.any() else {}


def locally(name: str, method: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Walk from what a search's own global phase has found, and from the raw ones: table 8, and figure 8."""
    s = s | {"trials": s["walk_trials"]}
    before, _, _ = audited(name, method, seed, s, "global")
    run, spent, _ = audited(name, method, seed, s)
    tests, found = run.tests - before.tests, run.found - before.found
    at = np.linspace(before.found, run.found - 1, min(found, s["measured"])).astype(np.int64)
    return {
        "starts": before.found,
        "found": found,
        "tests": tests,
        "success": short(found / tests) if tests else 0.0,
        "seconds": spent,
        "quality": _means(eh.quality(run, at=np.unique(at))) if found else {},
    }


def walking(name: str, method: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Walk as many steps as in the paper, from what is found from a few texts."""
    few = {"walk_trials": s["trials"], "seeds": dict.fromkeys(s["seeds"], s["long_seeds"])}
    return locally(name, method, seed, s | few)


def times(name: str, method: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Take the time to so many findings, as in table 11."""
    budget = eh.Budget(findings=s["findings"], rows=s["time_rows"])
    run, spent, seconds = audited(name, method, seed, s, budget=budget)
    return {"found": run.found, "tests": run.tests, "seconds": spent, "elapsed": seconds, "stop": run.stop.value}


def trainer(kind: str, seed: int, epochs: int | None) -> Callable[[Sequence[str], Any], Any]:
    """Make a training function: the recipe of ``text_nets``."""
    how = text_nets.TRAINING if epochs is None else text_nets.Training(epochs=epochs)

    def train(X: Sequence[str], y: Any) -> Any:
        encode, labels = text_nets.encoder(), np.asarray(y, dtype=np.int64)
        if epochs is None and tuple(X) == text_nets.corpus()[0].texts:
            return eh.wrap(text_nets.net(kind, seed), encode=encode)  # It is that net, which may be stored.
        with text_nets.repeatable(seed):
            made = text_nets.given(text_nets.vectors()[1], kind, text_nets.LAYERS, text_nets.STATES)  # type: ignore[arg-type]
        return eh.wrap(text_nets.train(made, encode(list(X)), labels, how, seed, "cpu"), encode=encode)

    return train


@dataclass(frozen=True)
class Again:
    """No repair: the same training with another seed, to see how much of what was found goes by chance alone."""

    train: Any

    def apply(self, context: Any) -> Any:
        """Train."""
        from evenhand.repairs.context import Candidate

        return Candidate(self.train(context.rows.X, context.rows.y))


def repair(name: str, way: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Retrain with findings of a source, made of the training texts; judge by those of ADF-ASC from test texts."""
    from evenhand.repairs.context import RepairContext
    from evenhand.repairs.data import LabelledTexts, UsedTexts
    from evenhand.repairs.evidence import EvidencePlan
    from evenhand.repairs.training import Trainer

    kind, lexicon = name.split("/")
    space = eh.TextSpace.paper(lexicon_file(lexicon), text_nets.vectors(), avoid_protected=s["avoid_protected"])
    parts = [part[: s["texts"]] for part in text_nets.corpus()]
    rows, held = (LabelledTexts(space, part.texts, part.labels) for part in parts)
    train = Trainer(trainer(kind, seed, s["epochs"]), seed, texts=True)
    original, flip, budget = train(rows), eh.Flip(), eh.Budget(rows=s["repair_rows"])
    # The walks are short: findings from many texts, not many from each.
    walks = s | {"trials": s["walk_trials"]}
    search = strategy(way if way in METHODS else "ADF-ASC", lexicon, walks)
    method: Any = eh.repairs.Augment(share=s["share"], start="scratch", samples=1)
    if way == "certified":
        method = eh.repairs.Certified(epochs=s["epochs"] or eh.repairs.Certified().epochs)
    elif way == "again":
        method = Again(trainer(kind, seed + 1000, s["epochs"]))
    used = UsedTexts(space, rows.texts)
    context = RepairContext(rows, train, original, seed, flip, search, budget, _silent, used)
    judge = strategy("ADF-ASC", lexicon, walks)
    plan = EvidencePlan(held, used, flip, judge, budget, s["measured"], 0.95, None, (), (), seed, _silent)
    before = plan.gather(train.wrap(original), "")
    candidate = method.apply(context)
    after = None if candidate.model is None else plan.gather(train.wrap(candidate.model), "")
    return {
        "judged_by": len(plan.found or ()),
        "removed": None if after is None or after.kept is None else short(1 - after.kept),
        "accuracy_before": short(before.accuracy.value),
        "accuracy": None if after is None else short(after.accuracy.value),
        "added": candidate.added,
    }


def _silent(words: str) -> None:
    del words


def facts(name: str, seed: int) -> dict[str, Any]:
    """Say how good a net is (table 3)."""
    return text_nets.facts(name, seed)


def tasks(settings: dict[str, Any], quick: bool) -> Iterator[Task]:
    """List everything that is measured on comments."""
    if not os.environ.get("EVENHAND_TEXT_DATA"):
        return

    def task(question: str, name: str, way: str, call: Callable[..., dict[str, Any]], cost: float) -> Task:
        return Task("texts", question, f"{name}/{way}/0", partial(call, name, way, 0, settings), cost)

    for name in SUBJECTS[2:3] if quick else SUBJECTS:
        for method in METHODS[:2] if quick else METHODS:
            yield task("global", name, method, globally, 40)
        for method in FLIPS if name == SOURCED[0] else ():
            yield task("flips", name, method, globally, 40)
        for method in METHODS if name == SOURCED[0] else ():
            yield task("meaning", name, method, globally, 10)
        for method in WALKS if name in LONG else ():
            yield task("long", name, method, walking, 60)
        for method in WALKS[:1] if quick else WALKS:
            yield task("local", name, method, locally, 100)
            yield task("times", name, method, times, 120)
        for way in ("again",) if quick else (*SOURCES, "certified", "again") if name in SOURCED else (
            "ADF-ASC", "certified", "again"):  # fmt: skip
            yield task("repair", name, way, repair, 300)
    for kind in () if quick else ("lstm", "gru"):
        yield Task("texts", "nets", f"{kind}/0", partial(facts, kind, 0), 200)
