"""Pages are correct: code runs, commands work, links resolve, and tables match the program."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from tests.helpers import plugin_environment, slow

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LANGUAGES = {"python", "console", "toml", "json", "text", "sh"}
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
SLOW = {
    "docs/tutorial/first-audit.md",
    *(f"docs/explanation/{name}.md" for name in ("gradients", "searches", "text")),
    *(f"docs/how-to/{name}.md" for name in (
        "ci", "compare", "compare-repairs", "endpoint", "evidence", "extend", "marginal", "measure", "models", "prove",
        "repair", "repair-models", "report", "scale", "text-command", "text-models",
    )),
}  # fmt: skip
"""Pages that take more than 3 seconds to run, but for the README."""

_FENCE = re.compile(r"^```(\w*)( about)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# file: (\S+)\n")
_EXIT = re.compile(r"# exit (\d+)\n")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    follows: str
    """The language of the block before it."""
    about: bool = False
    """Numbers may differ: they depend on the machine's arithmetic and clock."""


def blocks(page: Path) -> Iterator[Block]:
    text, before = page.read_text("utf-8"), ""
    for found in _FENCE.finditer(text):
        yield Block(found[1], found[3], text[: found.start(3)].count("\n"), before, bool(found[2]))
        before = found[1]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def matches(expected: str, got: str, about: bool) -> bool:
    if about:
        expected, got = (re.sub(r"\d[\d,]*(\.\d+)?", "0", text) for text in (expected, got))
    return not expected.strip() or doctest.OutputChecker().check_output(expected, got, _FLAGS)


class Reader:
    """Does what a page says, block by block, in an empty directory."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""

    def do(self, block: Block) -> None:
        where = f"{self.page.relative_to(ROOT)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: name the block's language, one of {sorted(LANGUAGES)}"
        named = _FILE.match(block.text)
        if block.language == "toml":
            tomllib.loads(block.text)
        if named is not None:
            (self.folder / named[1]).write_text(block.text)
        elif block.language == "python":
            self._execute(block)
        elif block.language == "console":
            self._type(block, where)
        elif block.language == "text" and block.follows == "python":
            assert matches(block.text, self.printed, block.about), (
                f"{where}: the page and the program differ:\n{self.printed}"
            )

    def _execute(self, block: Block) -> None:
        # Empty lines in front, so that a traceback names the page's line.
        code = compile("\n" * block.line + block.text, str(self.page), "exec")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, self.names)
        self.printed = out.getvalue()

    def _type(self, block: Block, where: str) -> None:
        status = _EXIT.match(block.text)
        wanted = int(status[1]) if status else 0
        env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "PYTHONWARNINGS": "",
            **plugin_environment(),
        }
        text = block.text[status.end() :] if status else block.text
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command += "\n" + more
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
            )
            assert done.returncode == wanted, f"{where}: $ {command}\nexit {done.returncode}\n{done.stdout}"
            assert matches(expected, done.stdout, block.about), f"{where}: $ {command}\nit printed\n{done.stdout}"


@pytest.mark.parametrize(
    "page",
    [each for page in PAGES for each in (slow([page]) if str(page.relative_to(ROOT)) in SLOW else [page])],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_snippets_of_pages_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = set(sys.modules)
    reader = Reader(page, tmp_path)
    try:
        for block in blocks(page):
            reader.do(block)
    finally:
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{page.name} links to {target}; there are {sorted(anchors(there))}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_the_map_names_every_page() -> None:
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(DOCS / "index.md"))}
    assert set(DOCS.rglob("*.md")) - {DOCS / "index.md"} <= linked


def test_pictures_are_small() -> None:
    for picture in (DOCS / "images").iterdir():
        assert picture.stat().st_size < 300_000, picture.name


def test_the_makefile_has_the_targets_on_the_pages() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for page in PAGES
        for b in blocks(page)
        if b.language == "sh"
        for name in re.findall(r"make ([\w-]+)", b.text)
    }
    assert {"demo", "test", "lint"} <= named
    assert named <= targets


PYTHON = DOCS / "reference" / "python.md"


def sections(page: Path, marks: str) -> dict[str, str]:
    """The text under each heading of a level, by the first word in backticks."""
    parts = re.split(rf"^{marks} `([^`]+)`.*$", page.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_public_name_is_in_the_reference() -> None:
    words = set(re.findall(r"eh\.(\w+)", PYTHON.read_text("utf-8")))
    assert set(eh.__all__) - {"__version__"} <= words | {"errors", "populations", "repairs"}, set(eh.__all__) - words


def test_the_reference_is_made_from_the_docstrings() -> None:
    done = subprocess.run(
        [sys.executable, str(DOCS / "make_reference.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_of_commands_shows_every_option() -> None:
    from typer.main import get_command

    from evenhand.cli.app import app

    shown = sections(DOCS / "reference" / "command-line.md", "##")
    group: Any = get_command(app)
    assert set(shown) == {f"evenhand {name}" for name in group.commands}
    for name, command in group.commands.items():
        options = {o for p in command.params if p.param_type_name == "option" for o in (*p.opts, *p.secondary_opts)} - {
            "--help",
            "-h",
        }
        listed = re.findall(r"^\| (`-.*?) \|", shown[f"evenhand {name}"], re.MULTILINE)
        assert {o for cell in listed for o in re.findall(r"`(-[\w-]+)", cell)} == options, name


def test_the_tree_of_the_architecture_is_complete() -> None:
    """Every file of the package is in the tree, and every file in the tree exists."""
    source = ROOT / "src" / "evenhand"
    tree = re.search(r"```text\nsrc/evenhand/(.*?)```", (DOCS / "architecture.md").read_text("utf-8"), re.DOTALL)
    assert tree
    folders: list[str] = []
    listed = set()
    for line in tree[1].splitlines()[1:]:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        if found := re.match(r"\s*(\w+)/", line):
            folders[depth:] = [found[1] + "/"]
        elif depth < len(folders):
            del folders[depth:]
        listed |= {"".join(folders) + name for name in re.findall(r"\b\w+\.py\b", line)}
    exempt = {str(path.relative_to(source)) for path in source.rglob("__init__.py")}
    exist = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    assert listed - exist == set()
    assert exist - listed - exempt == set()


ARCHAIC = r"\b(whom|whoever|nobody|mended|wavers?|at hand|telling|in other company|legal individuals?)\b"


def test_the_words_are_plain_english() -> None:
    """Lists of English words, the licence and this test may have them."""
    pages = [*PAGES, *(path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py"))]
    pages += (ROOT / "src").rglob("*.html")
    for page in pages:
        if page != Path(__file__):
            found = re.search(ARCHAIC, page.read_text("utf-8"), re.IGNORECASE)
            assert not found, f"{page.relative_to(ROOT)}: {found[0]!r}"
