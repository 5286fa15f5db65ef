"""The command ``evenhand bundle``."""

from __future__ import annotations

from pathlib import Path

from evenhand.cli import options
from evenhand.cli.faults import say


def bundle(
    run: options.RunDirectory,
    output: options.BundleFile = None,
    model: options.BundleModel = None,
    data: options.BundleData = None,
    no_rows: options.NoRows = False,
    config: options.ConfigOption = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a kept run as one archive, with everything it takes to check and to replay it.

    The digest that is printed tells this archive from any other: write it down elsewhere.
    """
    given = locals()
    from evenhand.cli import summary
    from evenhand.cli.config import read
    from evenhand.cli.places import said
    from evenhand.evidence import bundle as pack
    from evenhand.evidence import verify

    wanted = read(config, said("bundle", given)).bundle
    path = Path(wanted.output or f"{run.resolve().name}.zip")
    digest = pack(run, path, wanted.model, wanted.data, rows=not wanted.no_rows)
    if quiet:
        return
    manifest = verify(path).manifest
    if as_json:
        summary.emit({"bundle": str(path), "sha256": digest, "manifest": manifest})
        return
    for name, entry in sorted(manifest["members"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name}")
    for name, entry in sorted(manifest["left_out"].items()):
        say(f"{entry['sha256'][:16]}  {entry['size']:>12,}  {name} (left out)")
    if not any(name.startswith("model/") for name in manifest["members"]):
        say(f"The model ({manifest['model']}) is no file and is not in it.")
    say(f"Wrote {path}, SHA-256 {digest}")
