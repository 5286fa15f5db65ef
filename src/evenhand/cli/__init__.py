"""The command ``evenhand``.

Exit status: 0 done and within the threshold, 1 more findings than ``--fail-above`` allows (or a replay that does not
confirm every finding, or new findings with ``--fail-on-new``), 2 wrong usage or input, 3 too few samples to compare a
rate with the threshold, 130 interrupted, 143 terminated (SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; the command stops as after Ctrl-C."""


def main() -> None:
    """Run the command with the arguments of the process, and exit."""
    terminated = False
    own = os.getpid()

    def terminate(*_: object) -> None:
        nonlocal terminated
        if os.getpid() != own:
            # A child that a model has forked ends by the default action.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        terminated = True
        raise Terminated

    try:
        signal.signal(signal.SIGTERM, terminate)
        status = _run()
    except KeyboardInterrupt:
        # Before the command began, or after it: a traceback would add nothing.
        sys.stderr.write(f"evenhand: {'terminated' if terminated else 'interrupted'}\n")
        status = INTERRUPTED
    # Everything is written: a signal may now end the process without a message.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(TERMINATED if terminated and status == INTERRUPTED else status)


def _run() -> int:
    from evenhand._interrupts import watched
    from evenhand.cli.app import app, flush

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Characters that the terminal's encoding lacks are escaped; they must not end an audit.
            stream.reconfigure(errors="backslashreplace")
    status = 0
    with watched():
        try:
            app(prog_name="evenhand")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 2
    return flush(status)
