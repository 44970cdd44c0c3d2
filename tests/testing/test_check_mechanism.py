"""The conformance suite passes a good mechanism, and fails each broken one by the right checks and sentences."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp._core.results_and_value_objects import Progress
from shuffledp.testing import CheckResult, ConformanceError, check_mechanism, sampling_checks
from shuffledp.testing._mechanism_case import MechanismCase
from shuffledp.testing.estimate_checks import without_a_table_the_estimate_has_the_stated_mean_and_variance
from shuffledp.testing.mechanism_checks import (
    without_a_table_it_is_refused,
    without_a_table_the_parameters_keep_the_promise,
)
from shuffledp.testing.mechanisms import CHECKS
from shuffledp.testing.sampling_checks import (
    chi_square,
    relative_entropy,
    relative_entropy_limit,
    the_messages_follow_the_table,
)
from tests import brute_force_cache
from tests.testing.broken_mechanisms import BROKEN_MECHANISMS, Good, TooLikely

pytestmark = pytest.mark.usefixtures("each_curve_once", "truths")


@pytest.fixture(scope="module")
def truths(shared_folder: Path) -> Iterator[None]:
    """Most of the broken ones have the law of the good one: brute force finds its worst dataset once."""
    with brute_force_cache.cache_worst_datasets(shared_folder):
        yield


@pytest.mark.exhaustive
def test_a_good_mechanism_passes() -> None:
    """Object or class; what does not apply is said, and the outcome reads well."""
    checked = check_mechanism(Good())
    assert checked.passed
    assert checked.failures == ()
    assert len(checked.ran) + len(checked.skipped) == len(CHECKS)
    assert str(checked) == f"Good(epsilon=1.0, options=3) passes all {len(checked.ran)} checks, 4 do not apply."
    assert check_mechanism(Good).passed


@pytest.mark.parametrize(
    ("mechanism", "failing", "words"), BROKEN_MECHANISMS, ids=[type(one).__name__ for one, *_ in BROKEN_MECHANISMS]
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_broken_mechanism_fails_for_the_right_reason(mechanism: Good, failing: set[str], words: str) -> None:
    """All failures are listed, no other ones, and the error is their list."""
    with pytest.raises(ConformanceError) as caught:
        check_mechanism(mechanism)
    checked = caught.value.checked
    assert {failure.check for failure in checked.failures} == failing
    assert words in " ".join(str(caught.value).split())
    assert all(str(failure).endswith(")") and ". (" in str(failure) for failure in checked.failures)
    assert f"fails {len(failing)} of {len(checked.ran)} checks" in str(caught.value)


def test_the_error_says_what_it_means_and_how_sure_it_is() -> None:
    """In one sentence each, numbered; it is an AssertionError, and survives pickling."""
    mechanism = BROKEN_MECHANISMS[0][0]
    with pytest.raises(AssertionError) as caught:
        check_mechanism(mechanism)
    text = " ".join(str(caught.value).split())
    assert re.fullmatch(
        r"TooHonest\(epsilon=1.0, options=3\) fails 1 of \d+ checks, 4 do not apply: 1\. The messages do not "
        r"follow the stated law: for input 0, χ² is [\d.]+ where at most 32\.24 was expected; .*; every guarantee "
        r"computed from that law is void\. \(statistical, confirmed by fresh messages; a false alarm has probability "
        r"1e-07 for each input\)",
        text,
    )
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert check_mechanism(mechanism, raises=False).failures == caught.value.checked.failures  # type: ignore[attr-defined]


def test_a_misspelt_ability_is_an_error_when_the_class_is_defined() -> None:
    """Nobody would ever ask for it."""
    with pytest.raises(TypeError, match=r"^Misspelt: 'atacks' is no method of a randomizer; did you mean 'attacks'\?$"):
        type("Misspelt", (Good,), {"atacks": lambda self: []})
    with pytest.raises(TypeError, match="HasNoisyMessages is not among its bases"):
        type("Unnamed", (Good,), {"count_noisy_messages": lambda self, messages: (0, 0)})


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (3, TypeError, r"^check_mechanism: expected a Mechanism or a class of it, got 3\.$"),
        (int, TypeError, r"^check_mechanism: expected a Mechanism or a class of it, got <class 'int'>\.$"),
        (
            sdp.Mechanism,
            TypeError,
            r"^check_mechanism: Mechanism must define domain, encoding, estimator, examples, law, randomize, table\.$",
        ),
        (sdp.KRR(1.0, 200), ValueError, r"^check_mechanism: KRR has a table of 200 inputs and 200 messages, too many"),
    ],
)
def test_what_cannot_be_checked_is_refused(given: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        check_mechanism(given)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^check_mechanism: samples must be at least 1000, got 10\.$"):
        check_mechanism(Good(), samples=10)
    with pytest.raises(ValueError, match=r"^check_mechanism: seed must be at least 0, got -1\.$"):
        check_mechanism(Good(), seed=-1)


def test_a_class_without_examples_is_refused() -> None:
    class Empty(Good):
        @classmethod
        def examples(cls) -> list[Good]:
            return []

    with pytest.raises(
        ValueError, match=r"^check_mechanism: Empty\.examples\(\) must give small instances, got none\.$"
    ):
        check_mechanism(Empty)


def test_a_class_lists_the_failures_of_all_its_examples() -> None:
    """Each with the example's name."""
    checked = check_mechanism(type(BROKEN_MECHANISMS[0][0]), raises=False)
    assert [failure.message.split(":")[0] for failure in checked.failures] == [
        "TooHonest(epsilon=1.0, options=3)",
        "TooHonest(epsilon=2.0, options=2)",
    ]


