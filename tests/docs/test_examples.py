"""The examples in docstrings are run: each says what the package does today."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import shuffledp

PACKAGES = ("privacy", "bounds", "composition", "metric", "tradeoff")
OPTIONAL = {"shuffledp.privacy.bridge"}
"""Modules that need an extra."""
MODULES = [
    module.name
    for package in PACKAGES
    for module in pkgutil.iter_modules([f"{shuffledp.__path__[0]}/{package}"], f"shuffledp.{package}.")
    if module.name not in OPTIONAL
]
PUBLIC = """
    amplify compare compose subsample poisson renyi gaussian_limit trade_off privacy_curve
    PrivacyCurve BoundValue VariationRatio AmplifiedMetric MechanismMetric LocalMetricSolver AttackRisk
    PiecewiseTradeOff
"""


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    """Every ``>>>`` prints what the docstring says."""
    found = doctest.testmod(importlib.import_module(name), report=True)
    assert found.failed == 0


@pytest.mark.parametrize("name", PUBLIC.split())
def test_what_is_public_has_an_example(name: str) -> None:
    """Parameters in words and one call that runs."""
    assert ">>>" in (getattr(shuffledp, name).__doc__ or "")
