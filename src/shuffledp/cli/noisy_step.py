"""How the command line names one noisy gradient step: ``--step NAME --set name=value``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shuffledp.cli.randomizer import settings_of
from shuffledp.tradeoff.gaussian_trade_off import GaussianTradeOff
from shuffledp.tradeoff.noisy_step import Gradient, LeastSquares, Logistic, NoisyStep

KINDS: dict[str, tuple[Callable[..., Gradient], tuple[str, ...]]] = {
    "least-squares": (LeastSquares, ("optimum", "clip")),
    "logistic": (Logistic, ("limit",)),
}


@dataclass(frozen=True)
class StepChoice:
    """A step, and the plain Gaussian step with the same largest gradient, where there is one."""

    name: str
    settings: dict[str, float]
    step: NoisyStep
    plain: GaussianTradeOff | None


def build(name: str, settings: tuple[str, ...]) -> StepChoice:
    """The step by name, or a sentence that says what is known."""
    if name not in KINDS:
        raise ValueError(f"tradeoff: --step must be one of {', '.join(KINDS)}, got {name!r}.")
    kind, known = KINDS[name]
    numbers: dict[str, float] = {}
    for key, text in settings_of("tradeoff", settings).items():
        if key not in (*known, "noise"):
            raise ValueError(f"tradeoff: {name} takes --set {', '.join((*known, 'noise'))}, got {key!r}.")
        try:
            numbers[key] = float(text)
        except ValueError:
            raise ValueError(f"tradeoff: {key} must be a number, got {text!r}.") from None
    noise = numbers.pop("noise", 1.0)
    step = NoisyStep(kind(**numbers), noise)
    limit = step.gradient.limit_size()
    return StepChoice(name, numbers, step, GaussianTradeOff(limit / noise) if limit < float("inf") else None)
