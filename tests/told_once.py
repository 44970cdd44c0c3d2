"""What a curve has told, an equal curve tells again without computing: for tests that ask the same many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from shuffledp.certificate.evidence import Backing
from shuffledp.certificate.points import PointQuestion
from shuffledp.privacy.attack import AttackCurve
from shuffledp.privacy.curve import PrivacyCurve

Key = Callable[..., Hashable]
KNOWN: dict[tuple[type, str], dict[Hashable, Any]] = {}
"""What was told, by all modules of a process that use this."""


def _at(curve: PrivacyCurve | AttackCurve, *given: Any, **named: Any) -> Hashable:
    (at,) = (*given, *named.values())
    return type(curve), curve, np.asarray(at, dtype=np.float64).tobytes()


QUESTIONS: list[tuple[type, str, Key]] = [
    (PrivacyCurve, "epsilon", _at),
    (PrivacyCurve, "delta", _at),
    (PrivacyCurve, "profile", _at),
    (AttackCurve, "epsilon", _at),
    # A proof is one of the whole file, and of nothing else.
    (Backing, "prove", lambda backing, claim, notice: (type(backing), claim.text())),
    (PointQuestion, "claim", lambda question: question),
]


@contextmanager
def told_once() -> Iterator[None]:
    """Curves are data: equal ones give the same numbers to the last bit (tests/privacy/test_record.py).

    So are the questions of certificates, and claims. Which curve is asked, and what, is still up to who asks. Refusals
    are not kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        for kind, question, key in QUESTIONS:
            known = KNOWN.setdefault((kind, question), {})
            patch.setattr(kind, question, _remembering(getattr(kind, question), key, known))
        yield


def _remembering(ask: Any, key_of: Key, known: dict[Hashable, Any]) -> Any:
    def asked(*given: Any, **named: Any) -> Any:
        key = key_of(*given, **named)
        if key not in known:
            known[key] = ask(*given, **named)
        return known[key]

    return asked
