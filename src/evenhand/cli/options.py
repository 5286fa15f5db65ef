"""The options that commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Texts = list[str] | None

ConfigFile = Annotated[
    Path | None, Argument(metavar="CONFIG", help="A file that 'evenhand init' wrote; options override it.")
]
ConfigOption = Annotated[
    Path | None, Option("--config", metavar="FILE", help="A file that 'evenhand init' wrote; options override it.")
]
DataFile = Annotated[Path, Argument(metavar="DATA", help="Real rows: .csv, .tsv, .parquet, .json or .jsonl.")]
RunDirectory = Annotated[Path, Argument(metavar="RUN", help="The directory of a run.")]
RunOrBundle = Annotated[Path, Argument(metavar="RUN", help="The directory of a run, or a bundle.")]
EarlierRun = Annotated[Path, Argument(metavar="RUN_A", help="The directory of the earlier run.")]
LaterRun = Annotated[Path, Argument(metavar="RUN_B", help="The directory of the later run.")]
Outputs = Annotated[
    list[Path], Argument(metavar="OUT...", help="Files to write: .json, .csv, .parquet, .xml, .sarif, .md.")
]

Model = Annotated[
    str | None,
    Option("--model", metavar="SPEC", help="An .onnx, .skops, .joblib or .pkl file, or module:attribute."),
]
ModelA = Annotated[
    str | None, Option("--model-a", metavar="SPEC", help="The earlier model; by default as the run has it noted.")
]
ModelB = Annotated[
    str | None, Option("--model-b", metavar="SPEC", help="The later model; by default as the run has it noted.")
]
ThresholdA = Annotated[float | None, Option("--threshold-a", metavar="T", help="The earlier decision threshold.")]
ThresholdB = Annotated[float | None, Option("--threshold-b", metavar="T", help="The later decision threshold.")]
Threshold = Annotated[float | None, Option(metavar="T", help="The decision threshold that is really in use.")]
Timeout = Annotated[float | None, Option(metavar="S", help="Give one model call up after S seconds.")]
Chunk = Annotated[int | None, Option(metavar="N", help="The most rows of one model call.")]
Confirm = Annotated[
    int | None, Option(metavar="N", help="Ask the model again about at most N findings; by default about all.")
]
TrustPickle = Annotated[bool, Option("--trust-pickle", help="Unpickle the model, which runs the code in it.")]
Trust = Annotated[Texts, Option(metavar="TYPE", help="A type that a .skops file may create; repeatable.")]

Data = Annotated[str | None, Option(metavar="FILE", help="Real rows: .csv, .tsv, .parquet, .json or .jsonl.")]
Target = Annotated[str | None, Option(metavar="NAME", help="The column that the model predicts.")]
Protected = Annotated[Texts, Option(metavar="NAME", help="An attribute that must not matter; repeatable.")]
ProtectedTerms = Annotated[
    Texts,
    Option(
        "--protected",
        metavar="NAME",
        help="An attribute that must not matter, or of texts a lexicon (religion) or its .toml file; repeatable.",
    ),
]
Exclude = Annotated[Texts, Option(metavar="NAME", help="A column that the model does not get; repeatable.")]
Missing = Annotated[
    str | None,
    Option(
        metavar="HOW",
        help="Rows without a protected value: drop leaves them out, group makes no value a group of its own.",
    ),
]
Space = Annotated[
    str | None,
    Option(metavar="SPEC", help="The space as TOML, or module:attribute; by default inferred from the data."),
]

TextFile = Annotated[
    str | None,
    Option("--texts", metavar="FILE", help="Texts instead of rows: .csv, .tsv, .jsonl, .json, .parquet, .txt."),
]
Column = Annotated[str | None, Option(metavar="NAME", help="The column that has the texts; by default text.")]
Encoding = Annotated[
    str | None, Option(metavar="NAME", help="How the file of texts is written, such as latin-1; by default utf-8.")
]
Similar = Annotated[
    str | None, Option(metavar="FILE", help="Word vectors, for similar words; by default those of the model.")
]
K = Annotated[int | None, Option("--k", metavar="N", help="How many similar words a word has; by default 10.")]
Occurrences = Annotated[
    str | None, Option(metavar="HOW", help="Replace 'each' occurrence of a term by itself (by default), or 'together'.")
]
Ambiguous = Annotated[
    str | None,
    Option(metavar="WHEN", help="When black is a term: 'context' (by default), 'always' or 'never'."),
]

Strategy = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="The search, by default kosei, of texts text-random; 'evenhand strategies' lists all; or module:Class.",
    ),
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
FindingsFile = Annotated[
    Path | None,
    Option("--findings", metavar="FILE", help="Write all findings: .csv, or another format by its ending."),
]
Page = Annotated[Path | None, Option(metavar="FILE", help="Write the report, one HTML file.")]
Format = Annotated[
    str | None, Option(metavar="NAME", help="json, csv, parquet, junit, sarif or markdown, whatever the ending.")
]
Most = Annotated[int | None, Option(metavar="N", help="How many findings JUnit and SARIF list; by default 1000.")]
Raw = Annotated[bool, Option("--raw", help="CSV: write cells as they are, also those that look like formulas.")]
Artifact = Annotated[str | None, Option(metavar="FILE", help="SARIF: the file at which results are shown.")]
ReplayList = Annotated[
    Path | None, Option("--list", metavar="FILE", help="Write all findings as CSV, with yes or no for each.")
]
Digest = Annotated[
    str | None, Option(metavar="SHA256", help="A bundle's digest as it was written down: any other is an error.")
]
ReplayData = Annotated[
    Path | None, Option("--data", metavar="FILE", help="The data rows, to compare with a bundle that left them out.")
]
ReportFile = Annotated[
    Path | None, Option("--output", metavar="FILE", help="The file to write; by default report.html.")
]
ReportModel = Annotated[
    str | None,
    Option("--model", metavar="SPEC", help="The run's model; by default as the run has it noted, if it runs no code."),
]
ReportData = Annotated[
    Path | None, Option("--data", metavar="FILE", help="Real rows; by default as the run has them noted.")
]
NoPairs = Annotated[bool, Option("--no-rows", help="Show no pairs: no person's values are in the file.")]
NoPairsOnPage = Annotated[bool, Option("--no-rows", help="Show no pairs on the page: no person's values are in it.")]
Title = Annotated[str | None, Option(metavar="TEXT", help="The heading; by default the model's name.")]
ShownCases = Annotated[int | None, Option("--cases", metavar="N", help="How many pairs to show; by default 4.")]
ReportSamples = Annotated[
    int | None,
    Option("--samples", metavar="N", help="Ask N individuals; by default 20000, fewer where the model is slow."),
]
BundleFile = Annotated[Path | None, Option("--output", metavar="FILE", help="The archive; by default RUN.zip here.")]
BundleModel = Annotated[
    Path | None, Option("--model", metavar="FILE", help="The model's file; by default as the run has it noted.")
]
BundleData = Annotated[
    Path | None, Option("--data", metavar="FILE", help="The data rows; by default as the run has them noted.")
]
NoRows = Annotated[bool, Option("--no-rows", help="Leave the data rows out and keep their hash.")]
FailOnNew = Annotated[bool, Option("--fail-on-new", help="Exit with 1 if there are new findings.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]

Population = Annotated[
    str | None, Option(metavar="WHOM", help="uniform (by default), data (the rows), or near (rows moved a few steps).")
]
Samples = Annotated[
    int | None, Option(metavar="N", help="Ask N individuals; by default 100000, and all rows of the data.")
]
HalfWidth = Annotated[
    float | None,
    Option("--half-width", metavar="W", help="Stop when the interval reaches no further than W to either side."),
]
StopSeconds = Annotated[float | None, Option("--seconds", metavar="S", help="Stop after S seconds.")]
Confidence = Annotated[float | None, Option(metavar="C", help="How sure to be; by default 0.95.")]
Interval = Annotated[str | None, Option(metavar="NAME", help="clopper-pearson, anytime or lln.")]
Experiments = Annotated[int | None, Option(metavar="K", help="How many experiments lln makes; by default 400.")]
Exact = Annotated[bool | None, Option("--exact/--sample", help="Ask everyone in the space, or a sample of it anyway.")]
About = Annotated[
    str | None, Option(metavar="WHAT", help="Of data: the population behind the rows (by default), or the rows.")
]
Steps = Annotated[int | None, Option(metavar="N", help="How many steps 'near' moves; by default 3.")]
Weights = Annotated[str | None, Option(metavar="NAME", help="A column that says what each row counts.")]
Favourable = Annotated[
    Texts,
    Option(metavar="DECISION", help="The decision that people want; repeatable. Of numbers: higher or lower."),
]
Order = Annotated[
    Texts, Option(metavar="DECISION", help="Every decision, repeated from worst to best, instead of --favourable.")
]
Tolerance = Annotated[
    float | None, Option(metavar="SHARE", help="Where more may go unfound, evidence is insufficient; by default 0.01.")
]
Repeats = Annotated[
    int | None, Option(metavar="N", help="Ask a model that wavers N times; by default as its noise takes.")
]
GroupFigures = Annotated[
    bool, Option("--groups", help="Also selection rates and impact ratios of groups; needs --data and --favourable.")
]
Plots = Annotated[Path | None, Option(metavar="DIR", help="Draw convergence, intervals and gaps as SVG files.")]
FailAboveRate = Annotated[
    str | None, Option("--fail-above", metavar="N%", help="Exit with 1 if the share is more than N per cent.")
]

Trainable = Annotated[
    str | None,
    Option("--model", metavar="SPEC", help="An estimator's .skops, .joblib or .pkl file, or module:attribute."),
]
Method = Annotated[
    Texts, Option(metavar="NAME", help="retrain, augment, counterfactual or marginal; repeatable, by default all.")
]
RepairStrategy = Annotated[
    str | None, Option("--strategy", metavar="NAME", help="The search to train with; by default that of the paper.")
]
Check = Annotated[
    str | None, Option(metavar="NAME", help="Another search, to look at what came out; by default kosei.")
]
Watch = Annotated[
    Texts, Option(metavar="NAME", help="An attribute to which discrimination might have moved; repeatable.")
]
HeldOut = Annotated[
    float | None, Option("--held-out", metavar="SHARE", help="Rows kept for evidence; by default 0.3 of them.")
]
RepairSamples = Annotated[
    int | None, Option("--samples", metavar="N", help="Judge each model by N individuals; by default 100000.")
]
Tolerate = Annotated[
    float | None, Option(metavar="POINTS", help="Accuracy that the chosen repair may lose; by default 1 point.")
]
Save = Annotated[Path | None, Option(metavar="FILE", help="Save the chosen model: .skops, .joblib or .pkl.")]
Plot = Annotated[Path | None, Option(metavar="FILE", help="Draw accuracy against rate: .svg, .png or .pdf.")]
