"""What is described holds for whatever is sent: a bounded run of schemathesis."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from shuffledp.explorer.requests import OPENAPI_DOCUMENT
from tests.explorer.browser import PageServer

EXAMPLES = 8
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_dict(OPENAPI_DOCUMENT)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_no_request_is_an_error_of_ours(server: PageServer, case: Case) -> None:
    """Every answer has a status, a type and a form that the description names."""
    case.headers = {"accept": "application/json"}
    case.call_and_validate(base_url=server.url.rstrip("/"), checks=CHECKS)
