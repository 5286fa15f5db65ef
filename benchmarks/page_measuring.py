"""The sections of the page about estimates."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.coverage import rows_of
from benchmarks.layout import section, table, verdict, whole

EXPECTED_SHORT = ("lln", "Clopper-Pearson, at the worst")
"""Intervals that need not hold: the paper's at low rates, and one that is used as it must not be."""
DATA = {"adult": "Adult", "german": "German credit", "bank": "Bank"}


def coverage(result: dict[str, Any]) -> str:
    """Write the section about how often intervals hold."""
    s = result["settings"]
    shares, others = rows_of(result["shares"]), rows_of(result["others"])
    rows = shares + others
    judged = [row for row in rows if row["interval"] not in EXPECTED_SHORT]
    met = [_holds(row, s["models"]) for row in judged]
    missed = [_named(row) for row, ok in zip(judged, met, strict=True) if not ok]
    normal = [row for row in shares if row["interval"] == "lln"]
    short = [row for row in normal if not _holds(row, s["models"])]
    peeking = [row["coverage"] for row in rows if row["interval"] == EXPECTED_SHORT[1] and row["level"] == 0.95]
    rates = ", ".join(sorted({f"{row['rate']:g}" for row in short}, key=float))
    return section(
        "How often intervals hold",
        "coverage",
        result,
        f"{s['models']:,} simulated models for each rate, each asked about {s['samples']:,} independent individuals; a "
        "model treats exactly the given share of all individuals differently. Coverage in per cent of the models, at "
        "90, 95 and 99 % confidence. The width is the average at 95 %, of Clopper and Pearson's interval in percentage "
        "points and of the others in per cent of that. At the worst moment: the interval held after each single "
        "individual, so that whenever one stops one does no worse. `lln` "
        f"has {s['experiments']} experiments of {s['samples'] // s['experiments']}.",
        _shares(shares),
        "Not shares of independent individuals: rows asked once each (500 of 2,000, and all the way through), weighted "
        "rows (1,000, weights log-normal with a spread of 0.7; and looked at ten times up to 10,000), 500 individuals "
        "of a model that wavers, each asked six times, net differences of 10,000 pairs (and looked at six times up to "
        "32,000), impact ratios of a group of 200 beside 500 and 1,000 others, and the share of findings in regions "
        "not seen (200 findings in 100 regions; the first column is how even those are).",
        _others(others),
        verdict(
            met,
            "rows of intervals that are meant to hold (at least the confidence less two standard errors of the "
            "simulation)",
            missed,
        )
        + f" Not among them is the paper's `lln`, which falls short in {len(short)} of its {len(normal)} rows"
        + (f", at the rates {rates}" if short else "")
        + ". What watching does to an interval for a fixed sample: Clopper and Pearson's at 95 %, looked at "
        + f"{s['looks']} times and stopped at the worst, holds for {100 * min(peeking):.0f} to "
        + f"{100 * max(peeking):.0f} per cent of the models.",
    )


def _holds(row: dict[str, Any], models: int) -> bool:
    level = row["level"]
    return bool(row["coverage"] >= level - 2 * math.sqrt(level * (1 - level) / models))


def _named(row: dict[str, Any]) -> str:
    return f"{row['interval']} at {row['rate']:g} and {100 * row['level']:g} % ({100 * row['coverage']:.1f})"


def _by_level(rows: list[dict[str, Any]], name: str, rate: float) -> dict[float, dict[str, Any]]:
    return {row["level"]: row for row in rows if row["interval"] == name and row["rate"] == rate}


def _cell(found: dict[float, dict[str, Any]]) -> str:
    return " / ".join(f"{100 * found[level]['coverage']:.1f}" for level in sorted(found))


def _shares(rows: list[dict[str, Any]]) -> str:
    names = ("Clopper-Pearson", "anytime", "anytime, at the worst moment", "lln", "at most")
    lines = []
    for rate in sorted({row["rate"] for row in rows}):
        cells = [_by_level(rows, name, rate) for name in names]
        widths = [f"{100 * cells[i][0.95]['relative']:.0f}" for i in (1, 3)]
        own = f"{100 * cells[0][0.95]['width']:.3g}"
        lines.append([f"{100 * rate:g}", *(_cell(cell) for cell in cells), own, *widths])
    head = [
        "rate %",
        *(f"{name}" for name in names),
        "width of Clopper-Pearson, points",
        "of anytime, %",
        "of `lln`, %",
    ]
    return table(head, lines)


def _others(rows: list[dict[str, Any]]) -> str:
    keys = list(dict.fromkeys((row["interval"], row["rate"]) for row in rows))
    lines = []
    for name, rate in keys:
        found = _by_level(rows, name, rate)
        relative = found[0.95]["relative"]
        width = f"{100 * found[0.95]['width']:.3g}"
        lines.append([name, f"{rate:g}", _cell(found), width, "" if relative is None else f"{100 * relative:.0f}"])
    return table(["", "truth", "coverage %", "width, points", "% of Clopper-Pearson's"], lines)


