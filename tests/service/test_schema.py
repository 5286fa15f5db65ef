"""The API against its own description, with random requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from evenhand.service.accounts import Accounts
from evenhand.service.app import make_app
from evenhand.service.library import Library
from evenhand.service.web import Service
from tests.helpers import optional

pytestmark = pytest.mark.slow
EXAMPLES = 8


def test_no_request_breaks_it(library: Library, here: None) -> None:
    schemathesis = optional("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

    app = make_app(Service(library, Accounts(library.database)))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "localhost"})
    checks = [not_a_server_error, status_code_conformance, content_type_conformance]
    seen: set[int] = set()
    paths = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        paths.add(operation.path)

        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(operation.as_strategy())
        def ask(case: Any) -> None:
            answer = case.call(base_url="http://localhost")
            seen.add(answer.status_code)
            case.validate_response(answer, checks=checks)

        ask()
    assert len(paths) > 20
    assert {200, 201, 404, 422} <= seen
