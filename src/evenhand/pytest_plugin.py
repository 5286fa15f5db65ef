"""The pytest plugin: an audit as a test, which tries the findings of earlier runs first.

::

    import evenhand as eh
    from loans import decide

    def test_loans_are_even_handed(evenhand_audit):
        evenhand_audit(decide, eh.Space.load("space.toml"))
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from evenhand.estimates.result import Limit
    from evenhand.regression_corpus import Corpus
    from evenhand.runs.pair_sentences import Pair
    from evenhand.runs.run import Run

AUDITOR: pytest.StashKey[Auditor] = pytest.StashKey()
FOLDER = ".evenhand"
SHOWN = 3
LIMITS = ("fail_above", "fail_on_finding")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("evenhand", "audits of models")
    group.addoption(
        "--evenhand-no-cases",
        action="store_true",
        help="Start a new search: do not try the findings of earlier runs first.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "fairness(fail_above=None, fail_on_finding=None, **settings): defaults for evenhand_audit",
    )


@pytest.fixture
def evenhand_audit(request: pytest.FixtureRequest) -> Auditor:
    """Audit a model; the test fails on any confirmed finding, or if the rate is above ``fail_above``."""
    settings: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("fairness"))):
        if mark.args:
            raise pytest.UsageError(f"@pytest.mark.fairness takes settings by name (seed=1), got {mark.args!r}")
        _check_mark(mark.kwargs)
        settings |= mark.kwargs
    config, node = request.config, request.node
    auditor = Auditor(config.rootpath / FOLDER, node.nodeid, settings, not config.getoption("evenhand_no_cases"))
    node.stash[AUDITOR] = auditor
    return auditor


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that carries the mark and passes without an audit: it would be green whatever the model does."""
    yield
    auditor = item.stash.get(AUDITOR, None)
    # A mark of a class or a module gives defaults to those of its tests that audit; not all have to.
    marked = any(mark.name == "fairness" for mark in item.own_markers)
    if marked and (auditor is None or not auditor.called):
        _fail("a test marked fairness has to call evenhand_audit(model, space); this one audits nothing", [])


def _arguments() -> list[str]:
    """Name the settings of ``eh.audit``."""
    from inspect import signature

    from evenhand.runs.audit import audit

    return [name for name in signature(audit).parameters if name not in ("model", "space")]


def _check_mark(settings: dict[str, Any]) -> None:
    """Raise if a mark has an unknown setting."""
    from evenhand.config.file import in_python
    from evenhand.spaces.attributes import suggest

    names = [*LIMITS, "retry", *_arguments()]
    for name in settings:
        if name not in names:
            hint = in_python(name) or suggest(name, names)
            raise pytest.UsageError(f"@pytest.mark.fairness has no setting {name!r}; {hint}")


