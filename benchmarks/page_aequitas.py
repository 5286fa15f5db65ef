"""The pages on AEQUITAS and KOSEI."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.aequitas import CLASSIFIERS, LIMITED, SEARCHES, TIMED
from benchmarks.chart import bars
from benchmarks.layout import paper, percent, spread, table, whole
from benchmarks.subjects import DATA
from benchmarks.verdicts import Verdict, verdict_table

Result = dict[str, Any]
TITLES = {"census": "Census by sex", "credit": "German credit by sex", "bank": "Bank by age"}
WALKS = (
    "Walks keep every step, as the algorithm that the paper prints (`stray=eh.Aequitas.PRINTED`). *Program* walks keep "
    "a step that leaves discrimination with a probability of 0.368 (`stray=eh.Aequitas.PROGRAM`), as the program "
    "published with the paper does inside SciPy's basin hopping; evenhand's *default* keeps none (`stray=0`)."
)


def aequitas(result: Result, repairs: Result, papers: Result) -> str:
    """Write AEQUITAS's page."""
    s = result["settings"]
    return paper(
        "AEQUITAS",
        "Udeshi, Arora and Chattopadhyay, *Automated directed fairness testing*, ASE 2018, on Census in the papers' "
        f"coding, by sex. The paper's classifiers are not published, so these are our own: forests of 20 trees, an MLP "
        "(30, 20, 15, 10, 5), an SVM with an RBF kernel on 8,000 rows, a voting ensemble of forest and tree, and a "
        "linear SVM whose selection rates by sex are equalised, for its fair SVM. Figures 1, 3 and 4 and tables 1 and "
        f"2 have no results. {WALKS}",
        "aequitas repairs/aequitas",
        result,
        "## Verdicts",
        verdict_table(aequitas_verdicts(result, repairs)),
        "## Table 3: success",
        f"{s['tests']:,} tests ({s['slow_tests']:,} for the SVM), of which {s['samples']:,} ({s['slow_samples']:,}) "
        f"are the random individuals that walks start from; {s['seeds']} seeds. Success is the share of unique tests "
        "that are findings, in per cent; ours / the paper's.",
        _success(result, papers["aequitas"]),
        "## Table 4: time",
        f"CPU seconds to {s['findings']:,} findings / the paper's seconds. A search is stopped after "
        f"{s['patience']:g} CPU seconds.",
        _times(result, papers["aequitas"]),
        "## Figure 5: findings of the fair SVM",
        _growth(result),
        "## Figure 2: chance and estimate",
        _estimate(result),
    )


def _key(name: str, search: str) -> str:
    return f"census/{name}/{search}"


def _success(result: Result, theirs: Result) -> str:
    rows = []
    for name in CLASSIFIERS:
        line = [name]
        for search in SEARCHES:
            one = result["equal"].get(f"{name}/{search}")
            said = theirs.get(_key(name, search))
            line.append(
                (spread(one["success"], 100) if one else "-") + (f" / {said['success_percent']:g}" if said else "")
            )
        if any(cell != "-" for cell in line[1:]):
            rows.append(line)
    return table(["model", *SEARCHES], rows)


def _times(result: Result, theirs: Result) -> str:
    rows = []
    for name in CLASSIFIERS:
        line = [name]
        for search in TIMED:
            one, said = result["until"].get(f"{name}/{search}"), theirs[_key(name, search)]["seconds_to_10000"]
            ours = "-" if one is None else f"{one['seconds']:.2g}"
            if one and not one["reached"]:
                ours = f"stopped at {whole(one['findings'])}"
            line.append(f"{ours} / {whole(said)}")
        rows.append(line)
    return table(["model", *TIMED], rows)


def _growth(result: Result) -> str:
    known = {search: result["growth"][search] for search in TIMED if search in result["growth"]}
    if not known:
        return "Not measured yet."
    tests = next(iter(known.values()))["tests"]
    rows = [[search, *(whole(found) for found in one["findings"])] for search, one in known.items()]
    return table(["search", *(f"{n:,} tests" for n in tests)], rows)


