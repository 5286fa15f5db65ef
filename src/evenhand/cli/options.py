"""The options that commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Texts = list[str] | None

ConfigFile = Annotated[
    Path | None, Argument(metavar="CONFIG", help="A file that 'evenhand init' wrote; options override it.")
]
DataFile = Annotated[Path, Argument(metavar="DATA", help="Real rows: .csv, .tsv, .parquet, .json or .jsonl.")]
RunDirectory = Annotated[Path, Argument(metavar="DIR", help="The directory of a run.")]

Model = Annotated[
    str | None,
    Option("--model", metavar="SPEC", help="An .onnx, .skops, .joblib or .pkl file, or module:attribute."),
]
ReplayModel = Annotated[
    str, Option("--model", metavar="SPEC", help="An .onnx, .skops, .joblib or .pkl file, or module:attribute.")
]
Threshold = Annotated[float | None, Option(metavar="T", help="The decision threshold that is really in use.")]
Timeout = Annotated[float | None, Option(metavar="S", help="Give one model call up after S seconds.")]
Chunk = Annotated[int | None, Option(metavar="N", help="The most rows of one model call.")]
TrustPickle = Annotated[bool, Option("--trust-pickle", help="Unpickle the model, which runs the code in it.")]
Trust = Annotated[Texts, Option(metavar="TYPE", help="A type that a .skops file may create; repeatable.")]

Data = Annotated[str | None, Option(metavar="FILE", help="Real rows: .csv, .tsv, .parquet, .json or .jsonl.")]
Target = Annotated[str | None, Option(metavar="NAME", help="The column that the model predicts.")]
Protected = Annotated[Texts, Option(metavar="NAME", help="An attribute that must not matter; repeatable.")]
Exclude = Annotated[Texts, Option(metavar="NAME", help="A column that the model does not get; repeatable.")]
Space = Annotated[str | None, Option(metavar="FILE", help="The space as TOML; by default inferred from the data.")]

Strategy = Annotated[
    str | None, Option(metavar="NAME", help="The search, by default kosei; 'evenhand strategies' lists all.")
]
Settings = Annotated[Texts, Option("--set", metavar="NAME=VALUE", help="A setting of the search; repeatable.")]
Seed = Annotated[int | None, Option(metavar="N", help="Same seed, same findings; by default 0.")]
Gamma = Annotated[float | None, Option(metavar="G", help="Compare scores, not decisions: a difference above G counts.")]
Tests = Annotated[
    int | None, Option("--budget-tests", metavar="N", help="Stop after N tests; 100000 if no budget is given.")
]
Rows = Annotated[int | None, Option("--budget-rows", metavar="N", help="Ask the model at most N rows.")]
Seconds = Annotated[float | None, Option("--budget-seconds", metavar="S", help="Stop after S seconds.")]
Wanted = Annotated[int | None, Option("--budget-findings", metavar="N", help="Stop after N findings.")]

Directory = Annotated[str | None, Option(metavar="DIR", help="Keep the run here, to resume and replay it.")]
Resume = Annotated[bool, Option("--resume", help="Go on with the run in the directory; there must be one.")]
FailAbove = Annotated[str | None, Option(metavar="N", help="Exit with 1 if there are more than N findings.")]
Coverage = Annotated[
    bool, Option("--coverage", help="Say how much of what the model distinguishes the tests have come by.")
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
FindingsFile = Annotated[Path | None, Option("--findings", metavar="FILE", help="Write all findings as CSV.")]
Page = Annotated[Path | None, Option(metavar="FILE", help="Write a simple HTML page.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
