"""The command ``evenhand demo``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evenhand._format import high, low, people, people_high, people_low, percent, round_number
from evenhand.cli.output import console, emit, fill, show_pairs, show_table
from evenhand.config.file import Config
from evenhand.demo import DEMOS, Audited, losers
from evenhand.demo import demo as run_demo
from evenhand.reports.report import ReportOptions, report
from evenhand.reports.wording import headline

if TYPE_CHECKING:
    from evenhand.runs.pair_sentences import Pair
    from evenhand.runs.run import Run

Shown = tuple[list[dict[str, Any]], list[Path]]
"""The audits as plain values, and the reports."""
SAMPLES = 10_000
"""Individuals per estimate of a report: half of the default, so that the demo is quick."""


def demo(config: Config) -> None:
    """Run an audit, end to end, and print it."""
    wanted = config.demo
    directory = None if wanted.no_report else Path(wanted.directory)
    out = Console(quiet=True) if config.call.json else console()
    parts, paths = (show_texts if wanted.text else show_people)(config.audit.seed, directory, out)
    if config.call.json:
        emit({"audits": parts, "reports": [str(path) for path in paths]})
        return
    for path in paths:
        fill(f"Full report: {path}", out)


def show_people(seed: int, directory: Path | None, out: Console) -> Shown:
    """Audit the models of two data sets; write reports if a directory is given."""
    parts, written = list[dict[str, Any]](), list[Path]()
    for which in DEMOS:
        out.print(which.title, style="bold")
        fill(which.note, out)
        done = run_demo(which, seed)
        run, baseline = done.run, done.baseline
        out.print()
        for line in first_screen(done):
            fill(line, out)
        out.print()
        show_pairs(done.pairs, out)
        out.print()
        fill(
            "What next: the report shows where it happens and how to check it; evenhand repair makes such a model "
            f"fairer. ({run.tests:,} tests found {run.found:,} people, random testing {baseline.found:,}; the model "
            f"has {percent(done.accuracy)} accuracy on people it was not trained on.)",
            out,
        )
        out.print()
        parts.append(_values(which.name, run, done.pairs, done.accuracy) | {"random_testing": baseline.found})
        if directory is not None:
            with out.status("writing the report"):
                path = report(
                    run,
                    directory / f"{which.name}.html",
                    data=done.data,
                    favourable=which.favourable,
                    y=done.target,
                    samples=SAMPLES,
                    options=ReportOptions(which.title, which.note, others=[baseline]),
                )
            written.append(path)
    return parts, written


def _values(name: str, run: Run, pairs: Sequence[Pair], accuracy: float) -> dict[str, Any]:
    """Return an audit as plain values."""
    shown = {"pairs": [pair.to_dict() for pair in pairs], "accuracy": accuracy}
    return {"name": name, "verdict": headline(run), **run.to_dict(), **shown}


def first_screen(done: Audited) -> list[str]:
    """Write how many people are affected, and who is disadvantaged."""
    run, name = done.run, done.run.space.protected[0]
    one = run.estimate["data"]
    of = round_number(percent(one.rate), low(one.low), high(one.high))
    who, share = losers(run, done.demo.outcome)
    return [
        f"How many: about {people(one.rate, of)} people like those in the data would get a different decision if only "
        f"their {name} were different (95% CI {people_low(one.low, of)} to {people_high(one.high, of)}).",
        f"Who loses: in {percent(share)} of the findings, the person with {name} {who} does not get "
        f'"{done.demo.outcome}" and the counterpart does.',
        "Three people:",
    ]


def show_texts(seed: int, directory: Path | None, out: Console) -> Shown:
    """Audit and repair a neural net that reads comments; write reports if a directory is given."""
    from evenhand.demo.text import NOTE, SEARCH, TITLE, text_demo

    done = text_demo(seed)
    before, after = done.before, done.after
    planted = " or ".join(done.data.planted)
    note = NOTE.format(planted=planted)
    out.print(TITLE, style="bold")
    fill(note, out)
    out.print()
    fill(
        f"The net has {percent(before.accuracy)} accuracy on comments it was not trained on. In "
        f"{before.run.tests:,} tests, {SEARCH} finds {before.run.found:,} comments whose decision changes "
        f"if only a religion is replaced by another. In {percent(done.planted)} of them exactly one of the two "
        f"was planted ({planted}):",
        out,
    )
    head = ("religion", "planted", "toxic with it", "toxic with the other")
    rows = [(one.name, "yes" if one.planted else "", f"{one.toxic:,}", f"{one.other:,}") for one in done.identities]
    show_table(head, rows, out, right=(2, 3))
    fill("Three of the pairs; swapped terms in [brackets], earlier changes in {braces}:", out)
    out.print()
    show_pairs(before.pairs, out)
    repaired = (
        "Repair: certified training bounds the net's output over all terms, so that the decision stays the same. "
        f"The same search now finds {after.run.found:,} in {after.run.tests:,} tests. For "
        f"{percent(after.proven)} of the comments with a term it is proven that no swap changes the decision; before, "
        f"for {percent(before.proven)}. Accuracy goes from {percent(before.accuracy)} to {percent(after.accuracy)}: "
        "two comments in five have no tone, and guessing those by religion is often right here, because these "
        "comments have the same bias."
    )
    out.print()
    fill(repaired, out)
    sides = (("before", before), ("after", after))
    parts = [_values(name, net.run, net.pairs, net.accuracy) | {"proven": net.proven} for name, net in sides]
    if directory is None:
        return parts, []
    return parts, [
        report(before.run, directory / "text.html", options=ReportOptions(TITLE, note)),
        report(after.run, directory / "text-repaired.html", options=ReportOptions("The same net, repaired", repaired)),
    ]
