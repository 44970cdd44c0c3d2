"""Our own suites as functions that anybody can call: conformance of mechanisms, soundness of bounds, engine contracts.

They need no test framework; in a test, ``check_mechanism(mine)`` is one line.
"""

from shuffledp.testing.bound_check import check_bound as check_bound
from shuffledp.testing.checked import Checked as Checked, ConformanceError as ConformanceError
from shuffledp.testing.conformance import check_mechanism as check_mechanism
from shuffledp.testing.engine_check import check_engine as check_engine
