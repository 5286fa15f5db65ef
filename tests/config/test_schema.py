"""Each setting is defined once; flags, keys, the template and the reference follow from it."""

from __future__ import annotations

import dataclasses
import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from evenhand.cli import audit as audit_command
from evenhand.cli.app import app, build
from evenhand.cli.init import template
from evenhand.config.file import Config, read, spell
from evenhand.config.schema import COMMANDS, PANELS, PER_CALL, SETTINGS, TABLES, AuditTable, Setting, Table
from evenhand.errors import UNSET
from tests.cli.conftest import MODELS, Command

DOCS = Path(__file__).parents[2] / "docs"
make_reference = SimpleNamespace(**runpy.run_path(str(DOCS / "make_reference.py")))
PAGE = DOCS / "reference" / "command-line.md"
KEYS = {place for place, setting in SETTINGS.items() if setting.table not in PER_CALL}
ONLY_IN_FILES = {
    "space.constraints", "space.max_family_size", "text.protected", "text.avoid_protected", "text.agree",
    "text.max_family_size", "endpoint.mapping", "endpoint.headers", "endpoint.batch_size", "endpoint.in_flight",
    "endpoint.rate", "endpoint.retries", "endpoint.request_timeout",
}  # fmt: skip


@pytest.fixture
def louder(monkeypatch: pytest.MonkeyPatch) -> Setting:
    """The schema with one more setting, declared in the usual way."""
    for registry in (TABLES, SETTINGS):
        for name, value in registry.items():
            monkeypatch.setitem(registry, name, value)  # type: ignore[misc]

    @dataclasses.dataclass
    class More(AuditTable, name="audit", comment="how to search", panel="Search"):
        loudness: Annotated[int | None, Setting("How loud to search", "N", 11, ge=1)] = None

    yield SETTINGS["audit.loudness"]  # type: ignore[misc]
    del SETTINGS["audit.loudness"]


