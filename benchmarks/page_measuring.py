"""The sections on estimates."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.coverage import rows_of
from benchmarks.layout import section, table, verdict, whole

EXPECTED_SHORT = ("lln", "Clopper-Pearson, at the worst")
"""Intervals that are not expected to hold: the paper's at low rates, and one that is misused."""
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
        f"{s['models']:,} simulated models for each rate, each with {s['samples']:,} independent individuals; a model "
        "treats exactly the given share of individuals differently. Coverage is in per cent of the models, at 90, 95 "
        "and 99% confidence. The width is the mean at 95%: in percentage points for the Clopper-Pearson interval, "
        'relative to it for the others. "At the worst moment" means that the interval holds after every single '
        f"individual, so that it is valid whenever one stops. `lln` has {s['experiments']} experiments of "
        f"{s['samples'] // s['experiments']}.",
        _shares(shares),
        "Other intervals: rows asked once each (500 of 2,000, and all of them), weighted rows (1,000, log-normal "
        "weights with a spread of 0.7; and looked at ten times up to 10,000), 500 individuals of a noisy model, each "
        "asked six times, net differences of 10,000 pairs (and looked at six times up to 32,000), impact ratios of a "
        "group of 200 beside 500 and 1,000 others, and the share of findings in regions not seen (200 findings in "
        "100 regions; the first column says how even those are).",
        _others(others),
        verdict(
            met,
            "rows of intervals that should hold (at least the confidence minus two standard errors of the simulation)",
            missed,
        )
        + f" The paper's `lln` is not among them; it falls short in {len(short)} of its {len(normal)} rows"
        + (f", at the rates {rates}" if short else "")
        + ". Watching an interval for a fixed sample makes it invalid: if the 95% Clopper-Pearson interval is looked "
        + f"at {s['looks']} times and sampling stops at the worst look, it holds for {100 * min(peeking):.0f} to "
        + f"{100 * max(peeking):.0f}% of the models.",
    )


def _holds(row: dict[str, Any], models: int) -> bool:
    level = row["level"]
    return bool(row["coverage"] >= level - 2 * math.sqrt(level * (1 - level) / models))


def _named(row: dict[str, Any]) -> str:
    return f"{row['interval']} at {row['rate']:g} and {100 * row['level']:g}% ({100 * row['coverage']:.1f})"


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
        "### AEQUITAS's table 5 before retraining",
        f"The paper's protocol, {s['experiments']} experiments of {s['size']:,} uniform individuals, on Census in the "
        "papers' coding, by sex: per cent treated differently and the 95% interval of the mean, the Clopper-Pearson "
        "interval of the same sample, and the paper's figures. The paper's models are not published, so these are "
        "our own. A linear SVM whose selection rates by sex are equalised by fairlearn's grid search replaces its "
        "fair SVM. Net: the share in which women (sex 0) are favoured minus that in which men are.",
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
        "The paper's intervals are up to ten times as wide as its protocol gives, so it must have used another "
        "setting. The rates differ because the models do.",
        "### Cost of an estimate",
        "Efficiency as above: CPU time of the bare model on the same rows, divided by that of the whole estimate, "
        "including intervals and comparisons.",
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
        "### Uniform individuals and real people",
        f"Per cent treated differently with 95% intervals: of {s['samples']:,} uniform valid individuals, of as many "
        "within three steps of a row, and of all rows that the model was not fitted on (the interval is for the "
        "population they are a sample of). Models use the data's own values; Adult and German credit by sex, Bank by "
        "age at its 78 values. Then who is favoured most, and by how much net, in the space and in the data.",
        _populations(result["populations"]),
        _conclusion(result["populations"]),
        _linked(result["populations"]),
    )


def _linked(rows: dict[str, Any]) -> str:
    """Describe the effect of links on the share among real people."""
    found = []
    for key, r in rows.items():
        if "unlinked" in r:
            both = f"{_favoured(r['data'])} with links, {_favoured(r['unlinked'])} without"
            found.append(f"{key.split('/')[1]}: {both}")
    if not found:
        return ""
    return (
        "The space defines counterparts. Adult's space links sex to husband or wife, so a married man becomes a "
        "married woman; without the link he would become a female husband, which does not exist. Net, among the "
        f"people in the data: {'; '.join(found)}."
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
        f"In {apart} of {len(rows)} the two intervals do not overlap, and the share among real people is "
        f"{ratios[0]:.2g} to {ratios[-1]:.2g} times the uniform share. Neither is more correct; they answer different "
        "questions. The uniform share says how much of the input space depends on a protected attribute. It is a "
        "property of the model and the declared space, comparable between models on one space and with the papers, "
        "and it changes with bounds and constraints. The share of the data says how many of the people the model "
        "sees are treated differently. Use it to report an effect on people, as long as people stay like the data. "
        "Real people are concentrated where decisions are close, or far from it, and uniform individuals are not. "
        f"Even who is favoured can differ ({turned} of {len(rows)} here). Never quote one for the other, and say "
        "which one you report."
    )
