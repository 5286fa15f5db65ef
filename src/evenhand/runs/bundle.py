"""Bundles: a run in one zip archive with a manifest of hashes, and checks of such archives.

The same parts give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from evenhand import __version__
from evenhand._files import check_limit, open_archive, open_file, parse_json, read_bytes, size_of
from evenhand._format import plain
from evenhand._validate import check_bool, check_path
from evenhand.engine.store import ABOUT, ANSWERS, COVERAGE, IDENTITY, RESULT, SOURCE, TIMES
from evenhand.errors import DIRECTORY, ConfigError, EvenhandError, RunError, Use
from evenhand.runs.exports import NOTICE, write, write_csv
from evenhand.runs.replay import Source, unchanged
from evenhand.runs.run import Run
from evenhand.spaces.base import space_digest
from evenhand.spaces.toml import dumps

MANIFEST, FINDINGS, SPACE, SPACE_JSON = "manifest.json", "findings.csv", "space.toml", "space.json"
RUN_FILES = (IDENTITY, RESULT, ANSWERS, TIMES, COVERAGE, SOURCE, ABOUT)
"""Files of a run's directory that are bundled, if they exist."""
Part = bytes | Path
_MOMENT = (1980, 1, 1, 0, 0, 0)
VERSION = 1
PASS_MODEL = ("pass the model: ", Use("model=...", "model.path"))


@dataclass(frozen=True)
class BundleCheck:
    """The result of checking a bundle, part by part."""

    digest: str
    """The SHA-256 of the archive; compare it with the digest that ``bundle`` returned."""
    problems: dict[str, str]
    """Problems by part; "archive" is the zip file itself."""
    manifest: dict[str, Any] = field(repr=False)
    members: tuple[str, ...] = field(repr=False)

    @property
    def whole(self) -> bool:
        """Whether every part matches the manifest."""
        return not self.problems

    @property
    def replayable(self) -> bool:
        """Whether the run itself matches the manifest, so that its findings can be replayed."""
        return not any(name == MANIFEST or name.startswith("run/") for name in self.problems)

    @property
    def lines(self) -> list[str]:
        """One line for each problem."""
        return [f"{plain(name)}: {words}" for name, words in sorted(self.problems.items())]


def bundle(
    run: Run | str | Path,
    path: str | Path,
    model: str | Path | None = None,
    data: str | Path | None = None,
    *,
    include_data: bool = True,
) -> str:
    """Write a stored run as one archive that can be checked and replayed; return the archive's SHA-256.

    The same run gives the same bytes. Keep the digest in another place: anyone who can change the archive can also
    change its manifest.

    Parameters
    ----------
    run
        A run that is stored in a directory, or that directory.
    path
        The .zip file to write.
    model
        The model's file; by default the one that the command line stored with the run.
    data
        The file of data rows; by default the one that the command line stored with the run.
    include_data
        Whether to include the data; otherwise only its hash. Findings of a search that starts from data may still be
        rows of the data.

    Examples
    --------
    >>> import tempfile
    >>> import evenhand as eh
    >>> space = eh.Space([eh.Integer("age", 1, 9), eh.Nominal("sex", ["F", "M"])], protected="sex")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = eh.audit(lambda f: f["sex"] == "F", space, strategy="themis", directory=f"{folder}/run")
    ...     digest = eh.bundle(run, f"{folder}/run.zip")
    ...     eh.check_bundle(f"{folder}/run.zip").digest == digest
    True
    """
    check_bool("include_data", include_data, RunError)
    directory = run.directory if isinstance(run, Run) else run
    if directory is None:
        raise RunError("must be stored in a directory", parameter="run", remedy=("audit with ", DIRECTORY))
    # Read from its files, so that all parts agree. Links are refused, because they could add any file of this machine
    # to the archive.
    run = Run.load(directory)
    source, path = Source.read(run), check_path("path", path, RunError)
    parts = _run_parts(run)
    model_part = _file("model", model, source.model, source.model_sha256)
    data_part = _file("data", data, source.data, source.data_sha256)
    for part in (model_part, data_part) if include_data else (model_part,):
        parts |= part
    parts[MANIFEST] = _json(_manifest_of(run, parts, {} if include_data else data_part))
    write(path, lambda file: pack(file, parts))
    return digest(path)[0]


