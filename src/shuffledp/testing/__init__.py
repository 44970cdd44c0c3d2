"""Conformance suites that anybody can call: of mechanisms, of the soundness of bounds, and of engines.

They need no test framework; in a test, ``check_mechanism(mine)`` is one line.
"""

from shuffledp.testing._check_framework import CheckResult as CheckResult, ConformanceError as ConformanceError
from shuffledp.testing.bounds import check_bound as check_bound
from shuffledp.testing.engines import check_engine as check_engine
from shuffledp.testing.mechanisms import check_mechanism as check_mechanism
