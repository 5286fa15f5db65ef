"""The sections on texts."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.layout import percent, section, table, whole
from benchmarks.text_subjects import METHODS, SOURCED, SUBJECTS, WALKS

MEASURES = {"changed": "L0", "distance": "L2", "jaccard": "Jaccard", "bleu": "BLEU", "similarity": "similarity"}
NOTHING = "Nothing has been measured so far."
Entry = dict[str, Any]
Papers = dict[str, Any]


WHY_NOT = (
    "Why ADF-HF finds fewer than plain HotFlip here: it takes the swap after which the two losses differ most, in "
    "either direction, and that does not lead to the decision boundary. Plain HotFlip goes there directly, and near "
    "the boundary a small difference between counterparts is enough. ADF-ASC uses the difference only to choose the "
    "word and moves towards the boundary with its replacement, so it is not affected. Giving ADF-HF's difference the "
    "sign that moves the counterpart closer to the boundary found 55 instead of 46 (LSTM, race, seed 0) and 61 "
    "instead of 55 (GRU), still fewer than the plain search."
)


def texts(result: dict[str, Any], papers: Papers) -> str:
    """Write the section about ADF for texts."""
    s = result["settings"]
    most = ", ".join(f"{number:,} ({lexicon})" for lexicon, number in s["seeds"].items())
    walks = "as in the paper" if s["trials"] == 1000 else "compared with 1,000 in the paper"
    return section(
        "ADF for texts",
        "texts",
        result,
        "Three layers of ten states, LSTM and GRU, on comments from the folder named by EVENHAND_TEXT_DATA. These "
        "are not the paper's data, so compare the order of its figures (the mean over Wikipedia and Jigsaw) and not "
        f"their size. At most {most} texts to start from, {s['max_iter']} judgements of each; walks of "
        f"{s['trials']:,} steps, {walks}. Similar words may {'not ' * s['avoid_protected']}be protected terms. "
        "Figures are means over the seeds of nets and searches, with the standard deviation between them.",
        *result.get("remarks", []),
        "### Table 8: the global phase",
        *_global(result["global"], papers["global"]),
        "### Table 8: the local phase",
        *_local(result["local"], papers["local"]),
        "### Table 9 and figure 8: distance of findings from their seeds",
        *_validity(result, papers["validity"]),
        "### Table 11: seconds to 5,000 findings",
        *_times(result["times"], papers["times"], s),
        "### Table 13: retraining and certified training",
        *_repair(result["repair"], papers["repair"], s),
        "### Table 14: retraining by source of findings",
        *_sources(result["sources"], papers["sources"]),
    )


def nets(result: dict[str, Any]) -> str:
    """Write the section about the nets."""
    rows = [
        [
            name.replace("-", ", seed "),
            percent(one["train_accuracy"]),
            f"**{percent(one['test_accuracy'])}**",
            percent(one["majority"]),
            f"{100 * one['paper']['wiki']:.1f} / {100 * one['paper']['jigsaw']:.1f}",
        ]
        for name, one in result["nets"].items()
    ]
    head = ["model", "training texts, %", "held-out texts, %", "majority class, %", "paper: Wikipedia / Jigsaw, %"]
    return section(
        "The text nets",
        "text_nets",
        result,
        "Accuracy on the training comments and on held-out ones; the paper's table 3 has 85.8 to 90.7%. All comments "
        "are from the folder named by EVENHAND_TEXT_DATA, not the paper's.",
        table(head, rows),
    )


def round_trip(result: dict[str, Any]) -> str:
    """Write the section about splitting and joining."""
    rows = [
        [
            {"random": "random strings", "texts": "comments"}[name],
            whole(one["strings"]),
            whole(one["characters"]),
            f"**{one['different']}**",
            whole(one["characters"] / one["cut_seconds"]),
            whole(one["characters"] / one["join_seconds"]),
        ]
        for name, one in result.items()
        if name in ("random", "texts")
    ]
    head = ["", "texts", "characters", "different afterwards", "characters split per CPU s", "joined per CPU s"]
    return section(
        "Splitting and joining texts", "round_trip", result,
        "Strings are split into words and gaps and joined again. The random ones mix all of Unicode, including "
        "halves of surrogate pairs, with the characters that the rules for words treat specially.",
        table(head, rows),
    )  # fmt: skip


def _of(entries: dict[str, Entry], name: str) -> list[Entry]:
    return [entry for key, entry in entries.items() if key.rpartition("/")[0] == name]


def _measured(entries: dict[str, Entry]) -> list[tuple[str, list[Entry]]]:
    return [(name, found) for name in SUBJECTS if (found := _of(entries, name))]


def _spread(values: list[float], scale: float = 1.0) -> str:
    mean, far = scale * statistics.fmean(values), ""
    if len(values) > 1:
        off = scale * statistics.stdev(values)
        far = f" ± {off:,.0f}" if off >= 100 else f" ± {off:.2g}"
    return (f"{mean:,.0f}" if mean >= 100 else f"{mean:.3g}") + far


def _name(subject: str) -> str:
    kind, _, lexicon = subject.partition("/")
    return f"{kind.upper()}, {lexicon}"


def _pairs(found: list[tuple[str, list[Entry]]], ours: str, theirs: str) -> list[tuple[float, float]]:
    """Give the mean numbers found by two methods, row by row."""
    return [(_found(one, ours), _found(one, theirs)) for _, one in found]


def _found(entries: list[Entry], method: str) -> float:
    return statistics.fmean(entry[method]["found"] for entry in entries)


def _fewer(found: list[tuple[str, list[Entry]]], ours: str, theirs: str) -> bool:
    pairs = _pairs(found, ours, theirs)
    return sum(a for a, _ in pairs) < sum(b for _, b in pairs)


def _over(found: list[tuple[str, list[Entry]]], ours: str, theirs: str) -> str:
    """Say how many times as much one method finds as another, the mean over rows, and in how many it is more."""
    pairs = _pairs(found, ours, theirs)
    ratios = [a / b for a, b in pairs if b]
    ratio = f"{statistics.fmean(ratios):.2f} times as many as {theirs}" if ratios else f"some where {theirs} finds none"
    return f"{ours} finds {ratio} (more in {sum(a > b for a, b in pairs)} of {len(pairs)} rows)"


def _global(entries: dict[str, Entry], paper: Papers) -> list[str]:
    found = _measured(entries)
    if not found:
        return [NOTHING]
    rows = []
    for name, seeds in found:
        theirs = paper[name]
        line = [_name(name), whole(statistics.fmean(e["seeds"] for e in seeds))]
        line.append(f"{_spread([e['raw'] for e in seeds])} / {theirs['raw']:g}")
        line += [f"{_spread([e[m]['found'] for e in seeds])} / {theirs[m]:g}" for m in METHODS]
        rows.append(line)
    claims = [("ADF-ASC", "RP", "4.40"), ("ADF-ASC", "ASC", "1.22"), ("ADF-HF", "HF", "1.18")]
    said = [f"{_over(found, ours, theirs)}; the paper's mean: {mean}" for ours, theirs, mean in claims]
    return [
        "Texts found, without those that are findings as they are (raw); ours / the paper's mean.",
        table(["subject", "seeds", "raw", *METHODS], rows),
        "\n".join(f"- {line}." for line in said),
        *([WHY_NOT] if _fewer(found, "ADF-HF", "HF") else []),
    ]


def _local(entries: dict[str, Entry], paper: Papers) -> list[str]:
    found = _measured(entries)
    if not found:
        return [NOTHING]
    rows = []
    for name, seeds in found:
        line = [_name(name)]
        for method in WALKS:
            theirs = paper[name][method]
            line += [
                whole(statistics.fmean(e[method]["starts"] for e in seeds)),
                f"{_spread([e[method]['found'] for e in seeds])} / {whole(theirs['found'])}",
                f"{_spread([e[method]['success'] for e in seeds], 100)} / {theirs['success']:g}",
            ]
        rows.append(line)
    head = ["subject"] + [f"{method}: {what}" for method in WALKS for what in ("starts", "found", "success %")]
    mean = {m: statistics.fmean(e[m]["success"] for _, seeds in found for e in seeds) for m in WALKS}
    return [
        "Walks from each search's own global findings and from the raw ones; ours / the paper's mean.",
        table(head, rows),
        f"- {_over(found, 'ADF-ASC', 'RP')}; the paper's mean: 2.68.\n- Success rates: "
        f"{percent(mean['ADF-ASC'])}% and {percent(mean['RP'])}%; the paper's: 91.7% and 82.69%.",
    ]


def _validity(result: dict[str, Any], paper: Papers) -> list[str]:
    rows = []
    for question, methods in (("global", METHODS), ("local", WALKS)):
        for method in methods:
            measured = [e[method]["quality"] for e in result[question].values() if e[method]["quality"]]
            if measured:
                theirs = paper.get(method, {}) if question == "global" else {}
                rows.append([f"{method}, {question}", *(_quality(measured, key, theirs) for key in MEASURES)])
    if not rows:
        return [NOTHING]
    return [
        "Means over all nets and lexicons, of edited findings compared with their seeds, not counting the swap / the "
        "paper's table 9 (LSTM on Wikipedia comments, by race). The paper's vectors have 50 dimensions, and its "
        "similarity uses another sentence encoder. Its walks change 3.13 words on average. Empty cells were not "
        "measured.",
        table(["", *MEASURES.values()], rows),
    ]


def _quality(measured: list[dict[str, float]], key: str, theirs: dict[str, float]) -> str:
    values = [one[key] for one in measured if key in one and one[key] is not None]
    ours = f"{statistics.fmean(values):.3g}" if values else ""
    return f"{ours} / {theirs[key]:.3g}" if key in theirs else ours


def _times(entries: dict[str, Entry], paper: Papers, s: dict[str, Any]) -> list[str]:
    found = _measured(entries)
    if not found:
        return [NOTHING]
    rows = []
    for name, seeds in found:
        line = [_name(name)]
        for method in WALKS:
            short = [e[method]["found"] for e in seeds if e[method]["found"] < s["findings"]]
            line += [
                _spread([e[method]["seconds"] for e in seeds]),
                _spread([e[method]["cpu_seconds"] for e in seeds]) + (f" (to {whole(min(short))})" if short else ""),
                whole(paper[name][method]),
            ]
        rows.append(line)
    head = ["subject"] + [f"{m}: {what}" for m in WALKS for what in ("seconds", "CPU s", "paper's seconds")]
    return [
        f"Both phases, until {s['findings']:,} are found. If a search ended earlier, or after {s['time_rows']:,} "
        "rows, the number it had is in brackets. The paper's times are for a GPU of 2017.",
        table(head, rows),
    ]


def _repair(entries: dict[str, Entry], paper: Papers, s: dict[str, Any]) -> list[str]:
    found = _measured(entries)
    if not found:
        return [NOTHING]
    rows = []
    for name, seeds in found:
        theirs = paper[name]
        line = [_name(name), whole(statistics.fmean(e["before"]["judged_by"] for e in seeds))]
        for key, said in (("ADF-ASC", "augmented"), ("certified", "certified"), ("again", None)):
            line.append(_removed(seeds, key) + (f" / {theirs[said]:g}" if said else ""))
        line += [_accuracy(seeds, key) for key in ("before", "ADF-ASC", "certified", "again")]
        rows.append(line)
    head = [
        "subject", "findings", "augmented", "certified", "another seed", "accuracy before", "augmented: accuracy",
        "certified: accuracy", "another seed: accuracy",
    ]  # fmt: skip
    gains = {key: _gain(found, key) for key in ("ADF-ASC", "certified", "again")}
    return [
        "Per cent of ADF-ASC's findings from test texts that are no longer findings for the new net; ours / the "
        'paper\'s mean. The column "findings" says how many there are. Augmented: retrained from scratch with '
        f"{100 * s['share']:.0f}% of the findings of {s['repair_rows']:,} rows asked, made from training texts, with "
        "the labels of those texts. Another seed: retrained with nothing added, which the paper does not report; "
        "what disappears here disappears by chance.",
        table(head, rows),
        f"Mean: augmented {gains['ADF-ASC']}%, certified {gains['certified']}% (the paper: 60.2 and 61.0%), another "
        f"seed {gains['again']}%.",
        _lesson(found),
    ]


def _known(seeds: list[Entry], key: str, what: str) -> list[float]:
    return [e[key][what] for e in seeds if e.get(key, {}).get(what) is not None]


def _removed(seeds: list[Entry], key: str) -> str:
    values = _known(seeds, key, "removed")
    return f"**{_spread(values, 100)}**" if values else "-"


def _accuracy(seeds: list[Entry], key: str) -> str:
    values = _known(seeds, key, "accuracy")
    return f"{100 * statistics.fmean(values):.1f}" if values else "-"


def _gain(found: list[tuple[str, list[Entry]]], key: str) -> str:
    values = [value for _, seeds in found for value in _known(seeds, key, "removed")]
    return f"{100 * statistics.fmean(values):.1f}" if values else "-"


def _lesson(found: list[tuple[str, list[Entry]]]) -> str:
    """Say whether adding findings does more than training again."""
    pairs = [
        (e["ADF-ASC"]["removed"], e["again"]["removed"])
        for _, seeds in found for e in seeds
        if e["ADF-ASC"].get("removed") is not None and e["again"].get("removed") is not None
    ]  # fmt: skip
    if not pairs:
        return ""
    better = sum(a > b for a, b in pairs)
    return (
        f"Augmentation removes more than training again with another seed in {better} of {len(pairs)} runs. Findings "
        "are close to a net's own decision boundary, so another net decides many of them differently whatever it was "
        "trained with. Only what disappears beyond that is due to the repair."
    )


def _sources(entries: dict[str, Entry], paper: Papers) -> list[str]:
    found = [(name, seeds) for name, seeds in _measured(entries) if name in SOURCED]
    if not found:
        return [NOTHING]
    methods = [method for method in METHODS if method != "RP"]
    rows = [
        [_name(name), *(f"{_removed(seeds, m)} / {paper[name][m]:g}" for m in methods)]
        for name, seeds in found
    ]  # fmt: skip
    return ["Per cent removed, judged by ADF-ASC's findings; ours / the paper's.", table(["subject", *methods], rows)]
