"""Checks a bundle: every part against the manifest, the parts against one another, the archive against its form."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenhand._files import check_limit, open_archive, open_file, parse_json, read_bytes, size_of
from evenhand.engine.store import as_path
from evenhand.errors import EvenhandError, RunError
from evenhand.evidence.archive import MANIFEST, RUN_FILES, Part, digest, pack
from evenhand.evidence.bundling import VERSION, facts, member, told
from evenhand.run import Run
from evenhand.words import plain


@dataclass(frozen=True)
class BundleCheck:
    """What is wrong with a bundle, part by part; nothing, if it is whole. Not made by hand."""

    digest: str
    """SHA-256 of the archive: compare it with what was written down when the bundle was made."""
    problems: dict[str, str]
    """What is wrong, by the name of the part; "archive" is the zip file around the parts."""
    manifest: dict[str, Any] = field(repr=False)
    members: tuple[str, ...] = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether every part is what the manifest says."""
        return not self.problems

    @property
    def replayable(self) -> bool:
        """Whether the run itself is as the manifest says, so that its findings are worth asking about."""
        return not any(name == MANIFEST or name.startswith("run/") for name in self.problems)

    @property
    def lines(self) -> list[str]:
        """Say each problem in a line."""
        return [f"{plain(name)}: {words}" for name, words in sorted(self.problems.items())]


def check_bundle(bundle: str | Path) -> BundleCheck:
    """Check a bundle without a model: which parts were changed, are missing, or were added.

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = eh.audit(lambda f: f["sex"] == "F", space, strategy="themis", directory=f"{folder}/run")
    ...     _ = eh.bundle(run, f"{folder}/run.zip")
    ...     whole = Path(f"{folder}/run.zip").read_bytes()
    ...     _ = Path(f"{folder}/run.zip").write_bytes(whole.replace(b"counterpart_sex", b"counterpart_age"))
    ...     eh.check_bundle(f"{folder}/run.zip").lines
    ['findings.csv: it was changed']
    """
    with opened(bundle) as (checked, _):
        return checked


@contextmanager
def opened(bundle: str | Path) -> Iterator[tuple[BundleCheck, Path]]:
    """Check a bundle and lay its parts out in a folder of our own that goes afterwards.

    Parts are written under names of ours, numbered; what the archive calls them is never taken for a path.
    """
    path = as_path(bundle, "a bundle")
    check_limit(
        "bundle_bytes", size_of(path, RunError, "it is no file; name a bundle that 'evenhand bundle' wrote"), path
    )
    with open_file(path, RunError) as file:
        # What claims more than it can hold is refused before all of it is read.
        with open_archive(file, path, "a bundle", "bundle_entries", "bundle_bytes", RunError):
            file.seek(0)
        whole = hashlib.file_digest(file, "sha256").hexdigest()
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        parts, problems = _laid_out(path, Path(folder))
        manifest = _read_manifest(path, parts, problems)
        _compare(manifest, parts, problems)
        if parts and not problems:
            _check_form(path, parts, problems)
        run = _run_directory(parts, Path(folder) / "run")
        checked = BundleCheck(whole, problems, manifest, tuple(sorted(parts)))
        if checked.replayable:
            _check_told(run, manifest, parts, problems)
        yield checked, run


def bundled_model(checked: BundleCheck, folder: Path) -> tuple[str, Path]:
    """Name the bundle's own model, and say where it lies, beside the folder that ``opened`` gave."""
    names = [name for name in checked.members if name.startswith("model/") and name in checked.manifest["members"]]
    if not names:
        raise RunError(f"the bundle has no model in it ({checked.manifest['model']}); name it: --model SPEC")
    if names[0] in checked.problems:
        raise RunError(f"the bundle's own model was tampered with ({names[0]}); name the right one: --model SPEC")
    # Models are called by their files; so this one gets its name back, made harmless.
    place = folder.parent / "model" / (member(Path(names[0]).name)[-80:].lstrip(".") or "model")
    if not place.exists():
        place.parent.mkdir()
        (folder.parent / f"{checked.members.index(names[0])}{Path(names[0]).suffix}").rename(place)
    return names[0], place


@contextmanager
def known_as(name: str, path: Path) -> Iterator[None]:
    """Let errors speak of a part by its name in the bundle, and not of where it lies for the moment.

    >>> with known_as("model/loans.skops", Path("/tmp/3.skops")):
    ...     raise RunError("/tmp/3.skops: the file is empty")
    Traceback (most recent call last):
    evenhand.errors.RunError: model/loans.skops: the file is empty
    """
    try:
        yield
    except EvenhandError as error:
        error.rename(str(path), name)
        raise