def _run_parts(run: Run) -> dict[str, Part]:
    assert run.directory is not None
    kept: dict[str, Part] = {
        f"run/{name}": run.directory / name for name in RUN_FILES if (run.directory / name).is_file()
    }
    if f"run/{SOURCE}" in kept:
        kept[f"run/{SOURCE}"] = _json(asdict(Source.stored(run).portable()))
    return {**kept, **readable_parts(run)}


def readable_parts(run: Run) -> dict[str, Part]:
    """Return the parts for readers: the findings as a table and the space as a file."""
    findings = io.BytesIO()
    write_csv(run, findings)
    return {FINDINGS: findings.getvalue(), **_space(run.space)}


def _space(space: Any) -> dict[str, Part]:
    if space.supports("attributes"):
        try:
            return {SPACE: dumps(space).encode()}
        except ConfigError:
            # TOML cannot encode a lone surrogate; JSON escapes it.
            pass
    return {SPACE_JSON: _json(space.describe())}


def _file(what: str, given: str | Path | None, recorded: str | None, known: str | None) -> dict[str, Part]:
    """Return the file of the model or of the data, if the run has one."""
    if given is not None:
        file = check_path(what, given, RunError)
        if not file.is_file():
            raise RunError("must be an existing file", parameter=what, value=str(given))
    elif recorded is not None and known is not None:
        file = unchanged(recorded, known, what)
    else:
        return {}
    return {f"{what}/{member(file.name)}": file}


def member(name: str) -> str:
    """Return a name that is valid on every system and in every zip program."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


def _manifest_of(run: Run, parts: dict[str, Part], left_out: dict[str, Part]) -> dict[str, Any]:
    return {
        "notice": NOTICE,
        "format": "evenhand-bundle",
        "version": VERSION,
        "evenhand": __version__,
        **facts(run),
        "members": {name: _entry(part) for name, part in parts.items()},
        "left_out": {name: _entry(part) for name, part in left_out.items()},
    }


def facts(run: Run) -> dict[str, Any]:
    """Return what the manifest contains about a run."""
    identity, source = run.identity, Source.stored(run)
    kept = identity.to_dict() | {"criterion": repr(identity.criterion), "space": space_digest(run.space)}
    return {
        "run": {**kept, "budget": vars(run.budget), "stop": run.stop.value},
        "tests": run.tests,
        "findings": run.found,
        "confirmed": run.confirmed,
        "refuted": run.refuted,
        "unsteady": run.unsteady,
        "model": source.model or identity.model,
        "threshold": source.threshold,
        "versions": run.versions,
    }


def _json(value: dict[str, Any]) -> bytes:
    # A notice is for readers, who begin at the top.
    notice = {name: value[name] for name in ("notice",) if name in value}
    ordered = json.loads(json.dumps(value, sort_keys=True))
    return (json.dumps(notice | ordered, indent=1) + "\n").encode()


def _entry(part: Part) -> dict[str, Any]:
    sha256, size = digest(part)
    return {"sha256": sha256, "size": size}


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
    """Check a bundle and extract its parts into a temporary folder.

    Extracted files have numbers as names; names in the archive are never used as paths.
    """
    path = check_path("bundle", bundle, RunError)
    check_limit("bundle_bytes", size_of(path, RunError, "name a bundle that 'evenhand bundle' wrote"), path)
    with open_file(path, RunError) as file:
        # An archive that claims more than its size is refused before it is read.
        with open_archive(file, path, "a bundle", "bundle_entries", "bundle_bytes", RunError):
            file.seek(0)
        whole = hashlib.file_digest(file, "sha256").hexdigest()
    with tempfile.TemporaryDirectory(prefix="evenhand-") as folder:
        parts, problems = _laid_out(path, Path(folder))
        manifest = _manifest(path, parts, problems)
        _compare(manifest, parts, problems)
        if parts and not problems:
            _check_form(path, parts, problems)
        run = _run_directory(parts, Path(folder) / "run")
        checked = BundleCheck(whole, problems, manifest, tuple(sorted(parts)))
        if checked.replayable:
            _check_readable_parts(run, manifest, parts, problems)
        yield checked, run


def bundled_model(checked: BundleCheck, folder: Path) -> tuple[str, Path]:
    """Return the name and the path of the bundle's model, beside the folder that ``opened`` returned."""
    names = [name for name in checked.members if name.startswith("model/") and name in checked.manifest["members"]]
    if not names:
        raise RunError(f"the bundle does not include its model ({checked.manifest['model']})", remedy=PASS_MODEL)
    if names[0] in checked.problems:
        raise RunError(f"the bundle's model was changed ({names[0]})", remedy=PASS_MODEL)
    # A model is named after its file, so the file gets its own name back, made safe.
    place = folder.parent / "model" / (member(Path(names[0]).name)[-80:].lstrip(".") or "model")
    if not place.exists():
        place.parent.mkdir()
        (folder.parent / f"{checked.members.index(names[0])}{Path(names[0]).suffix}").rename(place)
    return names[0], place


