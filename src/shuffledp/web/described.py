"""The interface in OpenAPI 3.1, made of the same list as the addresses."""

from __future__ import annotations

from typing import Any

from shuffledp.version import __version__
from shuffledp.web.inquiry import OPERATIONS, Operation

PROBLEMS = {
    400: "It is not JSON, or nested too deeply.",
    408: "It did not come whole.",
    413: "It is too large.",
    415: "It is of another type.",
    422: "The command refuses, in a sentence; or it would take more time or memory than a question may.",
    503: "Many are waiting already; try again.",
}
ANSWER = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}},
          "application/x-ndjson": {"schema": {"type": "string"}}}  # fmt: skip
PROBLEM = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def _schema(operation: Operation) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(operation.required),
        "properties": {
            name: {**each.schema, **({"description": each.words} if each.words else {})}
            for name, each in operation.parameters.items()
        },
    }


def _path(operation: Operation) -> dict[str, Any]:
    good = {"200": {"description": "The command's own document.", "content": ANSWER}}
    refused = {str(status): {"description": words, "content": PROBLEM} for status, words in PROBLEMS.items()}
    return {
        "post": {
            "operationId": operation.name,
            "summary": operation.summary,
            "description": "Accept application/x-ndjson to be told how far it is, and what is known first, a line "
            "each, before the answer; closing the connection cancels it.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(operation)}}},
            "responses": good | refused,
        }
    }


def _read(identifier: str, summary: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    told = {"200": {"description": "As it is now.", "content": content}}
    return {"get": {"operationId": identifier, "summary": summary, "responses": told}}


DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "shuffledp explorer",
        "version": __version__,
        "description": "Each operation is a command of shuffledp; its answer is what the command prints with --json.",
    },
    "paths": {
        "/api/openapi.json": _read("openapi", "This."),
        "/api/tasks": _read("tasks", "What can be planned for, and the options that tell each."),
        "/api/watched": _read("watched", "Where the watched collections and campaigns stand."),
        **{f"/api/{name}": _path(each) for name, each in OPERATIONS.items()},
    },
    "components": {
        "schemas": {
            "Answer": {
                "type": "object",
                "required": ["command", "python", "answer", "files"],
                "properties": {
                    "command": {"type": "string", "description": "What to type for the same answer."},
                    "python": {"type": "string", "description": "The same in Python; empty where there is none."},
                    "answer": {"type": "object", "description": "What the command prints with --json."},
                    "files": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "Problem": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
        }
    },
}
