"""The section on repairs."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.layout import percent, section, table, whole
from benchmarks.repairs import AVERAGED, CLASSIFIERS, PAIRS, SOURCES, VOTED

NAMES = {"aequitas": "AEQUITAS", "symbolic": "SG", "adf": "ADF"}
WANTED = 0.5
"""Points of accuracy that averaging may cost."""
Entry = dict[str, Any]


def repairs(result: dict[str, Any], papers: dict[str, Any]) -> str:
    """Write the section."""
    s = result["settings"]
    return section(
        "Repairs",
        "repairs",
        result,
        f"All figures are measured on individuals that the repair did not use: rates on {s['samples']:,} uniform "
        f"valid individuals (the kernel SVM: {s['svm_samples']:,}), accuracy on the {100 * s['held_out']:.0f}% of the "
        "rows held out. Rates and accuracies are in per cent, means over the seeds with the standard deviation "
        "between them. A seed determines the split, the search, the draws and the estimates. As in the papers, "
        "figures are for the model that was made. evenhand returns it only if fresh evidence supports it; *returned* "
        "counts those. Improvement is computed from the mean rates, as in the papers; the next column says in how "
        "many seeds the rate fell.",
        "### AEQUITAS's table 5: retraining",
        *_retrain(result["retrain"], papers["aequitas_retraining"], s),
        "### ADF's table 10 (table 12 of its later version): augmentation by source of findings",
        *_augment(result["augment"], papers["adf_retraining"], s),
        *_votes(result.get("votes", {})),
        "### Averaging over protected values",
        *_marginal(result["marginal"]),
    )


def _of(entries: dict[str, Any], name: str) -> list[Entry]:
    """Give all seeds of a row."""
    return [entry for key, entry in entries.items() if key.rpartition("/")[0] == name]


def _spread(entries: list[Entry], key: str) -> str:
    values = [entry[key] for entry in entries]
    far = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.fmean(values):.3g} ± {100 * far:.2g}"


def _mean(entries: list[Entry], key: str) -> float:
    return statistics.fmean(entry[key] for entry in entries)


def _improvement(entries: list[Entry]) -> float:
    before = _mean(entries, "before")
    return 1 - _mean(entries, "after") / before if before else 0.0


def _fell(entries: list[Entry]) -> int:
    return sum(entry["after"] < entry["before"] for entry in entries)


def _handed(entries: list[Entry]) -> str:
    """Count the models that fresh evidence supported, of those that were made."""
    return f"{sum(entry['changed'] for entry in entries)} of {sum(entry['made'] for entry in entries)}"


def _accuracy(entries: list[Entry]) -> str:
    return f"{100 * _mean(entries, 'accuracy_before'):.2f} to {100 * _mean(entries, 'accuracy_after'):.2f}"


def _retrain(entries: dict[str, Any], paper: dict[str, Any], s: dict[str, Any]) -> list[str]:
    rows, known = [], {name: _of(entries, name) for name in CLASSIFIERS}
    known = {name: found for name, found in known.items() if found}
    for name, found in known.items():
        theirs = paper[name]
        rows.append(
            [
                name,
                _spread(found, "before"),
                _spread(found, "after"),
                f"**{100 * _improvement(found):.1f}**",
                f"{_fell(found)} of {len(found)}",
                _handed(found),
                percent(_mean(found, "added")),
                _accuracy(found),
                f"{theirs['before']:g} to {theirs['after']:g}",
                f"{theirs['improvement']:g}",
                f"{theirs['added']:g}",
                whole(_mean(found, "cpu_seconds")),
            ]
        )
    head = [
        "model", "before", "after", "improvement %", "fell in", "returned", "rows added, %", "held-out accuracy",
        "paper: before, after", "paper: improvement %", "paper: rows added, %", "CPU s",
    ]  # fmt: skip
    gains = [100 * _improvement(found) for found in known.values()]
    return [
        "Census in the papers' coding, by sex: Algorithm 5 with the findings of the fully directed search (at most "
        f"as many as there are training rows, in {s['tests']:,} tests, {s['svm_tests']:,} for the SVM), labelled by "
        "the majority of five classifiers. The fair SVM is that of the estimates above. If no round improves a "
        "model, it stays as it is, with an improvement of 0.",
        table(head, rows),
        _means(gains, "43.2") if gains else "Nothing has been measured so far.",
        _real(list(known.values())),
        _lesson(list(known.values())),
    ]


def _means(gains: list[float], paper: str) -> str:
    return (
        f"Mean improvement {statistics.fmean(gains):.1f}% (the paper's: {paper}%), from {min(gains):.1f} to "
        f"{max(gains):.1f}%."
    )


def _real(found: list[list[Entry]]) -> str:
    """Describe the effect on the people in the data."""
    every = [entry for one in found for entry in one if entry["data_before"] is not None and entry["made"]]
    every = [entry for entry in every if entry["data_after"] is not None]
    if not every:
        return "No model was made."
    worse = sum(entry["data_after"] > entry["data_before"] for entry in every)
    before, after = _mean(every, "data_before"), _mean(every, "data_after")
    refused = sum(not entry["changed"] for entry in every)
    lost = 100 * (_mean(every, "accuracy_before") - _mean(every, "accuracy_after"))
    return (
        f"Among the held-out people, over all {len(every)} models made: {100 * before:.2f} to {100 * after:.2f}% "
        f"treated differently, more than before in {worse}; accuracy lost: {lost:.2f} points. {refused} models are "
        "refused because they are significantly worse for uniform individuals or for people like the held-out ones."
    )


def _lesson(found: list[list[Entry]]) -> str:
    """Say who benefits from retraining."""
    every = [entry for one in found for entry in one]
    made = [e for e in every if e["made"] and e["data_before"] is not None and e["data_after"] is not None]
    if not made:
        return ""
    fell, better = _fell(every), sum(entry["data_after"] < entry["data_before"] for entry in made)
    uniform = (
        f"Retraining lowers the rate that it optimises, that of uniform individuals, in {fell} of {len(every)} runs. "
    )
    if better > 0.8 * len(made):
        return uniform + f"People in the data benefit too, in {better} of {len(made)} models made."
    return uniform + (
        f"But it lowers the rate among the held-out people in only {better} of the {len(made)} models made. A likely "
        "reason, which was not tested: findings come from the whole space, where few people are. For a model that is "
        "fairer to the people it is used on, look at the share of the data, which the paper does not report."
    )


def _augment(entries: dict[str, Any], paper: dict[str, Any], s: dict[str, Any]) -> list[str]:
    rows = []
    gains: dict[str, list[float]] = {source: [] for source in SOURCES}
    every: list[list[Entry]] = []
    for pair in PAIRS:
        seeds = _of(entries, pair)
        if not seeds:
            continue
        for source in SOURCES:
            found = [seed[source] for seed in seeds]
            every.append(found)
            gains[source].append(100 * _improvement(found))
            before, after = paper[pair]["before"], paper[pair][source]
            rows.append(
                [
                    pair.replace("/", ", by "),
                    NAMES[source],
                    _spread(found, "before"),
                    _spread(found, "after"),
                    f"**{gains[source][-1]:.1f}**",
                    f"{_fell(found)} of {len(found)}",
                    _handed(found),
                    whole(_mean(found, "rows_added")),
                    percent(_mean(found, "added")),
                    _accuracy(found),
                    f"{before:g} to {after:g}",
                    f"{100 * (1 - after / before):.1f}",
                ]
            )
    head = [
        "subject", "search", "before", "after", "improvement %", "fell in", "returned", "rows added",
        "of the training rows, %", "held-out accuracy", "paper: before, after", "paper: improvement %",
    ]  # fmt: skip
    if not rows:
        return ["Nothing has been measured so far."]
    said = {"aequitas": "45.1", "symbolic": "49.1", "adf": "57.2"}
    means = "; ".join(f"{NAMES[k]} {statistics.fmean(v):.1f}% (the paper's: {said[k]}%)" for k, v in gains.items())
    return [
        f"Six-layer nets, trained anew for each seed; {100 * s['share']:.0f}% of the findings of {s['net_tests']:,} "
        f"tests (SG, whose tests cost a thousand rows each: {s['symbolic_tests']:,}), labelled by the majority of "
        "five classifiers, one repeat per seed.",
        table(head, rows),
        f"Mean improvement by source: {means}.",
        _real(every),
        _conclusion(gains, every),
    ]


def _votes(entries: dict[str, Any]) -> list[str]:
    """Compare ways of labelling the same findings."""
    known = {pair: seeds for pair in VOTED if (seeds := _of(entries, pair))}
    if not known:
        return []
    ways = list(next(iter(known.values()))[0])
    head = [
        "subject",
        "seeds",
        "before",
        *(way.replace("kinds", "five kinds").replace("nets", "five nets") for way in ways),
    ]
    rows = []
    for pair, seeds in known.items():
        line = [pair.replace("/", ", by "), str(len(seeds)), _spread([seed[ways[0]] for seed in seeds], "before")]
        rows.append(line + [_spread([seed[way] for seed in seeds], "after") for way in ways])
    fell = {
        way: sum(seed[way]["after"] < seed[way]["before"] for seeds in known.values() for seed in seeds) for way in ways
    }
    most, runs = max(fell.values()), sum(map(len, known.values()))
    return [
        "#### Who labels what is added",
        "The paper does not specify which models vote, except that they are trained separately. Here the same "
        "findings of ADF are labelled by five classifiers of other kinds, as above, or by five nets of the same kind "
        "with other seeds, voting on the individual or on it and its counterparts together. The table has the rates "
        "after the repair, for uniform individuals.",
        table(head, rows),
        f"The rate fell in {', '.join(f'{count} of {runs} ({way})' for way, count in fell.items())} repairs. "
        + (
            "In these few runs no way of voting lowers it reliably, and the best one differs between subjects."
            if most <= 0.75 * runs
            else "So the voters matter; choose them with `eh.repairs.Augment(voters=..., vote=...)`."
        ),
    ]


def _conclusion(gains: dict[str, list[float]], every: list[list[Entry]]) -> str:
    """Say what the figures show."""
    flat = [entry for one in every for entry in one]
    fell = sum(entry["after"] < entry["before"] for entry in flat)
    spreads = [statistics.stdev([e["before"] for e in one]) for one in every if len(one) > 1]
    changes = [abs(_mean(one, "before") - _mean(one, "after")) for one in every if len(one) > 1]
    drowned = sum(change < spread for change, spread in zip(changes, spreads, strict=True))
    best = max(gains, key=lambda source: statistics.fmean(gains[source]))
    ordered = statistics.fmean(gains["adf"]) > max(statistics.fmean(gains[k]) for k in ("aequitas", "symbolic"))
    order = "as in the paper" if ordered else "unlike the paper, where ADF's do"
    return (
        f"The rate fell in {fell} of {len(flat)} repairs. On average {NAMES[best]}'s findings help most, {order}. In "
        f"{drowned} of {len(spreads)} rows the mean change is smaller than the standard deviation of the original "
        "nets' rates between seeds: a single retraining proves nothing there, and only the evidence for the "
        "individual repair counts. The searches do not add equally many rows, so this does not compare the value of "
        "single findings."
    )


def _marginal(entries: dict[str, Any]) -> list[str]:
    found = {name: _of(entries, name) for name in AVERAGED}
    rows, met = [], []
    for name, seeds in found.items():
        for entry in seeds:
            before, after = entry["before"], entry["after"]
            change = 100 * (after["accuracy"] - before["accuracy"])
            met.append(abs(change) <= WANTED and after["found"] == 0 == after["data_found"])
            rows.append(
                [
                    name,
                    f"{before['found']:,} of {before['samples']:,}",
                    f"**{after['found']:,}** of {after['samples']:,}",
                    f"{before['data_found']:,} of {before['data_samples']:,}",
                    f"**{after['data_found']:,}**",
                    f"{100 * before['accuracy']:.2f} to {100 * after['accuracy']:.2f}",
                    f"{change:+.2f}",
                    f"{after['cpu_seconds_to_predict'] / before['cpu_seconds_to_predict']:.1f}",
                ]
            )
    if not rows:
        return ["Nothing has been measured so far."]
    head = [
        "model", "uniform, before", "after", "test rows, before", "after", "accuracy on the test split", "points",
        "times as long to predict",
    ]  # fmt: skip
    return [
        "`eh.MarginalModel` around models on Adult's own values, by sex, with the link between husband and wife: "
        "individuals treated differently, among uniform ones and among the rows of Adult's test split.",
        table(head, rows),
        f"{sum(met)} of {len(met)} meet the target: none treated differently, and accuracy within {WANTED:g} points.",
        "If a model gives scores and protected attributes should have no effect, averaging achieves this exactly, at "
        "the cost in accuracy shown and without training. It does not help with proxies of a protected attribute: "
        "link them, leave them out, or train differently.",
    ]
