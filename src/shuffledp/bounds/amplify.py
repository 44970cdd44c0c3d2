"""``amplify``: the privacy curve of a randomizer's shuffled messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, overload

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.validation import Floats
from shuffledp.bounds import exact_binary, pointwise_minimum, registry
from shuffledp.bounds.base import Bound
from shuffledp.bounds.mixed_populations import Crowd, CrowdCurve, crowd_curve
from shuffledp.bounds.registry import BOUNDS, BOUNDS_BY_NAME, check_bound_names, evaluate_bound
from shuffledp.privacy.aggregate_noise import AggregateNoiseAttack
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.input_pairs import Neighbours
from shuffledp.privacy.lower_bounds import Attack, AttackCurve
from shuffledp.privacy.randomizer_interface import HasAggregateLoss, HasNeighbours, Randomizer

MAX_USERS = 10**18
"""Sums over far more users leave the range of floats."""

BoundChoice: TypeAlias = "str | Bound | Sequence[str | Bound]"
"""Type of the argument ``bound``: a name, a ``Bound`` object, or a sequence of these."""


def bound_names() -> list[str]:
    """Returns every name that ``amplify`` accepts as ``bound``."""
    return [pointwise_minimum.BEST_BOUND_NAME, *BOUNDS_BY_NAME]


@overload
def amplify(randomizer: Crowd, *, colluding: float = 0, effort: str = registry.FULL_EFFORT) -> CrowdCurve: ...
@overload
def amplify(
    randomizer: Randomizer,
    users: float,
    *,
    bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = registry.FULL_EFFORT,
) -> PrivacyCurve: ...


def amplify(
    randomizer: Randomizer | Crowd,
    users: float | None = None,
    *,
    bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = registry.FULL_EFFORT,
) -> PrivacyCurve:
    """Returns the privacy curve of the shuffled messages of users who all run the same randomizer.

    The curve's ``messages`` is the number of messages that hide each other: one from each user, unless the mechanism
    sends several.

    Args:
        randomizer: A mechanism, ``VariationRatio`` parameters, or a ``Crowd`` of several mechanisms. A ``Crowd`` brings
            its own numbers of users and takes neither ``users``, ``bound``, ``pair`` nor ``diameter``.
        users: Number of all users, the one to protect included.
        bound: A name (default "best"), a ``Bound`` object, or a list of these: then the smallest guarantee among just
            these. A ``Bound`` of your own is used in this call only, and the curve's note names its author.
        colluding: Number of users who reveal their messages, dummies included, to the analyst and hide nobody.
        pair: Two inputs ``(a, b)`` of a metric mechanism: the curve holds for these two instead of for all inputs. If
            the same bounds prove less for all inputs, the smaller value is returned.
        diameter: For a metric mechanism, the largest distance in input units (metres for degrees, ε for a table of
            distances): the curve holds for every two inputs at most so far apart.
        effort: "full", or "quick": "best" then leaves out bounds that take seconds, and is often a tenth larger.

    Returns:
        An upper bound of δ(ε), with the lower bound of an attack where one is known. For a ``Crowd`` it holds for
        everybody, and ``group_curve(group)`` is the curve of one group.

    Raises:
        TypeError: If ``randomizer`` or ``bound`` has another type, or ``pair`` or ``diameter`` is given for a mechanism
            without a metric.
        ValueError: If a number is out of range, ``bound`` or ``effort`` is an unknown name, or both ``pair`` and
            ``diameter`` are given.
        NotApplicable: If none of the chosen bounds applies.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000)
    >>> curve.epsilon(delta=1e-8).upper < 0.0102
    True
    >>> curve.epsilon(delta=1e-8).bound
    'optimal'
    >>> older = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000, bound=["clone", "analytic"])
    >>> older.epsilon(delta=1e-8).bound
    'analytic'
    """
    registry.check_effort("amplify", effort)
    lost = validation.count("amplify", "colluding", colluding, at_least=0)
    if isinstance(randomizer, Crowd):
        if users is not None or bound != pointwise_minimum.BEST_BOUND_NAME or pair is not None or diameter is not None:
            raise ValueError("amplify: a Crowd has its own users; leave out users, bound, pair and diameter.")
        if lost >= randomizer.users:
            raise ValueError(f"amplify: colluding must be below users = {randomizer.users}, got {lost}.")
        return crowd_curve(randomizer, lost, effort)
    total = validation.count("amplify", "users", users, at_most=MAX_USERS)
    if lost >= total:
        raise ValueError(f"amplify: colluding must be below users = {total}, got {lost}.")
    if not isinstance(randomizer, Randomizer):
        raise TypeError(f"amplify: expected a mechanism or VariationRatio, got {randomizer!r}.")
    randomizer = restrict_to_inputs(randomizer, pair, diameter)
    if isinstance(randomizer, Neighbours):
        curve = _chosen_inputs_curve(randomizer, total, lost, bound, effort).with_chosen_inputs()
    else:
        curve = _curve(randomizer, randomizer.hiding_messages(total - lost), bound, effort)
    attack = _find_attack(randomizer, randomizer.attack_messages(total - lost))
    return curve.with_attack(attack).with_users(total, lost)


@dataclass(frozen=True)
class ChosenInputsCurve(PrivacyCurve):
    """The curve of chosen inputs: at each ε the smaller of the bounds for these inputs and for all inputs.

    Theorem: δ(ε) of some pairs of inputs is at most that of all pairs.
    Requires: two guarantees for the same users and messages.
    Returns: values that name the one of the two they come from; an attack is on the chosen inputs only.
    """

    chosen_inputs_curve: PrivacyCurve
    all_inputs_curve: PrivacyCurve

    @property
    def certified(self) -> bool:
        return self.chosen_inputs_curve.certified and self.all_inputs_curve.certified

    def loss_deviation(self) -> float | None:
        deviations = (curve.loss_deviation() for curve in (self.chosen_inputs_curve, self.all_inputs_curve))
        return min((each for each in deviations if each is not None), default=None)

    def _epsilon(self, delta: float) -> BoundValue:
        value = self.chosen_inputs_curve.epsilon(delta)
        attack = self.all_inputs_curve.source.attack
        # If an attack on all inputs attains more than δ at this ε, no bound for all inputs is smaller.
        if attack is not None and math.isfinite(value.upper) and attack.delta(value.upper) > delta:
            return value
        return self._choose_smaller(value, self.all_inputs_curve.epsilon(delta))

    def _delta(self, epsilon: float) -> BoundValue:
        value = self.chosen_inputs_curve.delta(epsilon)
        attack = self.all_inputs_curve.source.attack
        if attack is not None and attack.delta(epsilon) >= value.upper:
            return value
        return self._choose_smaller(value, self.all_inputs_curve.delta(epsilon))

    def _choose_smaller(self, chosen: BoundValue, all_inputs: BoundValue) -> BoundValue:
        if chosen.upper <= all_inputs.upper:
            return chosen
        return replace(all_inputs, theorem=f"{all_inputs.theorem}, for all inputs and hence for these")

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        return min(self.chosen_inputs_curve.quick_delta(epsilon), self.all_inputs_curve.quick_delta(epsilon))

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        chosen, all_inputs = self.chosen_inputs_curve.profile(epsilons), self.all_inputs_curve.profile(epsilons)
        is_chosen = chosen.upper <= all_inputs.upper
        upper = np.where(is_chosen, chosen.upper, all_inputs.upper)
        return upper, np.where(is_chosen, chosen.lower, all_inputs.lower)


def _chosen_inputs_curve(
    randomizer: Neighbours, users: int, colluding: int, bound: BoundChoice, effort: str
) -> PrivacyCurve:
    """Returns the curve of chosen inputs, never above that of all inputs by the same bounds if both are guarantees."""
    chosen = _curve(randomizer, randomizer.hiding_messages(users - colluding), bound, effort)
    if randomizer.mechanism is None or not chosen.guarantee:
        return chosen
    try:
        all_inputs = amplify(randomizer.mechanism, users, bound=bound, colluding=colluding, effort=effort)
    except NotApplicable:
        return chosen
    if not all_inputs.guarantee:
        return chosen
    return ChosenInputsCurve(pointwise_minimum.join_sources((chosen, all_inputs), chosen.messages), chosen, all_inputs)


def _curve(randomizer: Randomizer, users: int, bound: BoundChoice, effort: str) -> PrivacyCurve:
    if bound == pointwise_minimum.BEST_BOUND_NAME:
        return registry.best_curve(randomizer, users, effort)
    listed = [bound] if isinstance(bound, str | Bound) else list(bound)
    bounds = list({id(each): each for item in listed for each in _resolve_bounds(item)}.values())
    if not bounds:
        raise ValueError("amplify: expected at least one bound, got an empty list.")
    check_bound_names(bounds)
    if len(bounds) == 1:
        return evaluate_bound(bounds[0], randomizer, users)
    return registry.smallest_curve(randomizer, users, bounds)


def _resolve_bounds(item: object) -> Sequence[Bound]:
    """Returns the bounds of one item of ``bound``: a single one, or for "best" all guarantees of the package."""
    if isinstance(item, Bound):
        return [item]
    if not isinstance(item, str):
        raise TypeError(f"amplify: bound must be a name, a Bound object or a list of these, got {item!r}.")
    if item == pointwise_minimum.BEST_BOUND_NAME:
        return [bound for bound in BOUNDS if bound.guarantees]
    if item not in BOUNDS_BY_NAME:
        raise ValueError(f"amplify: bound must be one of {', '.join(bound_names())}, got {item!r}.")
    return [BOUNDS_BY_NAME[item]]


def restrict_to_inputs(randomizer: Randomizer, pair: Sequence[Any] | None, diameter: float | None) -> Randomizer:
    """Returns the randomizer restricted to the chosen inputs of a metric mechanism, or unchanged if none are chosen."""
    if pair is None and diameter is None:
        return randomizer
    if not isinstance(randomizer, HasNeighbours):
        raise TypeError(f"amplify: pair and diameter need a metric mechanism, got {type(randomizer).__name__}.")
    if pair is None:
        neighbours = randomizer.neighbours_within(validation.positive_finite("amplify", "diameter", diameter, up=True))
    elif diameter is not None:
        raise ValueError("amplify: give either pair or diameter, not both.")
    elif len(pair) != 2:
        raise ValueError(f"amplify: pair must be two inputs, got {len(pair)}.")
    else:
        neighbours = randomizer.neighbours_between(pair[0], pair[1])
    return replace(neighbours, mechanism=randomizer)


def _find_attack(randomizer: Randomizer, users: int) -> Attack | None:
    """Returns the attack that bounds every curve of this randomizer from below, or None if none is known."""
    if isinstance(randomizer, HasAggregateLoss):
        loss = randomizer.aggregate_loss(users)
        return AggregateNoiseAttack(loss) if loss.is_attained else None
    pairs, coin = tuple(randomizer.attacks()), randomizer.coin_range()
    directions = () if coin is None else exact_binary.binary_directions(coin, users)
    datasets = tuple(dataset for way in directions for dataset in way.attacks())
    derived = randomizer.derived_attacks()
    if not (pairs or datasets or derived):
        return None
    return AttackCurve(pairs, users, datasets, derived, randomizer.one_message_each)
