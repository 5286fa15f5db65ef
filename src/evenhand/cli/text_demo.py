"""What ``evenhand demo --text`` prints, and its reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenhand._format import percent

if TYPE_CHECKING:
    from rich.console import Console

    from evenhand.demo.text_demo import TextAudited


def show_texts(seed: int, directory: Path | None) -> list[Path]:
    """Do the demo of texts, print it, and write its reports where a directory is given."""
    from evenhand.cli import summary
    from evenhand.cli.progress import progress
    from evenhand.demo.text_demo import NOTE, TITLE, search_of_texts, text_demo
    from evenhand.reports.making import report

    out = summary.console()
    with progress(wanted=True) as status:
        done = text_demo(seed, progress=status)
    before, after = done.before, done.after
    planted = " or ".join(done.data.planted)
    out.print(TITLE, style="bold")
    out.print(NOTE.format(planted=planted))
    out.print(
        f"\nThe net is right on {percent(before.accuracy)} of comments that it was not trained on. In "
        f"{before.run.tests:,} tests, {search_of_texts()} finds {before.run.found:,} comments whose decision changes "
        f"if only a religion is swapped for another. In {percent(done.planted)} of them exactly one of the two "
        f"was planted ({planted}):"
    )
    _show_blame(done, out)
    out.print("Three of the pairs; what was swapped in [brackets], what was changed before in {braces}:\n")
    summary.show_pairs(before.pairs, out)
    repaired = (
        "The repair: the net is trained on so that bounds on what it says, whatever term stands there, leave the "
        f"decision as it is. The same search now finds {after.run.found:,} in {after.run.tests:,} tests. It is proven "
        f"of {percent(after.proven)} of the comments with a term that no swap changes the decision; before, of "
        f"{percent(before.proven)}. Accuracy goes from {percent(before.accuracy)} to {percent(after.accuracy)}: two "
        "comments in five have no tone, and who guesses those by religion is often right here, for the bias is in "
        "these comments too."
    )
    out.print(f"\n{repaired}")
    if directory is None:
        return []
    note = NOTE.format(planted=planted)
    return [
        report(before.run, directory / "text.html", title=TITLE, note=note),
        report(after.run, directory / "text-repaired.html", title="The same net, repaired", note=repaired),
    ]


def _show_blame(done: TextAudited, out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("religion", "planted", "toxic with it", "toxic with the other", box=box.SIMPLE, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in done.blamed:
        table.add_row(Text(row.identity), "yes" if row.planted else "", f"{row.toxic:,}", f"{row.other:,}")
    out.print(table)
