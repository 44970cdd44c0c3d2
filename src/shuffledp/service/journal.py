"""The shuffler's log: a JSON object a line on stderr, about rounds and failures, never about requests."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any


def tell(event: str, **fields: Any) -> None:
    """Write one line."""
    print(_line(event, fields), file=sys.stderr, flush=True)


def _line(event: str, fields: dict[str, Any]) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return json.dumps({"time": moment, "event": event, **fields}, ensure_ascii=False)


class OneLine(logging.Formatter):
    """What the server below us has to say, in the same form; of an exception its type alone."""

    def format(self, record: logging.LogRecord) -> str:
        failed = record.exc_info[0] if record.exc_info else None
        words = {"level": record.levelname.lower(), "message": record.getMessage().partition("\n")[0]}
        return _line("server", words | ({} if failed is None else {"error": failed.__name__}))


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "shuffledp.service.journal.OneLine"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
    "loggers": {"uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False}},
}
"""For uvicorn: what it says of single requests, such as that one was none, is not written."""
