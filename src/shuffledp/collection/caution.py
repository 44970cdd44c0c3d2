"""What somebody should look at in a ledger, a sentence each: names that may be mistakes, budgets that are spent."""

from __future__ import annotations

from shuffledp.collection.account import Account, Budget
from shuffledp.document import typed


def would_bring(budget: Budget, spent: float, total: float) -> str:
    """The end of a sentence about what would exceed a budget."""
    return (
        f"would bring {budget.population!r} from ε = {spent:.6g} to {total:.6g} at δ = {typed(budget.delta)}, above "
        f"the budget {typed(budget.epsilon)}"
    )


def is_spent(budget: Budget, spent: float) -> str:
    """For a budget of which nothing is left."""
    return (
        f"ledger: the budget of {budget.population!r} is spent: ε = {spent:.6g} of {typed(budget.epsilon)} at "
        f"δ = {typed(budget.delta)}."
    )


def new_name(account: Account, population: str) -> list[str]:
    """A sentence where nothing was collected under this name before, and other people have given."""
    if not account.is_new(population):
        return []
    near = account.like(population)
    other = f"if {near!r} are the same people" if near else "if these people have another name in it"
    return [
        f"ledger: nothing was collected from {population!r} before in {account.place}; {other}, what they gave under "
        f"that name is not added up with this."
    ]