def _estimate(result: Result) -> str:
    one = result["estimate"].get("fair SVM")
    if one is None:
        return "Not measured yet."
    experiments = result["settings"]["experiments"]
    means = ", ".join(f"{100 * mean:.3f}% after {n}" for n, mean in zip(experiments, one["means"], strict=True))
    chance = ", ".join(
        f"{percent(share)}% in {n:,}" for n, share in zip(one["iterations"], one["found_by"], strict=True)
    )
    return (
        f"The mean of experiments with {result['settings']['size']:,} random individuals each: {means}. How often "
        f"random tests have found something: {chance}."
    )


def aequitas_verdicts(result: Result, repairs: Result) -> list[Verdict]:
    """Judge each table and figure with results."""
    return [
        *_figure_2(result),
        _figure_5(result),
        *_table_3(result),
        *_table_4(result),
        Verdict(
            "table 5, before", "3.86, 0.33, 0.39, 8.84, 0.48 and 7.73% of uniform individuals",
            "our classifiers: see [estimates](estimates.md)", None,
            "the rates are those of classifiers that are not published; and the printed intervals are up to ten times "
            "as wide as 400 experiments of 1,000 give",
        ),
        _table_5(repairs),
    ]  # fmt: skip


def _figure_2(result: Result) -> list[Verdict]:
    one = result["estimate"].get("fair SVM")
    if one is None:
        return [Verdict(f"figure 2{part}", "", "", None, missing=True) for part in "ab"]
    half, last = one["means"][-2:]
    return [
        Verdict(
            "figure 2a", "the chance of having found something grows to 1 with the tests",
            f"{percent(one['found_by'][0])}% after {one['iterations'][0]} random tests, "
            f"{percent(one['found_by'][-1])}% after {one['iterations'][-1]}",
            one["found_by"][-1] > 0.95 and one["found_by"] == sorted(one["found_by"]),
        ),
        Verdict(
            "figure 2b", "the estimate settles within 400 experiments of 1,000",
            f"between {result['settings']['experiments'][-2]} and {result['settings']['experiments'][-1]} it "
            "changes by "
            f"{100 * abs(last / half - 1):.1f}%",
            abs(last / half - 1) < 0.05,
        ),
    ]  # fmt: skip


def _figure_5(result: Result) -> Verdict:
    known = [result["growth"].get(search) for search in TIMED]
    claim = "on the fair SVM, full finds more than semi, semi more than random walks, and these more than random tests"
    if not all(known):
        return Verdict("figure 5", claim, "", None, missing=True)
    last = [one["findings"][-1] for one in known if one]
    return Verdict(
        "figure 5", claim, ", ".join(f"{name} {whole(n)}" for name, n in zip(TIMED, last, strict=True)),
        last == sorted(last) and len(set(last)) == len(last),
        "walks find many times as many as random tests; the three kinds of walks hardly differ",
    )  # fmt: skip


def _rates(result: Result) -> dict[str, list[float]]:
    """Give the success rates of the four searches of table 3, where all of them were measured."""
    every = {
        name: [result["equal"].get(f"{name}/{search}", {}).get("success", [None])[0] for search in TIMED]
        for name in CLASSIFIERS
    }
    return {name: rates for name, rates in every.items() if None not in rates}


def _table_3(result: Result) -> list[Verdict]:
    rates = _rates(result)
    first = "AEQUITAS finds more than random tests with each classifier, 9.6 times as many on average, at most 20.4"
    second = "full is better than semi by 29.5% on average, and semi than random walks by 46.7%, in 6 of 6"
    if not rates:
        return [Verdict("table 3", claim, "", None, missing=True) for claim in (first, second)]
    times = [one[3] / one[0] for one in rates.values() if one[0]]
    more = sum(min(one[1:]) > one[0] for one in rates.values())
    ordered = sum(one[1] < one[2] < one[3] for one in rates.values())
    full, semi = (statistics.fmean(100 * (one[k] / one[k - 1] - 1) for one in rates.values()) for k in (3, 2))
    of = f"of {len(rates)}"
    return [
        Verdict(
            "table 3, random tests", first,
            f"more in {more} {of}; full {statistics.fmean(times):.1f} times as many, at most {max(times):.1f}",
            more == len(rates) and statistics.fmean(times) >= 3,
        ),
        Verdict(
            "table 3, order", second, f"by {full:.1f}% and {semi:.1f}%; in this order in {ordered} {of}",
            ordered >= len(rates) - 1 and min(full, semi) > 5,
            "with steps of 0.001 the probabilities hardly move in so many tests, so the three kinds of walks are close",
        ),
    ]  # fmt: skip


