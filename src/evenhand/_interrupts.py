"""Ctrl-C is never lost, and never interrupts the recording of an answer.

Python raises ``KeyboardInterrupt`` wherever the main thread is at that moment. In a finaliser, or in other code that
catches everything, it is swallowed and the program continues. So during long work, an interrupt is remembered until it
is handled.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from evenhand.errors import RunError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Token(Protocol):
    """Ends a run from another thread; a ``threading.Event`` is one."""

    def is_set(self) -> bool:
        """Whether the run should end."""
        ...


class Cancelled(KeyboardInterrupt):
    """The token of a run was set; the run ends as after Ctrl-C."""


def check_cancel(cancel: Any) -> None:
    """Raise unless this is a token that can end a run."""
    if cancel is not None and not callable(getattr(cancel, "is_set", None)):
        raise RunError(
            "must be an object with is_set()", parameter="cancel", value=cancel, remedy="use a threading.Event"
        )


class _State:
    active = False
    held = 0
    arrived: type[KeyboardInterrupt] | None = None
    hook: Callable[[Any], object] = sys.__unraisablehook__


_state = _State()


@contextmanager
def watched() -> Iterator[None]:
    """Remember interrupts within this context; ``check``, or the end of the context, raises one that was swallowed.

    This works in the main thread, and only if the signal's handler raises ``KeyboardInterrupt``, as Python's own does.
    It can also be used as a decorator.

    >>> before = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     with watched():
    ...         try:
    ...             signal.raise_signal(signal.SIGINT)
    ...         except KeyboardInterrupt:
    ...             pass  # swallowed
    ...         check()
    ... except KeyboardInterrupt:
    ...     print("not lost")
    not lost
    >>> _ = signal.signal(signal.SIGINT, before)
    """
    if _state.active or not _in_main():
        yield
        return
    installed: dict[signal.Signals, tuple[Any, Any]] = {}
    hook, sys.unraisablehook = sys.unraisablehook, _quiet
    _state.hook = hook
    try:
        _state.active = True
        for number in SIGNALS:
            before = signal.getsignal(number)
            if callable(before):
                ours = _remembering(before)
                installed[number] = (before, ours)
                signal.signal(number, ours)
        yield
        check()
    finally:
        for number, (before, ours) in installed.items():
            # A handler that was installed in the meantime stays.
            if signal.getsignal(number) is ours:
                signal.signal(number, before)
        if sys.unraisablehook is _quiet:
            sys.unraisablehook = hook
        _state.active, _state.held, _state.arrived = False, 0, None


def check(cancel: Token | None = None) -> None:
    """Raise an interrupt that has arrived and was not handled yet; also raise if a token is set.

    >>> event = threading.Event()
    >>> check(event)
    >>> event.set()
    >>> try:
    ...     check(event)
    ... except Cancelled:
    ...     print("cancelled")
    cancelled
    """
    if cancel is not None and cancel.is_set():
        raise Cancelled
    if _state.arrived is not None and not _state.held and _in_main():
        raise _state.arrived


def mark_handled() -> None:
    """Mark an interrupt as handled."""
    if _in_main():
        # A run that was cancelled from another thread has not handled a Ctrl-C.
        _state.arrived = None


class _Held:
    """Holds interrupts back while something is recorded that must be recorded completely or not at all."""

    def __enter__(self) -> None:
        if _in_main():
            _state.held += 1

    def __exit__(self, *_: object) -> None:
        if _in_main():
            _state.held = max(0, _state.held - 1)
            check()


held = _Held()


def _quiet(unraisable: Any) -> None:
    """Print nothing about an interrupt in a finaliser: Python would report it as ignored, but it is not."""
    if _state.arrived is None or not issubclass(unraisable.exc_type, KeyboardInterrupt):
        _state.hook(unraisable)


def _in_main() -> bool:
    """Whether this is the thread in which Python handles signals."""
    return threading.current_thread() is threading.main_thread()


def _remembering(handler: Any) -> Any:
    def remember(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except KeyboardInterrupt as interrupt:
            _state.arrived = type(interrupt)
            if not _state.held:
                raise

    return remember
