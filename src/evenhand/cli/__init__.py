"""The command ``evenhand``.

Exit status: 0 done and within the threshold, 1 more findings than ``--fail-above`` allows (or a replay that does not
hold, or new findings with ``--fail-on-new``), 2 wrong usage or input, 3 too few tests to say whether a share is within
the threshold, 130 interrupted.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process; this ends it."""
    from evenhand.cli.app import app
    from evenhand.cli.faults import flushed

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name that the terminal's encoding lacks is shown escaped; it must not end an audit.
            stream.reconfigure(errors="backslashreplace")
    status = 0
    try:
        app(prog_name="evenhand")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 2
    sys.exit(flushed(status))
