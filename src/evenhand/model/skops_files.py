"""Files of skops, checked before skops reads them, and skops itself, imported at half its cost."""

from __future__ import annotations

import io
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evenhand._files import FREE, check_array, check_limit, exceeded, limit, open_archive, open_file, parse_json
from evenhand.errors import MissingExtra, ModelError

_SCHEMA = "schema.json"
_VALUES = 20
"""Values in the schema for each object of a model; files that skops writes have about five."""
_WALKED = "sklearn.externals.array_api_compat.torch"


def import_skops(purpose: str) -> Any:
    """Import skops.io; where torch is installed, without it.

    To list the estimators that may be loaded, skops has scikit-learn import each of its packages. One of them, an
    adapter that scikit-learn needs for tensors only, imports torch: half of the time and the memory. While skops is
    imported that package is passed over, as it is where there is no torch.
    """
    hidden = _WALKED not in sys.modules and "skops.io" not in sys.modules
    if hidden:
        sys.modules[_WALKED] = None  # type: ignore[assignment]
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtra("skops", "skops", purpose) from error
    finally:
        if hidden:
            del sys.modules[_WALKED]
    return skops.io


def check_skops(path: Path) -> None:
    """Raise where reading a file with skops could take more time or memory than a file of its size should.

    skops reads the schema at once, makes an object of a few kilobytes for each of its nodes, follows shared nodes as
    often as they are used, and reads an array as often as it is named. All of that can be counted from the schema and
    the archive's directory, so that no process of its own is needed to bound it.
    """
    if find_spec("skops") is None:
        raise MissingExtra("skops", "skops", f"reading {path.name}")
    with (
        open_file(path, ModelError) as file,
        open_archive(file, path, "skops", "archive_entries", "model_bytes", ModelError) as archive,
    ):
        entries = {entry.filename: entry.file_size for entry in archive.infolist()}
        if _SCHEMA not in entries:
            raise ModelError(f"{path}: it cannot be read as skops (there is no {_SCHEMA} in it). Save the model again.")
        check_limit("json_bytes", entries[_SCHEMA], path)
        try:
            schema = parse_json(archive.read(_SCHEMA), path, _VALUES * limit("model_nodes"))
        except ValueError as error:
            raise ModelError(
                f"{path}: it cannot be read as skops ({str(error)[:200]}). Save the model again."
            ) from None
        counted = _Counter(schema, entries, path)
        check_limit("model_nodes", counted.nodes, path)
        most = max(FREE, limit("unpack_ratio") * path.stat().st_size)
        check_limit("unpack_ratio", counted.bytes, path, most=most)
        for name in counted.files & entries.keys():
            _check_content(archive, name, path)


class _Counter:
    """Counts the nodes that skops will visit, and the bytes of the entries that it will read.

    skops makes one node for each id, from whichever it meets first, and follows it wherever that id is mentioned. Which
    parts of the schema it follows, and in which order, differs between its kinds of nodes; so each mention counts as
    the largest node that has the id, wherever that stands.
    """

    def __init__(self, schema: Any, entries: dict[str, int], path: Path) -> None:
        self.entries, self.path, self.bytes = entries, path, 0
        self.files: set[str] = set()
        self._same: dict[Any, list[dict[str, Any]]] = {}
        self._counted: dict[Any, int | None] = {}
        self._look(schema)
        try:
            self.nodes = self._count(schema)
        except RecursionError:
            raise exceeded("nesting", "more than Python can follow", path) from None

    def _look(self, value: Any) -> None:
        """Find the nodes of each id, and what is read of the archive."""
        if isinstance(value, list):
            for part in value:
                self._look(part)
        elif isinstance(value, dict):
            if _has_id(value):
                self._same.setdefault(value["__id__"], []).append(value)
            file = value.get("file")
            if isinstance(file, str):
                self.files.add(file)
                self.bytes += self.entries.get(file, 0)
            self._look(list(value.values()))

    def _count(self, value: Any) -> int:
        """Count a value and all in it; a node that was met before counts with all in it once more."""
        if isinstance(value, list):
            return sum(map(self._count, value))
        if not isinstance(value, dict):
            return 0
        if not _has_id(value):
            return self._inside(value)
        name = value["__id__"]
        if name not in self._counted:
            self._counted[name] = None
            self._counted[name] = max(map(self._inside, self._same[name]))
        count = self._counted[name]
        if count is None:
            raise ModelError(f"{self.path}: it holds an object that is part of itself. Save the model again.")
        return count

    def _inside(self, node: dict[str, Any]) -> int:
        return ("__loader__" in node) + self._count(list(node.values()))


def _has_id(node: dict[str, Any]) -> bool:
    return isinstance(node.get("__id__"), int | str | float)


def _check_content(archive: zipfile.ZipFile, name: str, path: Path) -> None:
    """Raise where an array claims more values than it has; sparse matrices are archives of arrays."""
    where, size = f"{path}: {name[:60]}", archive.getinfo(name).file_size
    if name.lower().endswith(".npy"):
        with archive.open(name) as stream:
            check_array(stream, size, where, ModelError)
        return
    with archive.open(name) as stream:
        if stream.read(4) != b"PK\3\4":
            return
    inner = io.BytesIO(archive.read(name))
    with open_archive(inner, where, "a sparse matrix", "archive_entries", "model_bytes", ModelError) as arrays:
        for entry in arrays.infolist():
            with arrays.open(entry) as stream:
                check_array(stream, entry.file_size, where, ModelError)