def _table_4(result: Result) -> list[Verdict]:
    known = {
        name: [result["until"].get(f"{name}/{search}") for search in TIMED]
        for name in CLASSIFIERS
    }  # fmt: skip
    complete: dict[str, list[Any]] = {name: found for name, found in known.items() if None not in found}
    claim = "walks reach 10,000 findings sooner than random tests: full in 16.7% of their time on average"
    if not complete:
        return [Verdict("table 4", claim, "", None, missing=True)]
    sooner = [
        name for name, found in complete.items()
        if found[3]["reached"] and (not found[0]["reached"] or found[3]["seconds"] < found[0]["seconds"])
    ]  # fmt: skip
    return [
        Verdict(
            "table 4", claim, f"full is sooner in {len(sooner)} of {len(complete)}: {', '.join(sooner) or 'none'}",
            len(sooner) == len(complete),
            "here random tests are judged in large blocks, 16,384 at a time, and walks make one step per call; the "
            "paper's "
            "programs ask about one individual at a time. Where a model answers slowly, what counts is success per "
            "test "
            "(table 3), and walks are sooner",
        )
    ]  # fmt: skip


def _table_5(repairs: Result) -> Verdict:
    from benchmarks.page_repairs import retraining

    claim = "retraining lowers the rate by 43.2% on average, by 94.36% at best"
    return retraining(repairs["aequitas"], claim)


def kosei(result: Result, papers: Result) -> str:
    """Write KOSEI's page."""
    s = result["settings"]
    return paper(
        "KOSEI",
        "Sano, Kitamura and Takada, *An efficient discrimination discovery method for fairness testing*, SEKE 2022: "
        "its one table of results, and the averages in it. The classifiers are our own.",
        "aequitas/limits",
        result,
        "## Verdicts",
        verdict_table(kosei_verdicts(result, papers)),
        "## Table I",
        f"{s['limit']:,} random individuals, then {s['limit']:,} steps (AEQUITAS) or judged tests (KOSEI) for each "
        f"seed found, with no other budget; means of {s['limited_seeds']} runs with their standard deviation / the "
        "paper's figures. Repeats: the share of proposed tests that were judged before; evenhand does not ask them "
        "again, AEQUITAS's program does.",
        _limits(result, papers["kosei"]),
    )


def _pairs(result: Result) -> dict[str, tuple[Result, Result]]:
    """Give AEQUITAS's and KOSEI's answers where both were measured."""
    keys = [f"{data}/{name}" for data in DATA for name in LIMITED]
    found = {
        key: tuple(result["limits"].get(f"{key}/{search}") for search in ("aequitas full", "kosei")) for key in keys
    }
    return {key: pair for key, pair in found.items() if None not in pair}  # type: ignore[misc]


def _limits(result: Result, theirs: Result) -> str:
    rows = []
    for key, pair in _pairs(result).items():
        data, model = key.split("/")
        for search, one in zip(("aequitas full", "kosei"), pair, strict=True):
            said = theirs[f"{key}/{search}"]
            rows.append(
                [
                    f"{TITLES[data]}, {model}",
                    search,
                    f"{spread(one['tests'])} / {whole(said['tests'])}",
                    f"{spread(one['findings'])} / {whole(said['findings'])}",
                    f"{spread(one['success'], 100)} / {said['precision']:g}",
                    f"{one['seconds'][0]:.2g} / {said['seconds']:,g}",
                    f"{percent(one['repeats'])} / {said.get('duplicates_percent', '-')}",
                ]
            )
    return table(["subject", "search", "tests", "findings", "success %", "seconds", "repeats %"], rows)


