"""The section on the speed of text searches."""

from __future__ import annotations

from typing import Any

from benchmarks.layout import section, table, verdict, whole


def text_speed(result: dict[str, Any]) -> str:
    """Write the section."""
    rows, wanted = result["searches"], result["wanted"]
    met = [r["efficiency"] >= wanted["efficiency"] and r["gain"] >= wanted["gain"] for r in rows.values()]
    missed = [
        f"`{name}` ({r['efficiency']:.2f}, {r['gain']:.1f})" for (name, r), ok in zip(rows.items(), met, strict=True)
        if not ok
    ]  # fmt: skip
    head = [
        "search", "findings", "rows asked", "CPU s", "CPU s of the bare net", "efficiency", "CPU s, one row per call",
        "times as fast",
    ]  # fmt: skip
    return section(
        "Speed of text searches compared with the bare net",
        "text_speed",
        result,
        "An LSTM of three layers of ten states on the generated comments. Efficiency is the CPU time of the bare net "
        "on the same rows (forward for scores, forward and backward for gradients; encoded beforehand, sorted by "
        "length, at the fastest of three batch sizes) divided by that of the whole run, including encoding. The two "
        "alternate; the figure is the median. One row per call is the bare net on single rows, without encoding and "
        "search.",
        table(head, [_row(name, r) for name, r in rows.items()]),
        f"The target is an efficiency of {wanted['efficiency']}, and {whole(wanted['gain'])} times the speed of one "
        f"row per call. {verdict(met, 'searches', missed)} The paper takes 438 to 2,678 seconds on a GPU for 5,000 "
        "findings (its table 11).",
    )


def _row(name: str, r: dict[str, Any]) -> list[str]:
    return [
        f"`{name}`",
        whole(r["findings"]),
        whole(r["rows"]),
        f"{r['cpu_seconds']:.1f}",
        f"{r['bare_cpu_seconds']:.1f}",
        f"**{r['efficiency']:.2f}**",
        whole(r["one_by_one_cpu_seconds"]),
        f"**{r['gain']:.1f}**",
    ]
