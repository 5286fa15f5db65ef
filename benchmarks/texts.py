"""ADF for texts, as in its tables 8, 9, 11, 13 and 14: on the nets and comments of ``benchmarks.text_nets``.

Rows (a question, a net, a lexicon) are independent of each other and of seeds, so that many can be measured at the same
time: ``--rows`` and ``--seeds`` choose, ``--out`` writes a part, and ``--merge`` puts parts together. A seed is that of
the net and of the searches. ``--size`` chooses the protocol: ``paper`` has the paper's numbers of trials.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks import text_nets
from benchmarks.machine import Results, cpu, parser, save, short
from benchmarks.text_subjects import METHODS, PAPER, QUESTIONS, ROWS, SIZES, SUBJECTS, TINY, WALKS

SEEDS = 3


def strategy(name: str, lexicon: str, settings: dict[str, Any], phase: Any = "both") -> Any:
    """Make a search by the paper's name for it."""
    sizes = {key: settings[key] for key in ("max_iter", "trials")} | {"phase": phase}
    sizes |= {"seeds": settings["seeds"][lexicon], "rounds": 1}
    if name == "RP":
        return eh.TextRandom(**sizes)
    direction: Any = "asc" if name.endswith("ASC") else "hotflip"
    return eh.TextAdf(direction, pair=name.startswith("ADF"), **sizes)


@lru_cache(maxsize=4)
def subject(name: str, seed: int, device: str, avoid: bool) -> tuple[Any, eh.TextSpace, list[str]]:
    """Return a net, the space of a lexicon with the similar words of the vectors, and all comments."""
    kind, lexicon = name.split("/")
    model = eh.wrap(text_nets.net(kind, seed, device), encode=text_nets.encoder())
    texts = [text for part in text_nets.corpus() for text in part.texts]
    return model, eh.TextSpace(lexicon, text_nets.vectors(), avoid_protected=avoid), texts


def audited(name: str, method: str, seed: int, settings: dict[str, Any], device: str, **options: Any) -> Any:
    """Search a subject; return the run, its CPU seconds and its seconds."""
    model, space, texts = subject(name, seed, device, settings["avoid_protected"])
    budget = options.pop("budget", eh.Budget(tests=settings["tests"]))
    begin = time.perf_counter()
    search = strategy(method, name.partition("/")[2], settings, **options)
    run, seconds = cpu(lambda: eh.audit(model, space, search, budget, seed, data=texts))
    return run, short(seconds), short(time.perf_counter() - begin)


