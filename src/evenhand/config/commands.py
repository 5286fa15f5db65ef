"""The commands: what each is for, and which of its settings most people use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenhand.config.schema import SETTINGS, Setting

MOST_USED, LAST = "Most used", "Output"
BOTH = "Use a configuration file, flags, or both: flags override the file."
STATUS = "Exit status: 0 done, "
NOTED = "Model; the one noted in the run by default, if it runs no code"
SAMPLE = "Same seed, same sample; 0 by default"
PANELS = (
    MOST_USED, "Model", "Data", "Texts", "Decisions", "Search", "Budget", "Estimate", "Repair", "Comparison", "Report",
    "Export", "Bundle", "Replay", LAST,
)  # fmt: skip
"""Headings of the help, in their order."""


@dataclass(frozen=True)
class Command:
    """A command of ``evenhand``; its settings are those of the schema that name it."""

    name: str
    panel: str
    summary: str
    details: tuple[str, ...] = ()
    first: str = ""
    """The settings that most people use, in this order."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What a setting means here, where that differs."""

    @property
    def settings(self) -> list[Setting]:
        """All its settings: arguments, the most used, then the others in the order of the tables.

        >>> [setting.place for setting in COMMANDS["bundle"].settings][:3]
        ['call.run', 'bundle.output', 'bundle.model']
        """
        having = {place: setting for place, setting in SETTINGS.items() if self.name in setting.commands}
        arguments = [place for place, setting in having.items() if self.takes(setting)]
        order = {place: number for number, place in enumerate((*arguments, *self.first.split()))}
        own = sorted(having, key=lambda place: (order.get(place, len(order)), PANELS.index(having[place].panel)))
        return [having[place] for place in own]

    def takes(self, setting: Setting) -> bool:
        """Whether it takes a setting without a flag, by its place."""
        return self.name in setting.argument.split()

    def metavar(self, setting: Setting) -> str:
        """What stands for an argument.

        >>> COMMANDS["export"].metavar(SETTINGS["call.out"]), COMMANDS["init"].metavar(SETTINGS["data.path"])
        ('OUT...', 'DATA')
        """
        return (setting.key if setting.table == "call" else setting.table).upper() + "..." * setting.many

    def panels(self) -> dict[str, list[Setting]]:
        """Its flags by heading.

        >>> list(COMMANDS["export"].panels())
        ['Export', 'Output']
        """
        first = self.first.split()
        found: dict[str, list[Setting]] = {}
        for setting in self.settings:
            if not self.takes(setting):
                found.setdefault(MOST_USED if setting.place in first else setting.panel, []).append(setting)
        return found

    def help(self, setting: Setting) -> str:
        """Say what a flag means for this command.

        >>> COMMANDS["init"].help(SETTINGS["space.exclude"])
        'Column that the model does not get; repeatable'
        """
        return self.words.get(setting.place, setting.help) + ("; repeatable" if setting.many else "")

    @property
    def reads(self) -> list[Setting]:
        """Settings of other tables that it reads from a file."""
        return [one for one in self.settings if one.table not in (self.name, "call")]


# fmt: off
COMMANDS: dict[str, Command] = {one.name: one for one in (
    Command("demo", "Start", "Audit models of two public data sets, end to end",
        ("Trains the models, searches, prints pairs of people who are treated differently, and writes reports.",)),
    Command("init", "Start", "Write an editable configuration for your data",
        ("It says how to audit; a second file beside it has the valid individuals, as inferred from the data. "
         "With --text, one file has everything.",),
        words={"data.path": "Real rows or, with --text, texts"}),
    Command("audit", "Audit", "Search for people or texts that a model treats differently",
        (BOTH, STATUS + "1 more findings than --fail-above allows or parts of the page failed, 2 wrong usage or input, "
         "130 interrupted."),
        "model.path data.path data.target space.protected audit.strategy budget.tests audit.seed audit.directory "
        "audit.page audit.fail_above"),
    Command("estimate", "Audit", "Measure how common discrimination is, and who is favoured",
        (BOTH, STATUS + "1 a larger share than --fail-above allows, 2 wrong usage or input, 3 too few tests to say "
         "whether it is larger, 130 interrupted."),
        "model.path data.path data.target space.protected estimate.population estimate.samples estimate.favourable "
        "estimate.groups estimate.fail_above audit.seed",
        {"audit.seed": SAMPLE}),
    Command("repair", "Audit", "Make a model fairer in several ways, and compare the results",
        ("The model is an estimator, which is trained again on a part of the data, or a function train(X, y).",
         BOTH, STATUS + "2 wrong usage or input, or every method failed, 130 interrupted."),
        "model.path data.path data.target space.protected repair.methods repair.save repair.plot repair.tolerate "
        "budget.tests audit.seed",
        {"model.path": "An estimator's .skops, .joblib or .pkl file, or module:attribute"}),
    Command("compare", "Runs", "Show what a later model has fixed and what is new",
        ("Each run's findings are judged by the other model, and both judge the same new individuals.",
         STATUS + "1 new findings with --fail-on-new, 2 wrong usage or input."),
        words={"audit.seed": SAMPLE}),
    Command("report", "Runs", "Write the report of a run, one HTML file",
        ("Without the model and the data, the parts that need them are left out, and the report says so.",
         STATUS + "1 written, but parts of it failed, 2 wrong usage or input."),
        "report.output model.path data.path data.target estimate.favourable report.title report.examples "
        "report.samples report.no_rows audit.seed",
        {"model.path": NOTED, "data.path": "Real rows; those noted in the run by default",
         "text.path": "Texts of a run of texts; those noted in the run by default"}),
    Command("export", "Runs", "Write a run as JSON, CSV, Parquet, JUnit XML, SARIF or Markdown",
        ("The ending of each file names its format.",)),
    Command("bundle", "Runs", "Write a run as one archive that can be checked and replayed",
        ("It prints a digest that identifies this archive: note it elsewhere.",)),
    Command("replay", "Runs", "Ask the model again about every finding of a run or bundle",
        ("Without --model it asks the run's own model, if its file still exists and runs no code when it is loaded; "
         "for a bundle, the one in it. A bundle is first checked against its manifest.",
         STATUS + "1 a finding does not hold or a part does not match, 2 wrong usage or input."),
        words={"model.path": NOTED, "data.path": "Data rows, to compare with a bundle that left them out"}),
    Command("strategies", "Lists", "List the searches with their papers and settings"),
    Command("datasets", "Lists", "List the data sets of the package"),
)}
"""Every command by its name."""