@contextmanager
def known_as(name: str, path: Path) -> Iterator[None]:
    """Rename the temporary path of a part in errors to its name in the bundle."""
    try:
        yield
    except EvenhandError as error:
        error.rename(str(path), name)
        raise


def compare_file(checked: BundleCheck, what: str, path: Path) -> None:
    """Add a problem if a file of the user differs from the one in the manifest."""
    known = {**checked.manifest["members"], **checked.manifest["left_out"]}
    entries = {name: entry for name, entry in known.items() if name.startswith(f"{what}/")}
    if not path.is_file():
        raise RunError("must be an existing file", parameter=what, value=str(path))
    for name, entry in entries.items():
        if digest(path)[0] != entry["sha256"]:
            checked.problems[f"--{what} {path}"] = f"it is not the {what} that was bundled as {name}"


def _laid_out(path: Path, folder: Path) -> tuple[dict[str, Part], dict[str, str]]:
    """Extract every readable part into the folder."""
    problems: dict[str, str] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            names = [entry.filename for entry in entries]
            read: dict[str, Part] = {}
            for number, name in enumerate(sorted(set(names))):
                if names.count(name) > 1:
                    problems[name] = "it occurs more than once"
                entry = entries[names.index(name)]
                target = folder / f"{number}{Path(name).suffix}"
                if reason := _copy(archive, entry, target):
                    problems[name] = reason
                read[name] = target
            return read, problems
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise RunError(f"{path} cannot be read as a bundle ({error!s:.100})", remedy="get an undamaged copy") from None


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


def _manifest(path: Path, parts: dict[str, Part], problems: dict[str, str]) -> dict[str, Any]:
    if MANIFEST not in parts:
        raise RunError(f"{path} has no {MANIFEST}, so it is not a complete bundle", remedy="get an undamaged copy")
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
        raise RunError(
            f"{path} is a bundle of version {manifest.get('version')!r}",
            remedy="read it with a newer version of evenhand",
        )
    return dict(manifest)


def _compare(manifest: dict[str, Any], parts: dict[str, Part], problems: dict[str, str]) -> None:
    """Compare the parts with the manifest."""
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
    """Pack the parts again: bytes hidden between or around them, or in headers, show as a difference."""
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


def _check_readable_parts(
    directory: Path, manifest: dict[str, Any], parts: dict[str, Part], problems: dict[str, str]
) -> None:
    """Check that the manifest and the parts for readers agree with the run's own files."""
    try:
        with known_as("run", directory):
            run = Run.load(directory)
            parts_again, facts_again = readable_parts(run), facts(run)
    except (EvenhandError, LookupError, ArithmeticError, ValueError, TypeError) as error:
        problems["run"] = f"it cannot be read ({plain(str(error))[:200]})"
        return
    for name, text in parts_again.items():
        if name in parts and name not in problems and digest(parts[name]) != digest(text):
            problems[name] = "it does not match the run's own files"
    other = [key for key, value in facts_again.items() if manifest.get(key, ...) != json.loads(json.dumps(value))]
    if other:
        problems[MANIFEST] = f"it does not match the run's own files ({', '.join(other)})"


def pack(file: IO[bytes], parts: Mapping[str, Part]) -> None:
    """Write uncompressed parts in the order of their names and with one date, so that bytes depend on parts alone."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(parts):
            part = parts[name]
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.create_system, entry.external_attr = 3, 0o600 << 16
            entry.file_size = len(part) if isinstance(part, bytes) else part.stat().st_size
            with archive.open(entry, "w") as target:
                if isinstance(part, bytes):
                    target.write(part)
                else:
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, target, 2**20)


def digest(part: Part) -> tuple[str, int]:
    """Return the SHA-256 and the size of a part."""
    if isinstance(part, bytes):
        return hashlib.sha256(part).hexdigest(), len(part)
    with part.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), part.stat().st_size
