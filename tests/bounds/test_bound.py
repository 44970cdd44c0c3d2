"""The list of bounds: all are named, each says what it is and where it comes from."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import shuffledp.bounds
from shuffledp import NotApplicable, VariationRatio, amplify
from shuffledp.bounds.base import Bound
from shuffledp.bounds.registry import BOUNDS, BOUNDS_BY_NAME

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


def modules_of_the_package() -> list[str]:
    """Every module below ``shuffledp.bounds``."""
    return [f"{shuffledp.bounds.__name__}.{module.name}" for module in pkgutil.iter_modules(shuffledp.bounds.__path__)]


def test_the_list_names_every_bound_of_the_package() -> None:
    """What the package's own modules define is listed, once, in the order of the names; and all that was promised."""
    defined = [
        kind.__name__
        for name in modules_of_the_package()
        for kind in vars(importlib.import_module(name)).values()
        if isinstance(kind, type) and issubclass(kind, Bound) and not inspect.isabstract(kind)
        if kind.__module__ == name
    ]
    listed = [type(bound).__name__ for bound in BOUNDS]
    missing = sorted(set(defined) - set(listed))
    assert not missing, "add to BOUNDS in bounds/registry.py:\n" + "\n".join(f"    {kind}()," for kind in missing)
    assert sorted(listed) == sorted(defined)
    assert list(BOUNDS_BY_NAME) == sorted(BOUNDS_BY_NAME)
    assert set(BOUNDS_BY_NAME) >= EXPECTED
    assert all(name == bound.name for name, bound in BOUNDS_BY_NAME.items())
    assert tuple(BOUNDS_BY_NAME.values()) == BOUNDS


@pytest.mark.parametrize("name", sorted(BOUNDS_BY_NAME))
def test_each_bound_says_what_it_is(name: str) -> None:
    """Name, theorem and summary are there; the docstring has a sentence, Theorem, Requires and Returns."""
    bound = BOUNDS_BY_NAME[name]
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
    bounds = BOUNDS_BY_NAME
    for bound in bounds.values():
        seen = [bound.name]
        while (tighter := bounds[seen[-1]].never_better_than) is not None:
            assert tighter in bounds
            assert tighter not in seen
            seen.append(tighter)


def test_only_the_published_ones_do_not_always_guarantee() -> None:
    """Exactly the reproductions of the papers may give curves that are no guarantee."""
    loose = {name for name, bound in BOUNDS_BY_NAME.items() if not bound.guarantees}
    assert loose == {"variation-ratio-published", "analytic-published", "asymptotic", "protocol-published"}


@pytest.mark.parametrize("name", sorted(BOUNDS_BY_NAME))
def test_what_is_no_randomizer_is_refused_under_every_bound(name: str) -> None:
    """Bounds are asked about randomizers only."""
    with pytest.raises(TypeError, match="expected a mechanism or VariationRatio, got"):
        amplify(object(), 10, bound=name)


@pytest.mark.parametrize("name", sorted(BOUNDS_BY_NAME))
def test_curves_carry_their_source(name: str) -> None:
    """The curve names its bound, theorem and users; a note is there exactly where it is no guarantee."""
    try:
        curve = BOUNDS_BY_NAME[name].curve(VariationRatio(2.0, 0.1, 2.0), 100)
    except NotApplicable as error:
        assert error.bound == name  # noqa: PT017
        return
    assert (curve.bound, curve.theorem, curve.messages) == (name, BOUNDS_BY_NAME[name].theorem, 100)
    assert curve.certified is True
    assert bool(curve.note) is not curve.guarantee
