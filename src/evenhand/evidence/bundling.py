"""Writes a run as one archive, with a manifest of hashes."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evenhand._version import __version__
from evenhand.engine.store import SOURCE, as_path
from evenhand.errors import DIRECTORY, ConfigError, RunError
from evenhand.evidence.archive import FINDINGS, MANIFEST, RUN_FILES, SPACE, SPACE_JSON, Part, digest, pack
from evenhand.exporting.csv import write_csv
from evenhand.exporting.formats import write
from evenhand.run import Run
from evenhand.sources import Source, unchanged
from evenhand.spaces.toml import dumps

VERSION = 1


def bundle(
    run: Run | str | Path,
    path: str | Path,
    model: str | Path | None = None,
    data: str | Path | None = None,
    *,
    rows: bool = True,
) -> str:
    """Write a kept run as one archive that can be checked and replayed; return the archive's SHA-256.

    The same run gives the same bytes. Write the digest down where the archive is not: whoever can change the archive
    can change the manifest in it as well.

    Parameters
    ----------
    run
        A run that is kept in a directory, or that directory; what is there is bundled.
    path
        The .zip file to write.
    model
        The model's file; by default the one that the command has written down.
    data
        The file of data rows; by default the one that the command has written down.
    rows
        Whether to put the data into the archive. If not, its hash is kept. Findings of a search that starts from data
        may be people of it.

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
    directory = run.directory if isinstance(run, Run) else run
    if directory is None:
        raise RunError("only a run that is kept can be bundled", remedy=("audit with ", DIRECTORY))
    # From its files, even where it is at hand, so that all of the bundle says what they say. A link among them, which
    # could bring any file of this machine into an archive for others, is refused.
    run = Run.load(directory)
    source, path = Source.read(run), as_path(path, "path")
    parts = _run_parts(run)
    model_part = _file("model", model, source.model, source.model_sha256)
    data_part = _file("data", data, source.data, source.data_sha256)
    for part in (model_part, data_part) if rows else (model_part,):
        parts |= part
    parts[MANIFEST] = _json(_manifest(run, parts, {} if rows else data_part))
    write(path, lambda file: pack(file, parts))
    return digest(path)[0]


def findings_csv(run: Run) -> bytes:
    """Give all findings as they stand in a bundle."""
    text = io.BytesIO()
    write_csv(run, text)
    return text.getvalue()


def _run_parts(run: Run) -> dict[str, Part]:
    assert run.directory is not None
    kept: dict[str, Part] = {
        f"run/{name}": run.directory / name for name in RUN_FILES if (run.directory / name).is_file()
    }
    if f"run/{SOURCE}" in kept:
        kept[f"run/{SOURCE}"] = _json(asdict(Source.stored(run).portable()))
    return {**kept, **told(run)}


def told(run: Run) -> dict[str, Part]:
    """Give what people read of a run: its findings as a table, its space as a file."""
    return {FINDINGS: findings_csv(run), **_space(run.space)}


def _space(space: Any) -> dict[str, Part]:
    if space.supports("attributes"):
        try:
            return {SPACE: dumps(space).encode()}
        except ConfigError:
            # Half a surrogate pair, which TOML cannot have, is written as its escape in JSON.
            pass
    return {SPACE_JSON: _json(space.describe())}


def _file(what: str, given: str | Path | None, recorded: str | None, known: str | None) -> dict[str, Part]:
    """Find the file of the model or of the data; none, where the run was not made with one."""
    if given is not None:
        file = as_path(given, what)
        if not file.is_file():
            raise RunError(f"{given}: there is no such file; name the {what}'s file")
    elif recorded is not None and known is not None:
        file = unchanged(recorded, known, what)
    else:
        return {}
    return {f"{what}/{member(file.name)}": file}


def member(name: str) -> str:
    """Make a name that every system and zip program takes.

    >>> member("my model.onnx")
    'my_model.onnx'
    """
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)


def _manifest(run: Run, parts: dict[str, Part], left_out: dict[str, Part]) -> dict[str, Any]:
    return {
        "format": "evenhand-bundle",
        "version": VERSION,
        "evenhand": __version__,
        **facts(run),
        "members": {name: _entry(part) for name, part in parts.items()},
        "left_out": {name: _entry(part) for name, part in left_out.items()},
    }


def facts(run: Run) -> dict[str, Any]:
    """Give what the manifest tells of a run."""
    identity, source = run.identity, Source.stored(run)
    kept = identity.to_dict() | {"criterion": repr(identity.criterion), "space": run.space.digest}
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
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _entry(part: Part) -> dict[str, Any]:
    sha256, size = digest(part)
    return {"sha256": sha256, "size": size}