def estimates(result: dict[str, Any], paper: dict[str, Any]) -> str:
    """Write the section about estimates of real models."""
    s = result["settings"]
    speed = result["efficiency"]
    met = [row["efficiency"] >= row["wanted"] for row in speed.values()]
    missed = [f"{name} ({r['efficiency']:.2f})" for (name, r), ok in zip(speed.items(), met, strict=True) if not ok]
    return section(
        "Estimates of real models",
        "estimates",
        result,
        "### AEQUITAS's table 5, before retraining",
        f"Its protocol, {s['experiments']} experiments of {s['size']:,} uniform individuals, on Census in the papers' "
        "coding, by sex: per cent treated differently and the 95 % interval of the mean, beside Clopper and Pearson's "
        "of the same sample and what the paper prints. The models are ours: its own are not published. The paper's "
        "fair SVM is stood in for by a linear SVM whose selection rates by sex fairlearn's grid search holds together. "
        "Net: the share in which women (sex 0) are favoured less that in which men are.",
        table(
            ["model", "`lln`, %", "Clopper-Pearson, %", "the paper's, %", "net, %", "CPU s"],
            [
                [
                    name,
                    _interval(r["rate"], *r["lln"]),
                    f"{100 * r['clopper_pearson'][0]:.3g} to {100 * r['clopper_pearson'][1]:.3g}",
                    "{:g} ({:g} to {:g})".format(*paper[name]),
                    f"{100 * r['net']:.3g}",
                    whole(r["cpu_seconds"]),
                ]
                for name, r in result["aequitas"].items()
            ],
        ),
        "The intervals that the paper prints are up to ten times as wide as its protocol gives, so another setting was "
        "used there. The rates differ because the models do.",
        "### What estimating costs",
        "Efficiency as above: CPU time of the bare model on the very rows that an estimate asked, over that of the "
        "whole estimate, intervals and comparisons included.",
        table(
            ["model", "individuals", "rows asked", "CPU s", "efficiency", "target"],
            [
                [
                    name,
                    whole(r["samples"]),
                    whole(r["rows"]),
                    f"{r['cpu_seconds']:.2f}",
                    f"**{r['efficiency']:.2f}**",
                    f"{r['wanted']}",
                ]
                for name, r in speed.items()
            ],
        ),
        verdict(met, "rows", missed),
        "### Uniform individuals beside real people",
        f"Per cent treated differently with 95 % intervals, of {s['samples']:,} uniform legal individuals, of as many "
        "within three steps of a row, and of all rows that the model was not fitted on (the interval is for the "
        "population they are a sample of). Models take the data's own values; Adult and German credit by sex, Bank by "
        "age at its 78 values. Then who is favoured most, and by how much net: in the space and in the data.",
        _populations(result["populations"]),
        _conclusion(result["populations"]),
        _linked(result["populations"]),
    )


def _linked(rows: dict[str, Any]) -> str:
    """Say what links do to the share among real people."""
    told = []
    for key, r in rows.items():
        if "unlinked" in r:
            both = f"{_favoured(r['data'])} with links, {_favoured(r['unlinked'])} without"
            told.append(f"{key.split('/')[1]}: {both}")
    if not told:
        return ""
    return (
        "A counterpart is what the space says it is. Adult's space links sex to the husband or wife that one is, so a "
        "married man becomes a married woman; without the link he would become a female husband, whom nobody has met. "
        f"Net, among the data's people: {'; '.join(told)}."
    )


def _interval(rate: float, low: float, high: float) -> str:
    return f"{100 * rate:.3g} ({100 * low:.3g} to {100 * high:.3g})"


def _favoured(r: dict[str, Any]) -> str:
    if not r["verdict"].startswith("favours"):
        return str(r["verdict"])
    one, other = (r["first"], r["second"]) if r["net"] > 0 else (r["second"], r["first"])
    names = [" ".join(map(str, side.values())) for side in (one, other)]
    return f"{names[0]} over {names[1]}, {100 * abs(r['net']):.3g}"


def _populations(rows: dict[str, Any]) -> str:
    lines = []
    for key, r in rows.items():
        data, model = key.split("/")
        rates = [_interval(r[name]["rate"], r[name]["low"], r[name]["high"]) for name in ("uniform", "near", "data")]
        lines.append([DATA[data], model, *rates, _favoured(r["uniform"]), _favoured(r["data"])])
    return table(["", "model", "uniform, %", "near, %", "data, %", "favoured, uniform", "favoured, data"], lines)


def _conclusion(rows: dict[str, Any]) -> str:
    if not rows:
        return ""
    apart = sum(
        r["uniform"]["high"] < r["data"]["low"] or r["data"]["high"] < r["uniform"]["low"] for r in rows.values()
    )
    ratios = sorted(r["data"]["rate"] / max(r["uniform"]["rate"], 1e-9) for r in rows.values())
    turned = sum(
        r["uniform"]["verdict"].startswith("favours")
        and r["data"]["verdict"].startswith("favours")
        and r["uniform"]["first"] == r["data"]["first"]
        and r["uniform"]["second"] == r["data"]["second"]
        and r["uniform"]["net"] * r["data"]["net"] < 0
        for r in rows.values()
    )
    return (
        f"What to conclude: in {apart} of {len(rows)} the two intervals do not even meet, and the share of real people "
        f"is {ratios[0]:.2g} to {ratios[-1]:.2g} times that of the space. Neither is the truer one; they answer two "
        "questions. The uniform rate says how much of what the model could be asked depends on a protected attribute: "
        "it is a property of the model and of the declared space, comparable between models on one space and with the "
        "papers, and it moves when bounds or constraints move. The data rate says how many of the people whom the "
        "model meets would be treated differently, and is the one to report of an effect on people, for as long as "
        "people stay like the data. Real people crowd where decisions are close, or far from it, and uniform "
        f"individuals do not. Even who is favoured can differ between the two ({turned} of {len(rows)} here). So never "
        "quote one for the other, and say which it is."
    )
