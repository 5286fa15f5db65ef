"""Write the figures and the limits of ``docs/explanation/safety.md``; the rest of that page is written by hand."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.layout import table
from evenhand._files import LIMITS, PREFIX

KINDS = {
    "space": "space (TOML)",
    "config": "evenhand.toml",
    "lexicon": "lexicon (TOML)",
    "csv": "rows: CSV, TSV, packed",
    "json": "rows: JSON",
    "jsonl": "rows: JSON lines",
    "parquet": "rows: Parquet",
    "texts": "texts",
    "vectors": "word vectors",
    "skops": "model: skops",
    "onnx": "model: ONNX",
    "pickle": "model: pickle, joblib",
    "folder": "model: Hugging Face folder",
    "run": "run directory",
    "bundle": "bundle",
    "cases": "cases of the pytest plugin",
}


def limits() -> str:
    """Lay out all limits."""
    rows = [[f"`{name}`", f"{each.most:,}", each.meaning] for name, each in LIMITS.items()]
    return table(["", "default", "of what"], rows).replace("---: |\n", "--- |\n", 1)


def measured(result: dict[str, Any]) -> str:
    """Lay out what hostile files cost, by kind and one by one."""
    kinds = {name: each for name, each in result["kinds"].items() if each["files"]}
    files = [file for each in kinds.values() for file in each["files"]]
    held = sum(
        file["ended"] == "refused" and file["seconds"] <= result["seconds"] and file["mb"] <= result["mb"]
        for file in files
    )
    ran = sum(each["ran"] for each in kinds.values())
    summary = table(
        ["", "hostile files", "most CPU s", "most MB", "harmless: CPU s", "harmless: MB"],
        [
            [
                KINDS[name],
                str(len(each["files"])),
                f"{max(file['seconds'] for file in each['files']):.2f}",
                f"{max(file['mb'] for file in each['files']):.0f}",
                f"{each['seconds']:.2f}",
                f"{each['mb']:.0f}",
            ]
            for name, each in kinds.items()
        ],
    )
    listed = table(
        ["", "CPU s", "MB"],
        [
            [f"{KINDS[name]}: {file['name']}", f"{file['seconds']:.2f}", f"{file['mb']:.0f}"]
            for name, each in kinds.items()
            for file in each["files"]
        ],
    )
    machine = result["machine"]
    return "\n\n".join(
        [
            f"{held} of {len(files)} hostile files were refused within {result['seconds']} CPU seconds and "
            f"{result['mb']:.0f} MB more than opening a harmless file of their kind; {ran} of them ran code. The "
            'columns "most" show the worst file of each kind, compared with a harmless one and including child '
            "processes.",
            summary,
            f"Opening a harmless .skops file in a new process takes {result['skops']['seconds']:.1f} CPU seconds and "
            f"{result['skops']['mb']:.0f} MB, almost all of it for scikit-learn, SciPy and pandas.",
            f"Measured on {machine['cores']} cores ({machine['processor']}), Python {machine['python']}, by "
            "`python -m benchmarks.hostile_files`.",
            f"<details><summary>All files</summary>\n\n{listed}\n\n</details>",
        ]
    )


def page(text: str, result: dict[str, Any]) -> str:
    """Put both parts into the page, between their marks."""
    for name, part in (("limits", limits()), ("measured", measured(result))):
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        assert mark.search(text), f"the page has no place for {name}"
        text = mark.sub(lambda found, part=part: f"{found[1]}\n{part}\n\n{found[2]}", text)
    assert PREFIX in text
    return text
