"""What the files for deployment say, as far as a test can execute it."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from typing import Any

import typer

from evenhand.cli.app import app
from tests.helpers import ROOT

DEPLOY = ROOT / "deploy"
PAGES = [ROOT / "docs" / "how-to" / name for name in ("serve.md", "deploy.md")]


def flags() -> set[str]:
    group: Any = typer.main.get_command(app)
    return {flag for option in group.commands["serve"].params for flag in option.opts}


def used(text: str) -> set[str]:
    """The flags after ``evenhand serve``, or after the image of that name."""
    lines = re.findall(r"evenhand(?: serve|\n|(?= --add)).*", text)
    return {word for line in lines for word in re.findall(r"--[a-z-]+", line)}


def test_flags_exist() -> None:
    for path in (*PAGES, *DEPLOY.iterdir()):
        assert used(path.read_text("utf-8")) <= flags() | {"--no-cache-dir", "--rm"}, path
    page = PAGES[1].read_text("utf-8")
    assert set(re.findall(r"^\| `(--[a-z-]+)` \|", page, re.MULTILINE)) <= flags()


def test_the_unit_of_systemd() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / "evenhand.service").read_text("utf-8"))
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[1] == "serve"
    assert {word for word in words if word.startswith("--")} <= flags()
    assert unit["Service"]["KillSignal"] == "SIGINT"


def test_the_image_installs_extras_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    extras = re.findall(r"\.\[(.*?)\]", text)[0].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    for copied in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
