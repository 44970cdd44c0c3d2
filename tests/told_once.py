"""What a curve has told, an equal curve tells again without computing: for tests that ask the same many times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from shuffledp.privacy.attack import AttackCurve
from shuffledp.privacy.curve import PrivacyCurve

QUESTIONS = [(PrivacyCurve, "epsilon"), (PrivacyCurve, "delta"), (PrivacyCurve, "profile"), (AttackCurve, "epsilon")]


@contextmanager
def told_once() -> Iterator[None]:
    """Curves are data: equal ones give the same numbers to the last bit (tests/privacy/test_record.py).

    Which curve is asked, and what, is still up to who asks. Refusals are not kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        for kind, question in QUESTIONS:
            patch.setattr(kind, question, _remembering(getattr(kind, question)))
        yield


def _remembering(ask: Any) -> Any:
    known: dict[Any, Any] = {}

    def asked(curve: PrivacyCurve | AttackCurve, *given: Any, **named: Any) -> Any:
        (at,) = (*given, *named.values())
        key = type(curve), curve, np.asarray(at, dtype=np.float64).tobytes()
        if key not in known:
            known[key] = ask(curve, *given, **named)
        return known[key]

    return asked
