"""What ``evenhand init`` writes: every key of the file, with what it means; what need not be said is commented out."""

from __future__ import annotations

from evenhand.visible import visible_toml

HEAD = """\
# Run with: evenhand audit {name}
# Paths are seen from this file. Options of the command override what is said here.

[model]
{about}
path = {model}
# threshold = 0.5           # decide for the second class from this score on
# timeout = 60.0            # seconds for one call of the model
"""
ROWS = """
[data]
path = {data}
{target}

[space]
# The people who can be asked about. Edit that file: bounds, values, what is protected, constraints
# such as "hours <= 60 or age >= 30", attributes that follow a protected one.
path = {space}
# What is said here changes what that file says:
# protected = [{protected}]
# exclude = []              # attributes that the model does not get
# missing = "drop"          # rows without a protected value: "drop" leaves them out, "group" makes them a group
# constraints = []          # in addition to those there
# limit = 1000              # the most people that one is compared with
"""
TEXT = """
[text]
path = {texts}
{column}
{encoding}
# What must not matter: lexicons by name ({names}),
# .toml files of your own, or terms: {{ team = ["reds", "blues"] }}
protected = [{protected}]
# similar = "vectors.npz"   # vectors of words: replace words by similar ones, to test more than these texts;
                            # by default those of the model, where it has an embedding
k = 10                      # how many similar words a word has
occurrences = "each"        # replace each occurrence of a term by itself, or all "together"
ambiguous = "context"       # "black" is a term where the words around it say so; or "always", "never"
# avoid_protected = true    # similar words are no terms of any lexicon
# agree = false             # similar words must have the same shape: both end in -ing, and so on
# limit = 1000              # the most texts that one is compared with
"""
AUDIT = """
[audit]
strategy = "{strategy}"{pad}# evenhand strategies lists them
seed = 0                    # same seed, same findings
criterion = "flip"          # the decision changes; or a number: scores more than that apart
# chunk = 32768             # the most rows of one call of the model
# confirm = 1000            # ask the model again about at most so many findings; by default about all
# directory = "run"         # keep the run, to resume, replay, export, compare and bundle it
# findings = "findings.csv" # write all findings: .csv, .json, .parquet, .xml, .sarif, .md
# page = "report.html"      # write a report for readers who never ran anything
# fail_above = 0            # exit with 1 if there are more findings
{coverage}
[audit.settings]
# {setting}

[budget]                    # the first limit to be reached ends the run
tests = 100000
# rows = 1000000
# findings = 1000
# seconds = 60.0
"""
TEXTS_MEASURED = """
[estimate]                  # evenhand estimate {name}: how common it is among these texts
# samples = 1000            # how many texts to ask; by default all with a term
# about = "population"      # the texts that these are a sample of, or these "rows" themselves
# confidence = 0.95
# tolerance = 0.01          # where more may go unfound, evidence is insufficient
# plots = "plots"           # draw into this folder
# fail_above = "5%"         # exit with 1 if the share is larger, with 3 if there are too few texts to say
"""
COVERAGE = "# coverage = true           # say how much of what the model distinguishes the tests have come by\n"
MEASURED = """
[estimate]                  # evenhand estimate {name}: how common it is, and who is favoured
# population = "uniform"    # of whom: "uniform" individuals of the space, rows of the "data", or what is "near" them
# about = "population"      # of "data": the population behind the rows, or the "rows" themselves
# steps = 3                 # how far "near" moves
# favourable = "..."        # the decision that people want, or a list of them
# order = []                # or every decision, from worst to best
# weights = "..."           # a column that says what each row counts
# samples = 100000          # how many to ask
# half_width = 0.01         # stop when the interval is narrow enough
# seconds = 60.0            # stop then
# exact = true              # ask everyone in the space
# confidence = 0.95
# interval = "anytime"      # or "clopper-pearson", "lln"
# experiments = 400         # of "lln"
# tolerance = 0.01          # where more may go unfound, evidence is insufficient
# repeats = 20              # how often to ask a model that wavers
# groups = true             # also selection rates and impact ratios; needs favourable
# plots = "plots"           # draw into this folder
# fail_above = "5%"         # exit with 1 if the share is larger, with 3 if there are too few tests to say

[repair]                    # evenhand repair {name}: ways to make the model fairer, side by side
# methods = ["marginal"]    # by default also "retrain", "augment" and "counterfactual"
# strategy = "aequitas"     # the search to train with; by default that of the paper
# check = "kosei"           # another search, to look at what came out
# watch = []                # attributes to which discrimination might have moved
# held_out = 0.3            # the share of rows kept for evidence
# samples = 100000          # how many to judge each model by
# confidence = 0.95
# favourable = "..."        # the decision that people want, or a list of them
# order = []                # or every decision, from worst to best
# tolerate = 1.0            # points of accuracy that the chosen one may lose
# save = "fair.skops"       # where to put the chosen one
# plot = "tradeoff.svg"     # draw accuracy against rate

[compare]                   # evenhand compare RUN_A RUN_B --config {name}: what a later model has fixed, what is new
                            # also read: seed in [audit], timeout in [model]
# model_a = "old.skops"     # by default as the run has it noted
# model_b = "new.skops"
# threshold_a = 0.5
# threshold_b = 0.5
# samples = 100000          # fresh individuals whom both are asked about
# confidence = 0.95
# fail_on_new = true        # exit with 1 if there are new findings
"""
KEPT = """
[export]                    # evenhand export RUN OUT... --config {name}: for other programs
# format = "json"           # whatever the ending; or "csv", "parquet", "junit", "sarif", "markdown"
# most = 1000               # findings that JUnit and SARIF list
# raw = true                # CSV: also cells that look like formulas as they are
# artifact = "model.py"     # SARIF: the file at which results are shown

[bundle]                    # evenhand bundle RUN --config {name}: one archive as evidence
# output = "run.zip"
# model = "model.skops"     # by default as the run has it noted
# data = "people.csv"       # by default as the run has it noted
# no_rows = true            # leave the data out and keep its hash

[report]                    # evenhand report RUN --config {name}: what people read
                            # also read: [model], [data], [text], seed in [audit], favourable, confidence in [estimate]
# title = "Loans, by sex"
# cases = 4                 # pairs that are shown
# samples = 20000           # individuals of each estimate
# no_rows = true            # leave out what says something about single people
# output = "report.html"

[replay]                    # evenhand replay RUN --config {name}: ask again about every finding
                            # also read: [model], of a bundle path in [data]
# digest = "..."            # of a bundle, as it was written down
# list = "replayed.csv"     # write all findings, with yes or no for each
"""


def listed(texts: list[str]) -> str:
    """Write what stands between the brackets of a list of texts.

    >>> listed(["a", "b"])
    '"a", "b"'
    """
    return ", ".join(map(visible_toml, texts))