class Auditor:
    """What the fixture returns: called like ``eh.audit``, with a limit."""

    def __init__(self, folder: Path, test: str, settings: dict[str, Any], retry: bool = True) -> None:
        self.folder, self.test, self.settings, self.retry = folder, test, settings, retry
        self._calls = 0

    @property
    def called(self) -> bool:
        """Whether anything was audited."""
        return self._calls > 0

    def __call__(
        self, model: Any, space: Any, *, fail_above: Any = None, fail_on_finding: bool | None = None, **settings: Any
    ) -> Run:
        """Audit a model and fail the test if a limit is exceeded.

        Parameters
        ----------
        model, space
            As of ``eh.audit``.
        fail_above
            The largest share of individuals that may be treated differently, such as ``"1%"``. The estimate of the run
            decides; a test with too few tests to decide fails too, and says how many more it needs.
        fail_on_finding
            Whether any confirmed finding fails the test; by default if there is no ``fail_above``.
        settings
            Any other argument of ``eh.audit``. ``retry=False``: do not try the findings of earlier runs first.
        """
        __tracebackhide__ = True
        from evenhand.estimates.result import Limit

        if fail_above is None and fail_on_finding is None:
            # Limits of a mark are defaults together.
            fail_above, fail_on_finding = (self.settings.get(name) for name in LIMITS)
        limit = None if fail_above is None else Limit.of(fail_above)
        strict = limit is None if fail_on_finding is None else fail_on_finding
        retry = settings.pop("retry", self.settings.get("retry", self.retry))
        settings = {name: value for name, value in self.settings.items() if name in _arguments()} | settings
        self._calls += 1
        return self._search(model, space, limit, strict, settings, retry)

    def _search(
        self, model: Any, space: Any, limit: Limit | None, strict: bool, settings: dict[str, Any], retry: bool
    ) -> Run:
        __tracebackhide__ = True
        from evenhand.estimates.result import Outcome, outcome_of_findings
        from evenhand.regression_corpus import Corpus
        from evenhand.runs.audit import audit
        from evenhand.runs.pair_sentences import REAL, select_pairs

        # A test may audit several models: each call has its own cases.
        cases = Corpus(self.folder, self.test if self._calls == 1 else f"{self.test}#{self._calls}")
        if retry and strict and (still := _retry(cases, model, space, settings)):
            _fail(f"{len(still):,} of the cases kept in {cases.path.name} are still treated differently", still)
        run = audit(model, space, **settings)
        if strict and (outcome := outcome_of_findings(run)) is not Outcome.PASS:
            pairs = select_pairs(run, 10)
            if outcome is Outcome.UNDECIDED:
                _fail(
                    f"too few tests to decide: {run.tests:,} were judged before {run.ended}, and none of {run.found:,} "
                    "findings is confirmed",
                    pairs,
                )
            kept = _keep(cases, select_pairs(run, 10, show=REAL))
            _fail(f"{run.found:,} of {run.tests:,} tests are treated differently; none is allowed{kept}", pairs)
        if limit is not None and limit.of_run(run) is not Outcome.PASS:
            _fail(limit.words(run), select_pairs(run, 10))
        _warn(run)
        return run


def _retry(cases: Corpus, model: Any, space: Any, settings: dict[str, Any]) -> Sequence[Pair]:
    """Ask about the cases of earlier runs; wrong arguments are left for the audit to reject."""
    from evenhand.spaces.base import AnySpace

    if not isinstance(space, AnySpace):
        return []
    return cases.retry(model, cast(Any, space), settings.get("criterion"), settings.get("seed", 0))


def _keep(cases: Corpus, pairs: Sequence[Pair]) -> str:
    """Keep cases for the next time; a failure to do so is only mentioned, because the result counts."""
    from evenhand.errors import EvenhandError

    try:
        cases.save([pair.kept for pair in pairs])
    except OSError as error:
        return f" (cases cannot be kept in {cases.path}: {error.strerror})"
    except EvenhandError as error:
        return f" (cases are not kept: {error})"
    return ""


def _warn(found: Run) -> None:
    """Warn in the summary if a test passes because the model does not use an attribute, or seems not to."""
    from evenhand.errors import UnusedWarning

    if not found.note:
        return
    try:
        # At the line that called the fixture.
        warnings.warn(f"evenhand: {found.note}", UnusedWarning, stacklevel=4)
    except UnusedWarning:
        # Where all warnings are errors it is still only a warning: the limit is kept, so the test passes.
        with warnings.catch_warnings():
            warnings.simplefilter("always", UnusedWarning)
            warnings.warn(f"evenhand: {found.note}", UnusedWarning, stacklevel=4)


def _fail(reason: str, pairs: Sequence[Pair]) -> None:
    __tracebackhide__ = True
    shown = [f"  {number}. {pair.sentence}" for number, pair in enumerate(pairs[:SHOWN], 1)]
    more = [f"  and {len(pairs) - SHOWN:,} more"] if len(pairs) > SHOWN else []
    pytest.fail("\n".join([f"evenhand: {reason}", *shown, *more]), pytrace=False)
