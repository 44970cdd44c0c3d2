"""The register of bounds: all are found, each says what it is and where it comes from."""

from __future__ import annotations

import gc
import inspect

import pytest

from shuffledp import NotApplicable, VariationRatio
from shuffledp.bounds.bound import Bound, all_bounds
from shuffledp.privacy.curve import PrivacyCurve

EXPECTED = {
    "variation-ratio",
    "variation-ratio-published",
    "stronger-clone",
    "clone",
    "analytic",
    "analytic-published",
    "asymptotic",
    "optimal",
    "blanket-hoeffding",
    "blanket-bennett",
    "efmrtt19",
}


def concrete(kind: type) -> set[type]:
    """Every class below a class that can be instantiated."""
    found = {child for child in kind.__subclasses__() if not inspect.isabstract(child)}
    return found.union(*(concrete(child) for child in kind.__subclasses__()))


def test_every_bound_is_found() -> None:
    """The register holds each concrete class once, under its own name, and all the names that were promised."""
    found = all_bounds()
    assert set(found) >= EXPECTED
    assert {type(bound) for bound in found.values()} == {
        kind for kind in concrete(Bound) if kind.__module__.startswith("shuffledp.")
    }
    assert all(name == bound.name for name, bound in found.items())
    assert list(found) == sorted(found)


@pytest.mark.parametrize("name", sorted(all_bounds()))
def test_each_bound_says_what_it_is(name: str) -> None:
    """Name, theorem and summary are there; the docstring has a sentence, Theorem, Requires and Returns."""
    bound = all_bounds()[name]
    assert name == name.lower()
    assert " " not in name
    assert bound.theorem
    assert bound.summary
    assert not bound.summary.endswith(".")
    text = inspect.getdoc(type(bound))
    assert text is not None
    assert type(bound).__doc__ is not None
    assert text.splitlines()[0].endswith(".")
    for heading in ("Theorem:", "Requires:", "Returns:"):
        assert heading in text


def test_what_a_bound_is_never_better_than_exists() -> None:
    """Every chain of tighter bounds ends, and each link is in the register."""
    bounds = all_bounds()
    for bound in bounds.values():
        seen = [bound.name]
        while (tighter := bounds[seen[-1]].never_better_than) is not None:
            assert tighter in bounds
            assert tighter not in seen
            seen.append(tighter)


def test_only_the_published_ones_do_not_always_guarantee() -> None:
    """Exactly the reproductions of the papers may give curves that are no guarantee."""
    loose = {name for name, bound in all_bounds().items() if not bound.always_guarantees()}
    assert loose == {"variation-ratio-published", "analytic-published", "asymptotic", "protocol-published"}


@pytest.mark.parametrize("name", sorted(all_bounds()))
def test_an_object_that_offers_nothing_is_not_applicable(name: str) -> None:
    """A bound refuses an object without the capability that it needs, by name and with the reason."""
    with pytest.raises(NotApplicable) as caught:
        all_bounds()[name].curve(object(), 10)
    assert str(caught.value).startswith(f"{name}: ")
    assert "object gives no" in caught.value.reason


@pytest.mark.parametrize("name", sorted(all_bounds()))
def test_curves_carry_their_source(name: str) -> None:
    """The curve names its bound, theorem and users; a note is there exactly where it is no guarantee."""
    try:
        curve = all_bounds()[name].curve(VariationRatio(2.0, 0.1, 2.0), 100)
    except NotApplicable as error:
        assert error.bound == name  # noqa: PT017
        return
    assert (curve.bound, curve.theorem, curve.users) == (name, all_bounds()[name].theorem, 100)
    assert curve.certified is True
    assert bool(curve.note) is not curve.guarantee


def test_a_new_class_is_found_by_itself() -> None:
    """A concrete subclass is in the register as soon as it exists; an abstract one never is."""

    class _Abstract(Bound):
        name = "abstract-example"

    class _New(_Abstract):
        """One more."""

        name = "new-example"
        theorem = "none"
        summary = "an example"

        def curve(self, randomizer: object, users: int) -> PrivacyCurve:
            raise NotApplicable(self.name, "is an example only.")

    try:
        assert "new-example" in all_bounds()
        assert "abstract-example" not in all_bounds()
    finally:
        # Subclasses are found while they live; this one must not outlive the test.
        del _New, _Abstract

        gc.collect()
    assert "new-example" not in all_bounds()
