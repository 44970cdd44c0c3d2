"""Settings that are left out are chosen once, when a mechanism is made: saved settings never mean another one later."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shuffledp import calibrate
from shuffledp.mechanisms.base import subset_parts
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms, build
from shuffledp.mechanisms.frequency import local_hash, pi_rappor, projective_geometry
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.mechanisms.frequency.pi_rappor import PIRAPPOR
from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveGeometry
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.subset_selection import Subset
from shuffledp.mechanisms.sets_and_key_values import wheel_and_collision
from shuffledp.mechanisms.sets_and_key_values.privset import PrivSet
from shuffledp.mechanisms.sets_and_key_values.wheel_and_collision import Collision, Wheel

Case = tuple[Callable[[], Any], tuple[str, ...], Any, str, Any]
CHOOSERS: dict[str, Case] = {
    "subset": (lambda: Subset(1.0, 30), ("size",), subset_parts, "best_size", 1),
    "privset": (lambda: PrivSet(1.0, 30, 2), ("size",), subset_parts, "best_size", 1),
    "local-hash": (lambda: LocalHash(1.0, 30), ("length",), local_hash, "best_prime_within", 11),
    "pi-rappor": (lambda: PIRAPPOR(1.0, 30), ("prime",), pi_rappor, "_best_prime", 37),
    "projective-geometry": (lambda: ProjectiveGeometry(1.0, 30), ("prime",), projective_geometry, "best_base", 7),
    "wheel": (lambda: Wheel(1.0, 30, 2), ("arc", "circle"), wheel_and_collision, "best_buckets", 20.0),
    "collision": (lambda: Collision(1.0, 30, 2), ("length",), wheel_and_collision, "best_prime", 17),
}
every_choice = pytest.mark.parametrize("name", CHOOSERS)
ASSEMBLED = [
    pytest.param(example, id=f"{name}-{number}")
    for name, kind in all_mechanisms().items()
    if kind.__module__.split(".")[2] in ("frequency", "sets_and_key_values")
    for number, example in enumerate(kind.examples())
]


def test_no_choice_escapes() -> None:
    """Every mechanism of these families with a setting that may be left out is among them."""
    kinds = {param.values[0].name: type(param.values[0]) for param in ASSEMBLED}  # type: ignore[union-attr]
    fields = {name: kind.__dataclass_fields__.values() for name, kind in kinds.items()}  # type: ignore[attr-defined]
    assert {name for name, found in fields.items() if any(field.default is None for field in found)} == set(CHOOSERS)


@every_choice
def test_the_chosen_setting_is_stored(name: str) -> None:
    """What is executed is in ``settings``, as a number that JSON keeps."""
    make, chosen, *_ = CHOOSERS[name]
    settings = make().settings()
    assert all(settings[setting] is not None for setting in chosen)
    assert json.loads(json.dumps(settings)) == settings


@every_choice
def test_another_default_does_not_change_a_saved_mechanism(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built from its own settings it is the same mechanism and reads the same messages, whatever is chosen by then."""
    make, chosen, module, chooser, other = CHOOSERS[name]
    before = make()
    settings = before.settings()
    wire = before.pack(before.encode(np.repeat(before.audit_pair(), 20, axis=0), rng=np.random.default_rng(1)))
    monkeypatch.setattr(module, chooser, lambda *_: other)
    again = type(before)(**settings)
    assert again == before
    assert again.settings() == settings
    assert again.estimator == before.estimator
    np.testing.assert_array_equal(again.unpack(wire), before.unpack(wire))
    texts = {key: str(value) for key, value in settings.items() if key != "epsilon"}
    assert build(name, settings["epsilon"], texts) == before
    # The test can fail: where nothing is saved, the other choice is made.
    assert any(make().settings()[setting] != settings[setting] for setting in chosen)


@pytest.mark.parametrize("kind", [Subset, LocalHash])
def test_calibration_chooses_anew_for_every_epsilon(kind: type[Mechanism]) -> None:
    """Only what the caller gave is fixed while ε is searched."""
    found = calibrate(kind, options=50, users=2000, epsilon=1.0, delta=1e-6, effort="quick").mechanism
    assert found == kind(found.epsilon, 50)  # type: ignore[call-arg]
    assert found.settings() != kind(1.0, 50).settings() | {"epsilon": found.epsilon}  # type: ignore[call-arg]


@pytest.mark.parametrize("mechanism", ASSEMBLED)
def test_parts_are_data(mechanism: Mechanism) -> None:
    """Parts of two equal mechanisms are equal, and survive pickling."""
    twin = type(mechanism)(**mechanism.settings())
    mechanism.estimate(mechanism.encode(mechanism.audit_pair()), users=len(mechanism.audit_pair()))
    for part in ("domain", "encoding", "estimator", "proposal"):
        one = getattr(mechanism, part)
        assert one == getattr(twin, part)
        assert pickle.loads(pickle.dumps(one)) == one
    assert mechanism.domain != KRR(1.0, 97).domain
