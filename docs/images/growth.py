"""Draw the cost of larger spaces, from the benchmark's figures: ``python docs/images/growth.py [growth.svg]``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
RESULT = HERE.parent.parent / "benchmarks" / "results" / "growth.json"
AXES = {"attributes": "attributes", "values": "values of each attribute", "protected": "protected attributes"}


def main(out: Path) -> None:
    """Draw one panel for each size."""
    mpl.rcParams |= {"svg.hashsalt": "evenhand", "svg.fonttype": "none"}
    result = json.loads(RESULT.read_text())
    figure, panels = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
    for panel, (size, label) in zip(panels, AXES.items(), strict=True):
        for search in ("themis", "kosei"):
            rows = [row for row in result[size] if row["search"] == search]
            panel.plot([row[size] for row in rows], [row["ns"] for row in rows], marker="o", label=search)
        panel.set_xlabel(label)
        if size != "protected":
            panel.set_xscale("log")
        panel.set_yscale("log")
    panels[0].set_ylabel("CPU ns per individual")
    panels[0].legend()
    figure.savefig(out, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "growth.svg")
