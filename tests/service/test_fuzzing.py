"""Requests that a tool makes out of the interface's own description: nothing undocumented, and never a 500."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from shuffledp.service.ingest import REPORTS_MEDIA_TYPE
from tests.service import ANALYST, create_campaign, plan_for
from tests.service.server import accept_campaign, run_server


@schemathesis.serializer(REPORTS_MEDIA_TYPE)
def bytes_of(_: Any, value: Any) -> bytes:
    """A body of whatever was generated."""
    return value if isinstance(value, bytes) else getattr(value, "data", None) or str(value).encode()


@pytest.mark.exhaustive
def test_requests_out_of_the_description(tmp_path: Path) -> None:
    """Every operation, as documented and against it; with the real campaign and the analyst's secret, and without."""
    campaign = create_campaign(plan_for(30))
    paths = accept_campaign(tmp_path / "state", campaign)
    token = ANALYST.fetch_token(campaign.nonce)
    with run_server(paths.state) as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
        asked = 0
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(
                max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
            )
            def check(case: schemathesis.Case) -> None:
                nonlocal asked
                for known in (False, True):
                    headers = {"Authorization": f"Bearer {token}"} if known else {}
                    if known and case.path_parameters:
                        mine = {"id": campaign.id, "number": 1}
                        case.path_parameters |= {name: mine[name] for name in mine.keys() & case.path_parameters.keys()}
                    response = case.call(headers=headers)
                    # But for the one check that takes any bytes for reports of the campaign's size.
                    assert response.status_code < 500
                    case.validate_response(response, excluded_checks=[positive_data_acceptance])
                    asked += 1

            check()
    assert asked > 150
