"""Whether the regions reported are the rules that were planted, and whether fair models have none.

A planted model decides by a complicated function of the free attributes, except for a share of the individuals that
meet a rule, which it decides by sex. Spaces, rules and functions are random. A case is right if the first region is the
rule: the same attributes, the same thresholds, the same values, and nothing more. Of two rules, the first two regions
must be those. Without a rule there must be no region, also where a share of all individuals alike is decided by sex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import evenhand as eh
from benchmarks.machine import cpu, facts, parser, save, short
from evenhand._rng import mix
from evenhand.explanations.rule_learning import Codes, Rule

CASES, FAIR = 20, 100
SUPPORTS = (0.01, 0.05, 0.2)
KINDS: dict[str, tuple[int, float, float, tuple[float, ...]]] = {
    "everyone in the rule, no one elsewhere": (1, 1.0, 0.0, SUPPORTS),
    "40% in the rule, no one elsewhere": (1, 0.4, 0.0, SUPPORTS),
    "31% in the rule, 2% elsewhere": (1, 0.31, 0.02, SUPPORTS),
    "a rule with 0.1% support": (1, 1.0, 0.0, (0.001,)),
    "two rules": (2, 1.0, 0.0, (0.05, 0.1)),
}
"""How many rules, the rates inside and outside, and the supports, about."""
SEARCHES = ("themis", "kosei")


@dataclass
class Planted(eh.Model):
    """Decides by sex for a share of those who meet a rule, and for a share of the others."""

    space: eh.Space
    rules: list[Rule]
    inside: float
    outside: float
    salt: int

    name, input = "planted", "array"

    def labels(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Decide."""
        steps = [getattr(attribute, "step", 1) for attribute in self.space.attributes]
        codes = np.rint(X / steps).astype(np.int64)
        free = codes[:, :-1]
        weights = np.random.default_rng(self.salt).normal(size=free.shape[1]) * 6 / self.space.sizes[:-1]
        fair = np.sin(free @ weights) + np.cos(2 * free[:, 0] * weights[0]) > 0
        met = np.logical_or.reduce([rule.inside(codes) for rule in self.rules] or [np.zeros(len(X), dtype=bool)])
        return np.where(draw(free, self.salt) < np.where(met, self.inside, self.outside), codes[:, -1] == 1, fair)


def draw(free: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.float64]:
    """Give each combination of free values a number from 0 to 1 that looks random."""
    key = np.full(len(free), salt, dtype=np.uint64)
    for column in free.T:
        key = mix(key + column.astype(np.uint64) + np.uint64(1))
    return (key >> np.uint64(11)).astype(np.float64) / 2**53


def space_of(rng: np.random.Generator) -> eh.Space:
    """Make a space of five to nine free attributes of every kind."""
    makers = (
        lambda name: eh.Integer(name, 0, int(rng.integers(10, 100))),
        lambda name: eh.Nominal(name, range(int(rng.integers(3, 15)))),
        lambda name: eh.Real(name, 0, 1, step=float(rng.choice([0.01, 0.05, 0.001]))),
        lambda name: eh.Ordinal(name, range(int(rng.integers(3, 7)))),
        lambda name: eh.Integer(name, 0, 1),
    )
    kinds = rng.integers(len(makers), size=int(rng.integers(5, 10)))
    attributes = [makers[kind](f"x{i}") for i, kind in enumerate(kinds)]
    return eh.Space([*attributes, eh.Integer("sex", 0, 1)], protected="sex")


def planted_rule(space: eh.Space, rng: np.random.Generator, support: float) -> Rule | None:
    """Make a rule of one to three conditions, of a support that is about right."""
    for _ in range(200):
        rule, conditions = Rule(space), int(rng.integers(1, 4))
        for column in rng.choice(space.free_columns, size=conditions, replace=False).tolist():
            share = support ** (1 / conditions) * math.exp(rng.normal() * 0.3)
            rule = rule.where(column, _condition(space, column, share, rng))
        if len(rule.conditions) == conditions and support / 2 <= support_of(rule) <= 2 * support:
            return rule
    return None