def kosei_verdicts(result: Result, papers: Result) -> list[Verdict]:
    """Judge each column of the table by its average."""
    pairs, means = _pairs(result), papers["kosei_averages"]
    claims = [
        ("table I, findings", f"{means['times']:.1f} times as many findings as AEQUITAS"),
        ("table I, time", f"{means['seconds_percent']}% of AEQUITAS's time on average, 13.3 times as fast"),
        ("table I, precision", f"precision {means['precision']}%, AEQUITAS's {means['precision_aequitas']}%"),
        (
            "table I, duplicates",
            f"{means['duplicates_percent']}% of AEQUITAS's evaluations are repeated, none of KOSEI's",
        ),
    ]
    if not pairs:
        return [Verdict(where, claim, "", None, missing=True) for where, claim in claims]
    times = [one["findings"][0] / max(1.0, other["findings"][0]) for other, one in pairs.values()]
    paper_times = [
        papers["kosei"][f"{key}/kosei"]["findings"] / papers["kosei"][f"{key}/aequitas full"]["findings"]
        for key in pairs
    ]
    share = [100 * one["seconds"][0] / max(1e-9, other["seconds"][0]) for other, one in pairs.values()]
    ours, theirs = (100 * statistics.fmean(pair[k]["success"][0] for pair in pairs.values()) for k in (1, 0))
    repeats = [100 * other["repeats"] for other, _ in pairs.values()]
    found = (
        f"{statistics.fmean(times):.1f} times, from {min(times):.1f} to {max(times):.1f}; more in "
        f"{sum(t > 1 for t in times)} of {len(times)}"
    )
    return [
        Verdict(
            *claims[0], found, statistics.fmean(times) >= 0.5 * statistics.fmean(paper_times),
            "AEQUITAS finds more here than in the paper, where 99% of its steps repeat an evaluation: without "
            "these its "
            "walks visit that many more individuals. The order is the paper's",
        ),
        Verdict(
            *claims[1], f"{statistics.fmean(share):.1f}% on average; faster in {sum(s < 100 for s in share)} of "
            f"{len(share)}", statistics.fmean(share) <= 15,
            "all walks of AEQUITAS advance together here, and ask the model in blocks as KOSEI does; in its program "
            "each asks about one individual at a time. The order is the paper's",
        ),
        Verdict(
            *claims[2], f"{ours:.1f}% and {theirs:.1f}%",
            ours > 2 * theirs and abs(ours - means["precision"]) < 15,
            "KOSEI's is the higher in all rows, by a smaller factor",
        ),
        Verdict(
            *claims[3],
            f"{statistics.fmean(repeats):.1f}% of the tests that AEQUITAS proposes were judged before, without those "
            "inside basin hopping", None,
            "the figure is one of its program's, whose basin hopping evaluates a point again and again; evenhand "
            "has no "
            "such loop, and asks nothing twice",
        ),
    ]  # fmt: skip


def charts(result: Result, papers: Result) -> dict[str, str]:
    """Draw what the summary shows of both papers."""
    first = []
    for name in CLASSIFIERS:
        ours = [result["equal"].get(f"{name}/aequitas full{walk}") for walk in (", program", "")]
        rates = [100 * one["success"][0] if one else None for one in ours]
        first.append((name, [papers["aequitas"][_key(name, "aequitas full")]["success_percent"], *rates]))
    second = [
        (f"{TITLES[key.split('/')[0]]}, {key.split('/')[1]}",
         (papers["kosei"][f"{key}/kosei"]["findings"] / papers["kosei"][f"{key}/aequitas full"]["findings"],
          one["findings"][0] / max(1.0, other["findings"][0])))
        for key, (other, one) in _pairs(result).items()
    ]  # fmt: skip
    return {
        "aequitas": bars(
            "AEQUITAS, fully directed: findings per 100 tests, Census by sex",
            ("paper", "here, the program's walk", "here, as printed"),
            first,
        ),
        "kosei": bars("KOSEI: times as many findings as AEQUITAS", ("paper", "here"), second, log=True),
    }