def compare_file(checked: BundleCheck, what: str, path: Path) -> None:
    """Note it as a problem where a file that the user gives is not the one that was bundled, or left out."""
    known = {**checked.manifest["members"], **checked.manifest["left_out"]}
    entries = {name: entry for name, entry in known.items() if name.startswith(f"{what}/")}
    if not path.is_file():
        raise RunError(f"{path}: there is no such file; name the {what}'s file")
    for name, entry in entries.items():
        if digest(path)[0] != entry["sha256"]:
            checked.problems[f"--{what} {path}"] = f"it is not the {what} that was bundled as {name}"


def _laid_out(path: Path, folder: Path) -> tuple[dict[str, Part], dict[str, str]]:
    """Copy every part that can be read into the folder."""
    problems: dict[str, str] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            read: dict[str, Part] = {}
            for number, name in enumerate(sorted(set(names))):
                if names.count(name) > 1:
                    problems[name] = "it is there more than once"
                entry = entries[names.index(name)]
                target = folder / f"{number}{Path(name).suffix}"
                if reason := _copy(archive, entry, target):
                    problems[name] = reason
                read[name] = target
            return read, problems
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise RunError(f"{path} cannot be read as a bundle ({str(error)[:100]}); get an undamaged copy") from None


def _copy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> str | None:
    target.touch()
    if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
        # Bundles are never compressed; so a small file cannot unpack to any size.
        return "it is compressed, which no part of a bundle is"
    try:
        with archive.open(entry) as source, target.open("wb") as file:
            shutil.copyfileobj(source, file, 2**20)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError):
        return "it was changed"
    return None


def _read_manifest(path: Path, parts: dict[str, Part], problems: dict[str, str]) -> dict[str, Any]:
    if MANIFEST not in parts:
        raise RunError(f"{path} has no {MANIFEST}, so it is no bundle, or not a whole one; get an undamaged copy")
    file = parts[MANIFEST]
    assert isinstance(file, Path)
    try:
        manifest = parse_json(read_bytes(file, "json_bytes", RunError), MANIFEST)
        entries = [*manifest["members"].values(), *manifest["left_out"].values()]
        known = all(isinstance(e["sha256"], str) and isinstance(e["size"], int) for e in entries)
        if not known or manifest["format"] != "evenhand-bundle":
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        problems[MANIFEST] = "it cannot be read: it was changed"
        return {"members": {}, "left_out": {}}
    if manifest.get("version") != VERSION:
        raise RunError(f"{path} is a bundle of version {manifest.get('version')!r}; read it with a later evenhand")
    return dict(manifest)


def _compare(manifest: dict[str, Any], parts: dict[str, Part], problems: dict[str, str]) -> None:
    """Compare the parts with what the manifest says of them."""
    if MANIFEST in problems:
        return
    listed = manifest["members"]
    for name, entry in listed.items():
        if name not in parts:
            problems[name] = "it is missing"
        elif name not in problems and digest(parts[name]) != (entry["sha256"], entry["size"]):
            problems[name] = "it was changed"
    for name in set(parts) - set(listed) - {MANIFEST}:
        problems[name] = "it was added: the manifest does not list it"


def _check_form(path: Path, parts: dict[str, Part], problems: dict[str, str]) -> None:
    """Pack the parts once more: whatever is hidden between or around them, or in their headers, differs then."""
    with tempfile.TemporaryFile() as again, path.open("rb") as given:
        pack(again, parts)
        again.seek(0)
        if hashlib.file_digest(again, "sha256").digest() != hashlib.file_digest(given, "sha256").digest():
            problems["archive"] = "bytes outside its parts were changed or added"


def _run_directory(parts: dict[str, Part], folder: Path) -> Path:
    folder.mkdir()
    for name in RUN_FILES:
        part = parts.get(f"run/{name}")
        if isinstance(part, Path):
            shutil.copyfile(part, folder / name)
    return folder


def _check_told(directory: Path, manifest: dict[str, Any], parts: dict[str, Part], problems: dict[str, str]) -> None:
    """Compare what is told twice: manifest and tables for people must say what the run's own files say."""
    try:
        with known_as("run", directory):
            run = Run.load(directory)
            parts_again, facts_again = told(run), facts(run)
    except (EvenhandError, LookupError, ArithmeticError, ValueError, TypeError) as error:
        problems["run"] = f"it cannot be read ({plain(str(error))[:200]})"
        return
    for name, text in parts_again.items():
        if name in parts and name not in problems and digest(parts[name]) != digest(text):
            problems[name] = "it says something else than the run's own files"
    other = [key for key, value in facts_again.items() if manifest.get(key, ...) != json.loads(json.dumps(value))]
    if other:
        problems[MANIFEST] = f"it says something else than the run's own files ({', '.join(other)})"
