"""The command ``evenhand``.

Exit status: 0 done and within the threshold, 1 more findings than ``--fail-above`` allows (or a replay that does not
hold, or new findings with ``--fail-on-new``), 2 wrong usage or input, 3 too few tests to say whether a share is within
the threshold, 130 interrupted, 143 told to end (SIGTERM).
"""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]

INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """The system, or another program, told the command to end; it does what it does after Ctrl-C."""


def main() -> None:
    """Run the command with the arguments of the process; this ends it."""
    told_to_end = False
    own = os.getpid()

    def terminate(*_: object) -> None:
        nonlocal told_to_end
        if os.getpid() != own:
            # A child that a model has forked ends as if nobody had looked after the signal.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        told_to_end = True
        raise Terminated

    try:
        signal.signal(signal.SIGTERM, terminate)
        status = _run()
    except KeyboardInterrupt:
        # Before the command began, or after it: a traceback would say nothing more.
        sys.stderr.write(f"evenhand: {'told to end' if told_to_end else 'interrupted'}\n")
        status = INTERRUPTED
    # All is written: whoever is in a hurry now need not wait for Python to tidy up, or see it complain.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(TERMINATED if told_to_end and status == INTERRUPTED else status)


def _run() -> int:
    from evenhand._interrupts import watched
    from evenhand.cli.app import app, flushed

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name that the terminal's encoding lacks is shown escaped; it must not end an audit.
            stream.reconfigure(errors="backslashreplace")
    status = 0
    with watched():
        try:
            app(prog_name="evenhand")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 2
    return flushed(status)
