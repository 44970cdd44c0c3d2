"""What a curve has told, an equal curve tells again without computing: for tests that ask the same many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from shuffledp.certificates.certify import ClaimRequest
from shuffledp.certificates.mechanism_evidence import MechanismEvidence
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.lower_bounds import AttackCurve
from tests import shared_results

Key = Callable[..., Hashable]
CACHED_RESULTS: dict[tuple[type, str], dict[Hashable, Any]] = {}
"""What was told, by all modules of a process that use this."""


def _curve_key(curve: PrivacyCurve | AttackCurve, *given: Any, **named: Any) -> Hashable:
    (at,) = (*given, *named.values())
    return type(curve), curve, np.asarray(at, dtype=np.float64).tobytes()


CACHED_METHODS: list[tuple[type, str, Key]] = [
    (PrivacyCurve, "epsilon", _curve_key),
    (PrivacyCurve, "delta", _curve_key),
    (PrivacyCurve, "profile", _curve_key),
    (AttackCurve, "epsilon", _curve_key),
    # A proof is one of the whole file, and of nothing else.
    (MechanismEvidence, "prove", lambda backing, claim, notice: (type(backing), claim.text())),
    (ClaimRequest, "build_claim", lambda request: request),
]


@contextmanager
def cache_curves() -> Iterator[None]:
    """Curves are data: equal ones give the same numbers to the last bit (tests/privacy/test_record.py).

    So are the questions of certificates, and claims. Which curve is asked, and what, is still up to who asks. Refusals
    are not kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        for kind, question, key in CACHED_METHODS:
            known = CACHED_RESULTS.setdefault((kind, question), {})
            patch.setattr(kind, question, _cache_method(getattr(kind, question), key, known))
        yield


def _cache_method(ask: Any, key_of: Key, known: dict[Hashable, Any]) -> Any:
    def asked(*given: Any, **named: Any) -> Any:
        key = key_of(*given, **named)
        if key not in known:
            with shared_results.WORK.measure():
                known[key] = ask(*given, **named)
        return known[key]

    return asked
