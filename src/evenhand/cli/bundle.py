"""The command ``evenhand bundle``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.cli.faults import say

if TYPE_CHECKING:
    from evenhand.config.file import Config


def bundle(config: Config) -> None:
    """Write a run as one archive, and print its digest."""
    from evenhand.cli import summary
    from evenhand.runs.bundle import bundle as pack
    from evenhand.runs.bundle import check_bundle

    call, wanted, run = config.call, config.bundle, Path(config.call.run)
    path = Path(wanted.output or f"{run.resolve().name}.zip")
    digest = pack(run, path, wanted.model, wanted.data, rows=not wanted.no_rows)
    if call.quiet:
        return
    manifest = check_bundle(path).manifest
    if call.json:
        summary.emit({"bundle": str(path), "sha256": digest, "manifest": manifest})
        return
    for name, entry in sorted(manifest["members"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name}")
    for name, entry in sorted(manifest["left_out"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name} (left out)")
    if not any(name.startswith("model/") for name in manifest["members"]):
        say(f"The model ({manifest['model']}) is no file and is not in it.")
    say(f"Wrote {path}, SHA-256 {digest}")