def _condition(space: eh.Space, column: int, share: float, rng: np.random.Generator) -> Codes:
    size = int(space.sizes[column])
    width = int(np.clip(round(share * size), 1, size - 1))
    if not space.ordered[column]:
        return tuple(sorted(rng.choice(size, width, replace=False).tolist()))
    start = int(rng.choice([0, size - width, rng.integers(size - width + 1)]))
    return start, start + width - 1


def support_of(rule: Rule) -> float:
    """Count the share of individuals who meet a rule, of a space without constraints."""
    space = rule.space
    counts = [codes[1] - codes[0] + 1 if space.ordered[j] else len(codes) for j, codes in rule.conditions]
    return math.prod(n / int(space.sizes[j]) for n, (j, _) in zip(counts, rule.conditions, strict=True))


def planted(kind: str, number: int) -> Planted:
    """Make the model of one case."""
    count, inside, outside, supports = KINDS[kind]
    for attempt in range(100):
        rng = np.random.default_rng([list(KINDS).index(kind), number, attempt])
        space = space_of(rng)
        rules = [planted_rule(space, rng, float(rng.choice(supports))) for _ in range(count)]
        found = [rule for rule in rules if rule is not None]
        if len(found) == count and not (count == 2 and overlaps(*found)):
            return Planted(space, found, inside, outside, number)
    raise AssertionError("no such rule in a hundred spaces")


def overlaps(one: Rule, other: Rule) -> bool:
    """Whether a good part of either rule is in the other too, or both are one rule cut in two."""
    columns = {j for j, _ in one.conditions}
    return len(columns & {j for j, _ in other.conditions}) == len(columns) or len(columns) != len(other.conditions)


def fair(number: int) -> Planted:
    """Make a model without a rule: a fair one, or every second time one that is as unfair everywhere."""
    rng = np.random.default_rng([99, number])
    return Planted(space_of(rng), [], 0.0, 0.02 if number % 2 else 0.0, number)


def regions_of(model: Planted, number: int, tests: int = 2_000) -> eh.results.Regions:
    """Audit a model and ask for its regions."""
    run = eh.audit(model, model.space, SEARCHES[number // 2 % 2], eh.Budget(tests=tests), seed=number)
    return eh.regions(run, seed=number)


def right(model: Planted, found: eh.results.Regions) -> bool:
    """Tell whether the first regions are the planted rules, none of them reported before."""
    return {region.rule for region in found[: len(model.rules)]} == set(model.rules)


def measure(cases: int, many: int) -> dict[str, Any]:
    """Plant rules, and none."""
    result: dict[str, Any] = {"machine": facts(), "settings": {"cases": cases, "fair": many}, "planted": {}}
    for kind in KINDS:
        rows, spent, exact, more, wrong = [], 0.0, 0, 0, []
        for number in range(cases):
            model = planted(kind, number)
            found, seconds = cpu(lambda model=model, number=number: regions_of(model, number))
            spent, more = spent + seconds, more + max(0, len(found) - len(model.rules))
            rows.append(found.rows)
            exact += right(model, found)
            if not right(model, found):
                wrong.append([[rule.words for rule in model.rules], [region.words for region in found]])
                print(kind, number, wrong[-1], flush=True)
        result["planted"][kind] = {
            "right": exact,
            "cases": cases,
            "more": more,
            "rows": short(float(np.mean(rows))),
            "cpu_seconds": short(spent / cases),
            "wrong": wrong,
        }
        print(kind, result["planted"][kind], flush=True)
    claims = [len(regions_of(fair(number), number)) for number in range(many)]
    result["fair"] = {"without": sum(not claim for claim in claims[::2]), "cases": len(claims[::2])}
    result["even"] = {"without": sum(not claim for claim in claims[1::2]), "cases": len(claims[1::2])}
    print(result["fair"], result["even"], flush=True)
    result["load_after"] = facts()["load"]
    return result


def main(arguments: list[str] | None = None) -> None:
    options = parser(__doc__, "regions.json")
    options.add_argument("--cases", type=int, default=CASES, help="planted models of each kind")
    options.add_argument("--fair", type=int, default=FAIR, help="models without a rule")
    given = options.parse_args(arguments)
    save(given.out, measure(given.cases, given.fair))


if __name__ == "__main__":
    main()
