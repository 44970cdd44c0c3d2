"""The interface in OpenAPI 3.1, by hand; the tests hold it against what the server does."""

from __future__ import annotations

from typing import Any

from shuffledp.service.browser.static_route import described
from shuffledp.service.ingest import MOST_REPORTS, REPORTS_TYPE, TITLES
from shuffledp.version import __version__

ID = {"name": "id", "in": "path", "required": True, "description": "The campaign's id.",
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}  # fmt: skip
NUMBER = {"name": "number", "in": "path", "required": True, "description": "The round.",
          "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999}}  # fmt: skip
FILE = {"name": "file", "in": "path", "required": True, "schema": {"type": "string"},
        "description": "A file that the statement names."}  # fmt: skip
DIGEST = {"name": "digest", "in": "query", "required": True, "schema": {"type": "string"},
          "description": "The digest of what was received."}  # fmt: skip
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
BINARY = {"schema": {"type": "string", "format": "binary"}}
ANALYST: list[dict[str, list[str]]] = [{"analyst": []}]


def _answers(good: dict[int, tuple[str, str | None]], *refused: int) -> dict[str, Any]:
    """What is said when it works, each with the type of its body, and the statuses of problems."""
    told: dict[str, Any] = {}
    for status, (words, kind) in good.items():
        told[str(status)] = {"description": words} | ({} if kind is None else {"content": {kind: {}}})
    return told | {str(status): {"description": TITLES[status], "content": PROBLEM} for status in refused}


DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "shuffledp shuffler",
        "version": __version__,
        "description": "Takes sealed reports and hands mixed ones to the campaign's analyst. A request whose head has "
        "more than 16 KiB or 100 fields is answered by 431, and its connection closed.",
    },
    "paths": {
        "/v1/campaigns/{id}": {
            "parameters": [ID],
            "get": {
                "summary": "The campaign document.",
                "responses": _answers({200: ("It never changes.", "application/json")}, 404, 503),
            },
        },
        "/v1/campaigns/{id}/round": {
            "parameters": [ID],
            "get": {
                "summary": "The signed notice of the round that is open.",
                "responses": _answers({200: ("Seal reports to its key.", "application/json")}, 404, 410, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/reports": {
            "parameters": [ID, NUMBER],
            "post": {
                "summary": f"Send 1 to {MOST_REPORTS} reports.",
                "description": "Sending the same bytes again is answered alike, and counts once.",
                "requestBody": {"required": True, "content": {REPORTS_TYPE: BINARY}},
                "responses": _answers(
                    {201: ("They are on disk.", None)}, 400, 404, 408, 410, 413, 415, 503, 507
                ),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}": {
            "parameters": [ID, NUMBER],
            "get": {
                "summary": "Where the round stands; how many took part only once it is mixed.",
                "security": ANALYST,
                "responses": _answers({200: ("The state.", "application/json")}, 401, 404, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/batch": {
            "parameters": [ID, NUMBER],
            "get": {
                "summary": "The signed statement about the batch.",
                "security": ANALYST,
                "responses": _answers({200: ("Its manifest and files.", "application/json")}, 401, 404, 503),
            },
            "delete": {
                "summary": "Say that the batch was received: it is deleted.",
                "parameters": [DIGEST],
                "security": ANALYST,
                "responses": _answers({204: ("It is, or was, handed over.", None)}, 401, 404, 409, 503),
            },
        },
        "/v1/campaigns/{id}/rounds/{number}/batch/{file}": {
            "parameters": [ID, NUMBER, FILE],
            "get": {
                "summary": "A file of sealed messages; parts of it by Range.",
                "security": ANALYST,
                "responses": _answers(
                    {
                        200: ("The file.", "application/vnd.apache.parquet"),
                        206: ("A part of it.", "application/vnd.apache.parquet"),
                        416: ("There is no such part.", None),
                    },
                    401,
                    404,
                    503,
                ),
            },
        },
        "/v1/openapi.json": {
            "get": {"summary": "This.", "responses": _answers({200: ("This.", "application/json")})},
        },
        **described(),
        "/healthz": {"get": {"summary": "It runs.", "responses": _answers({204: ("Yes.", None)})}},
        "/readyz": {"get": {"summary": "It can store.", "responses": _answers({204: ("Yes.", None)}, 503)}},
    },
    "components": {
        "securitySchemes": {"analyst": {"type": "http", "scheme": "bearer"}},
        "schemas": {
            "Problem": {
                "type": "object",
                "required": ["type", "title", "status"],
                "properties": {
                    "type": {"type": "string"},
                    "title": {"type": "string"},
                    "status": {"type": "integer"},
                },
            }
        },
    },
}  # fmt: skip
