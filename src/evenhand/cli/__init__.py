"""The command ``evenhand``.

Exit status: 0 done and within the limits; 1 a higher rate than ``--fail-above`` allows, a finding with
``--fail-on-finding``, a new finding with ``--fail-on-new``, or a replay that does not confirm every finding; 2 wrong
usage or input; 3 too few tests to compare a rate with its limit; 130 interrupted; 143 terminated (SIGTERM).
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
            # A child process that a model has forked ends by the default action.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        terminated = True
        raise Terminated

    try:
        signal.signal(signal.SIGTERM, terminate)
        status = _run()
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 turns a signal that arrives while a class is made into the cause of a RuntimeError.
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        # Before the command started, or after it ended: a traceback would add nothing.
        sys.stderr.write(f"evenhand: {'terminated' if terminated else 'interrupted'}\n")
        status = INTERRUPTED
    # Everything is written, so a signal may now end the process without a message.
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