def test_a_new_setting_is_everywhere(louder: Setting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, seen = tmp_path / "e.toml", []
    path.write_text("[audit]\nloudness = 3\n")
    # Python: the typed object, from the file and from flags.
    assert read(path, {}).audit.loudness == 3  # type: ignore[attr-defined]
    assert read(path, {"audit": {"loudness": "5"}}).audit.loudness == 5  # type: ignore[attr-defined]
    # The command.
    monkeypatch.setattr(audit_command, "audit", lambda config: seen.append(config.audit.loudness))
    for arguments in (["audit", str(path)], ["audit", "--loudness", "7"], ["audit"]):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
    assert seen == [3, 7, None]
    assert "--loudness N" in CliRunner().invoke(app, ["audit", "--help"]).stdout
    # Errors.
    told = CliRunner().invoke(app, ["audit", "--loudness", "0"]).stderr
    assert "--loudness must be an integer of at least 1, got '0'\n" in told
    path.write_text("[audit]\nloudness = 'x'\n")
    assert "e.toml: audit.loudness must be" in CliRunner().invoke(app, ["audit", str(path)]).stderr
    # The template and the reference.
    assert "# loudness = 11             # How loud to search\n" in template("e.toml", {})
    assert "| `--loudness N` | How loud to search |" in make_reference.flags_of(COMMANDS["audit"])
    assert "| `loudness` | integer | How loud to search | `--loudness` |" in make_reference.file_keys()
    assert [spell(louder, 4, where) for where in ("python", "flag", "file")] == [
        "loudness=4",
        "--loudness 4",
        "loudness = 4 in [audit]",
    ]


def test_the_reference_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert make_reference.command_line(page) == page, "python docs/make_reference.py"
    assert make_reference.command_line(page.replace("| `--seed N` |", "| `--sede N` |")) == page
    assert set(re.findall("<!-- begin (.*) -->", PAGE.read_text())) == {
        "keys",
        *(name for name, command in COMMANDS.items() if command.settings),
    }


def test_the_configuration_has_every_table() -> None:
    fields = {field.name for field in dataclasses.fields(Config)}
    assert fields == {*TABLES, "command", "head", "in_file", "by_flag"}
    assert {type(getattr(read(None, {"text": {"k": "1"}}), name)) for name in TABLES} == set(TABLES.values())


def test_every_key_has_a_flag_or_is_only_in_files() -> None:
    assert {place for place in KEYS if not SETTINGS[place].commands} == ONLY_IN_FILES
    assert not [key for key in KEYS if "trust" in key or "pickle" in key]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_consistent(name: str) -> None:
    command = COMMANDS[name]
    settings = command.settings
    flags = [flag for one in settings if not command.takes(one) for flag in re.split("[,/]", one.flags)]
    assert len(flags) == len(set(flags))
    assert all(re.fullmatch("--?[a-z-]+", flag) for flag in flags)
    assert {*command.first.split(), *command.words} <= {one.place for one in settings}
    assert len(command.first.split()) in (0, 10)
    assert all(one.panel in PANELS for one in settings)
    # A line of the help has 80 columns.
    assert len(f"  estimate  {command.summary}") <= 80
    assert not command.summary.endswith(".")


def test_settings_are_described() -> None:
    for place, setting in SETTINGS.items():
        assert setting.help[0].isupper() or " " in setting.help
        assert not setting.help.endswith("."), place
        assert setting.metavar or setting.switch or setting.argument or not setting.commands, place
        assert set(setting.commands) <= set(COMMANDS), place


def test_help_has_panels(evenhand: Command) -> None:
    text = evenhand("audit", "--help", width=80).stdout
    heads = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert heads == ["Arguments", "Most used", "Model", "Data", "Search", "Budget", "Output"]
    lines = evenhand("--help", width=80).stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not [line for line in lines if line.startswith("  ") and line.endswith("...")]


def test_a_command_takes_no_parameter_that_is_not_a_setting() -> None:
    group: Any = typer.main.get_command(app)
    assert list(group.commands) == list(COMMANDS)
    for name, command in group.commands.items():
        assert len(command.params) == len(COMMANDS[name].settings)
    assert build(COMMANDS["audit"]).name == "audit"


def shown(text: str) -> dict[str, Any]:
    """What a file says with everything that is commented out."""
    lines = [re.sub(r"^# (?=[a-z_]+ = )", "", line) for line in text.splitlines()]
    return tomllib.loads("\n".join(lines))


def keys_of(tables: dict[str, Any]) -> set[str]:
    return {f"{name}.{key}" for name, table in tables.items() for key in table}


def test_init_shows_every_key_and_runs_as_it_is(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "e.toml"
    given = ["init", people, "--protected", "sex", "--target", "paid", "--model", f"{MODELS}:refuse"]
    assert "evenhand audit" in " ".join(evenhand(*given, "--output", output).stdout.split())
    tables = shown(output.read_text())
    assert keys_of(tables) == {key for key in KEYS if not key.startswith("text.")}
    for command in ("audit", "estimate"):
        done = evenhand(command, output, "--json")
        assert done.exit_code == 0, done.output


def test_init_of_texts_shows_every_key_and_runs_as_it_is(evenhand: Command, tmp_path: Path) -> None:
    output = tmp_path / "conf" / "e.toml"
    output.parent.mkdir()
    (tmp_path / "said.txt").write_text("The Muslim family is loud.\nA Jew.\n")
    given = ["init", tmp_path / "said.txt", "--text", "--protected", "religion", "--model", f"{MODELS}:classify"]
    assert evenhand(*given, "--output", output).exit_code == 0
    tables = shown(output.read_text())
    assert keys_of(tables) == {key for key in KEYS if SETTINGS[key].texts}
    assert set(tables["estimate"]) == {
        "population", "about", "samples", "half_width", "seconds", "confidence", "interval", "tolerance", "repeats",
        "plots", "fail_above", "report",
    }  # fmt: skip
    assert '"findings": 1' in evenhand("audit", output, "--json").stdout


@pytest.mark.parametrize("texts", [False, True])
def test_every_line_of_the_template_is_valid(texts: bool, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    lines = template("e.toml", {}, texts).splitlines()
    assert max(map(len, lines)) <= 120
    path.write_text("\n".join(re.sub(r"^# (?=[a-z_]+ = )", "", line) for line in lines))
    read(path, {})


def test_a_model_path_is_relative_to_the_file(evenhand: Command, people: Path, tmp_path: Path) -> None:
    output = tmp_path / "conf" / "e.toml"
    output.parent.mkdir()
    evenhand("init", people, "--protected", "sex", "--model", tmp_path / "m.onnx", "--output", output)
    assert tomllib.loads(output.read_text())["model"]["path"] == "../m.onnx"


@pytest.mark.parametrize("place", sorted(SETTINGS))
def test_every_setting_is_spelled(place: str) -> None:
    setting = SETTINGS[place]
    for value in (UNSET, True if setting.switch else 1):
        for where in ("python", "flag", "file"):
            text = spell(setting, value, where)
            assert text
            assert "{}" not in text
    assert isinstance(TABLES[setting.table](), Table)