def test_nothing_checked_is_not_passed() -> None:
    empty = CheckResult("Nothing", ())
    assert not empty.passed
    assert str(empty) == "Nothing: nothing was checked."


def test_progress_is_told() -> None:
    """One step, as long as the suite."""
    told: list[Any] = []

    class Told(Progress):
        @contextmanager
        def step(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
            told.append((name, total))
            yield told.append

    check_mechanism(Good(), progress=Told())
    assert told == [("checking", len(CHECKS)), *[1] * len(CHECKS)]


class NoTable(Good):
    """As if its law could not be written down."""

    has_table = False


@pytest.mark.parametrize("power", ["bias", "variance"])
def test_without_a_table_mean_and_variance_are_tested(power: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift of every estimate, and a variance that is stated 30 % too small."""
    check = without_a_table_the_estimate_has_the_stated_mean_and_variance
    mechanism = sdp.PrivUnit.examples()[0]
    assert check.find_failure(MechanismCase(mechanism)) is None
    if power == "bias":
        truth = type(mechanism).truth
        monkeypatch.setattr(type(mechanism), "truth", lambda self, values: truth(self, values) + 0.2)
    else:
        variance = type(mechanism).variance
        monkeypatch.setattr(type(mechanism), "variance", lambda self, values: 0.6 * variance(self, values))
    failure = check.find_failure(MechanismCase(mechanism))
    assert failure is not None
    assert ("standard deviations from the truth" if power == "bias" else "differs from the stated variance") in str(
        failure
    )


def test_without_a_table_promises_are_checked() -> None:
    """table() must refuse, and the parameters must keep ε."""
    failure = without_a_table_it_is_refused.find_failure(MechanismCase(NoTable()))
    assert failure is not None
    assert "table() returned" in failure.message
    assert without_a_table_the_parameters_keep_the_promise.find_failure(MechanismCase(NoTable())) is None
    too_likely = type("TooLikelyNoTable", (TooLikely,), {"has_table": False})()
    failure = without_a_table_the_parameters_keep_the_promise.find_failure(MechanismCase(too_likely))
    assert failure is not None
    assert "variation_ratio().p is 4" in failure.message


@pytest.mark.parametrize("chances", [[0.5, 0.3, 0.1999, 0.0001], [0.9] + [0.001] * 100, [0.25] * 4])
def test_the_confirming_test_has_at_most_its_stated_rate_of_false_alarms(chances: list[float]) -> None:
    """Rare messages included: at a level of 2 %, at most that share of 4000 samples of the law itself fail."""
    law = np.array(chances)
    seen = np.random.default_rng(1).multinomial(2000, law, size=4000).astype(float)
    limit = relative_entropy_limit(len(law), alarm=0.02)
    alarms = np.mean([relative_entropy(one, law) > limit for one in seen])
    assert alarms <= 0.02


def test_a_rare_message_that_comes_too_often_by_chance_is_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """χ² alone would raise it: three messages where 0.2 are expected."""
    seen, expected = np.array([1000.0, 997.0, 3.0]), np.array([1000.0, 999.8, 0.2])
    statistic, limit = chi_square(seen, expected)
    assert statistic > limit
    assert relative_entropy(seen, expected / 2000) < relative_entropy_limit(3)
    # The first look of a good sampler is unlucky: the second one is not.
    monkeypatch.setattr(sampling_checks, "chi_square", lambda seen, expected: (100.0, 1.0))
    assert the_messages_follow_the_table.find_failure(MechanismCase(Good())) is None
    assert the_messages_follow_the_table.find_failure(MechanismCase(BROKEN_MECHANISMS[0][0])) is not None
