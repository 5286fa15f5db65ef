"""What a test costs as the space grows: more attributes, more values, more protected attributes.

The model costs next to nothing, so this is the time of evenhand itself: CPU time per individual that the search
proposed, judged or found to be a repeat, in a run of 100,000 model rows; the least of seven runs counts, because other
programs on the machine only ever add to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short

ATTRIBUTES, VALUES, PROTECTED = (10, 20, 50, 100, 200), (2, 10, 100, 1_000, 10_000), (1, 2, 3, 4)
USUAL = {"attributes": 20, "values": 10, "protected": 1}
SEARCHES = ("themis", "kosei")
ROUNDS = 7


def space_of(attributes: int, values: int, protected: int) -> eh.Space:
    """Make a space of integers; protected attributes have two values."""
    names = [f"a{i}" for i in range(attributes)]
    kinds = [eh.Integer(name, 0, 1 if i < protected else values - 1) for i, name in enumerate(names)]
    return eh.Space(kinds, protected=names[:protected])


def by_first(X: Any) -> Any:
    """Decide by one protected attribute, for one individual in eight of those with an odd sum."""
    return (X[:, 0] > 0) & (X[:, -8:].sum(axis=1) % 8 == 1)


def cost(search: str, rows: int, **sizes: int) -> dict[str, Any]:
    """Measure one search in one space."""
    space, model = space_of(**sizes), eh.wrap(by_first, input="array")

    def audit() -> eh.Run:
        return eh.audit(model, space, search, eh.Budget(rows=rows), seed=0)

    audit()
    times = []
    for _ in range(ROUNDS):
        run, seconds = cpu(audit)
        times.append(seconds)
    proposed, seconds = run.tests + run.counts["repeats"], min(times)
    return {
        **sizes, "search": search, "rows": run.rows, "tests": run.tests, "repeats": run.counts["repeats"],
        "ns": short(1e9 * seconds / proposed),
    }  # fmt: skip


def measure(rows: int) -> dict[str, Any]:
    """Vary one size at a time."""
    result: dict[str, Any] = {"machine": facts(), "usual": USUAL, "rows": rows}
    for size, every in (("attributes", ATTRIBUTES), ("values", VALUES), ("protected", PROTECTED)):
        result[size] = []
        for value in every:
            for search in SEARCHES:
                row = cost(search, rows, **{**USUAL, size: value})
                result[size].append(row)
                print(f"{size} {value:>6,} {search:7} {row['ns']:8.0f} ns an individual", flush=True)
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "growth.json")
    options.add_argument("--rows", type=int, default=100_000)
    given = options.parse_args(arguments)
    save(given.out, measure(given.rows))


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