def globally(name: str, seed: int, settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Let each method lead seeds to where they are found: table 8, and the quality of what it found: table 9."""
    out: dict[str, Any] = {}
    for method in METHODS:
        run, _, _ = audited(name, method, seed, settings, device, phase="global")
        measured = eh.quality(run)
        out["raw"] = measured.raw
        out["seeds"] = _seeds(run, settings["seeds"][name.partition("/")[2]])
        out[method] = {
            "found": run.found - measured.raw,
            "quality": _means(measured),
        }
    return out


def _seeds(run: eh.Run, most: int) -> int:
    """Count the texts that a run has started from: different tests, at most so many."""
    assert run.origin is not None
    return min(most, len(np.unique(run.origin.data.keys)))


def _means(measured: eh.results.Quality) -> dict[str, float]:
    return {str(name): short(float(value)) for name, value in measured.mean.items()} if measured.edited.any() else {}


def locally(name: str, seed: int, settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Walk from what each search's own global phase has found, and from the raw ones: table 8, and figure 8."""
    out: dict[str, Any] = {}
    for method in WALKS:
        before, _, _ = audited(name, method, seed, settings, device, phase="global")
        run, spent, _ = audited(name, method, seed, settings, device)
        tests, found = run.tests - before.tests, run.found - before.found
        every = np.arange(before.found, run.found)
        chosen = (
            every[np.unique(np.linspace(0, len(every) - 1, settings["measured"]).astype(int))] if len(every) else []
        )
        out[method] = {
            "starts": before.found,
            "found": found,
            "tests": tests,
            "success": short(found / tests) if tests else 0.0,
            "cpu_seconds": spent,
            "quality": _means(eh.quality(run, at=np.asarray(chosen, dtype=np.int64))),
        }
    return out


def times(name: str, seed: int, settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Take the time to so many findings, as in table 11; the paper's walks, whatever the size."""
    out: dict[str, Any] = {}
    budget = eh.Budget(findings=settings["findings"], rows=settings["time_rows"])
    walks = settings if settings is TINY else settings | {"trials": PAPER["trials"]}
    for method in WALKS:
        run, spent, seconds = audited(name, method, seed, walks, device, budget=budget)
        out[method] = {"found": run.found, "tests": run.tests, "cpu_seconds": spent, "seconds": seconds,
                       "stop": run.stop.value}  # fmt: skip
    return out


def trainer(kind: str, seed: int, epochs: int | None, device: str) -> Callable[[Any, Any], Any]:
    """Make a training function: the recipe of ``text_nets``; the same texts give the same net."""
    how = text_nets.TRAINING if epochs is None else text_nets.Training(epochs=epochs)
    kept: dict[str, Any] = {}

    def train(X: list[str], y: Any) -> Any:
        encode, labels = text_nets.encoder(), np.asarray(y, dtype=np.int64)
        key = hashlib.sha256(repr(X).encode() + labels.tobytes()).hexdigest()
        if key not in kept:
            with text_nets.repeatable(seed):
                made = text_nets.given(text_nets.vectors()[1], kind, text_nets.LAYERS, text_nets.STATES)  # type: ignore[arg-type]
            kept[key] = text_nets.train(made, encode(X), labels, how, seed, device)
        return eh.wrap(kept[key], encode=encode)

    return train


@dataclass(frozen=True)
class Again:
    """No repair: the same training with another seed, to see how much of what was found goes by chance alone."""

    train: Any

    def apply(self, context: Any) -> Any:
        """Train."""
        from evenhand.repairs.context import Candidate

        return Candidate(self.train(context.rows.X, context.rows.y))


def repair(
    name: str, seed: int, settings: dict[str, Any], device: str, sources: tuple[str, ...] = ("ADF-ASC",)
) -> dict[str, Any]:
    """Retrain with findings of each source, made of the training texts; judge by those of ADF-ASC from test texts."""
    from evenhand.repairs.context import RepairContext
    from evenhand.repairs.data import LabelledTexts, UsedTexts
    from evenhand.repairs.evidence import EvidencePlan
    from evenhand.repairs.training import Trainer

    kind, lexicon = name.split("/")
    space = eh.TextSpace(lexicon, text_nets.vectors(), avoid_protected=settings["avoid_protected"])
    parts = [part[: settings["texts"]] for part in text_nets.corpus()]
    rows, held = (LabelledTexts(space, part.texts, part.labels) for part in parts)
    train = Trainer(trainer(kind, seed, settings["epochs"], device), seed, texts=True)
    original, flip, budget = train(rows), eh.Flip(), eh.Budget(rows=settings["repair_rows"])
    ours, samples = strategy("ADF-ASC", lexicon, settings), settings["measured"]

    def judged(method: Any, search: Any, before: Any = None) -> Any:
        used = UsedTexts(space, rows.texts)
        context = RepairContext(rows, train, original, seed, flip, search, budget, _silent, used)
        candidate = None if method is None else method.apply(context)
        plan = EvidencePlan(held, used, flip, ours, budget, samples, 0.95, None, (), (), seed, _silent)
        if before is None:
            return plan.gather(train.wrap(original), ""), plan.found
        plan.found = before[1]
        after = None if candidate.model is None else plan.gather(train.wrap(candidate.model), "")
        return _shown(after, candidate, context if hasattr(method, "search") else None)

    before = judged(None, ours)
    out: dict[str, Any] = {"before": _shown(before[0], None, None) | {"judged_by": len(before[1])}}
    augment = eh.repairs.Augment(share=settings["share"], repeats=1, samples=1)
    for source in sources:
        out[source] = judged(augment, strategy(source, lexicon, settings), before)
    if sources == ("ADF-ASC",):
        epochs = settings["epochs"] or eh.repairs.Certified().epochs
        out["certified"] = judged(eh.repairs.Certified(epochs=epochs), ours, before)
        out["again"] = judged(Again(trainer(kind, seed + 1000, settings["epochs"], device)), ours, before)
    return out


def _silent(words: str) -> None:
    del words


def _shown(evidence: Any, candidate: Any, context: Any) -> dict[str, Any]:
    """Keep what the page shows."""
    if evidence is None:
        return {"removed": None, "note": candidate.reason}
    return {
        "removed": None if evidence.kept is None else short(1 - evidence.kept),
        "accuracy": short(evidence.accuracy.value),
        "data": None if evidence.data is None else short(evidence.data.rate),
        "found": evidence.audit.found,
        "tests": evidence.audit.tests,
        **({} if candidate is None else {"added": candidate.added}),
        **({} if context is None else {"source_found": context.findings.found}),
    }


def sources(name: str, seed: int, settings: dict[str, Any], device: str) -> dict[str, Any]:
    """Compare the methods that findings to retrain with come from, as table 14 does."""
    return repair(name, seed, settings, device, ("ASC", "ADF-ASC", "HF", "ADF-HF"))


ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "global": globally,
    "local": locally,
    "times": times,
    "repair": repair,
    "sources": sources,
}


def merge(parts: list[Path], out: Path) -> None:
    """Put parts together, each seed of each row once."""
    loaded = [json.loads(path.read_text()) for path in parts]
    whole = loaded[0]
    for part in loaded[1:]:
        if part["settings"] != whole["settings"]:
            raise SystemExit("the parts have different settings")
        for question in QUESTIONS:
            whole[question] |= part[question]
    for question in QUESTIONS:
        places = {name: place for place, name in enumerate(SUBJECTS)}
        keys = sorted(whole[question], key=lambda key: (places[key.rpartition("/")[0]], int(key.rpartition("/")[2])))
        whole[question] = {key: whole[question][key] for key in keys}
    save(out, whole)


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "texts.json")
    options.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    options.add_argument("--seeds", nargs="+", type=int, default=list(range(SEEDS)), metavar="SEED")
    options.add_argument("--size", default="short", choices=SIZES, help="the protocol")
    options.add_argument("--device", default="cpu", help="where the nets are, as cuda")
    options.add_argument("--fresh", action="store_true", help="forget the results that are there")
    options.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="put these parts together into --out")
    given = options.parse_args(arguments)
    if given.merge:
        merge(given.merge, given.out)
        return
    settings = SIZES[given.size]
    results = Results(given.out, given.fresh, settings, QUESTIONS)
    for row in given.rows:
        question, _, name = row.partition("/")
        for seed in given.seeds:
            if results.lacks(question, f"{name}/{seed}"):
                answer, seconds = cpu(partial(ANSWERS[question], name, seed, settings, given.device))
                results.add(question, f"{name}/{seed}", answer | {"cpu_seconds": short(seconds)})


if __name__ == "__main__":
    main()
