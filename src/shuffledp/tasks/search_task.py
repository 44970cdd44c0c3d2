"""What searches have in common: values that nobody listed, the public code, how they are read and written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from shuffledp import argument
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks import search_design
from shuffledp.tasks.domain import TASK, WHO, Values
from shuffledp.tasks.given import Given
from shuffledp.tasks.rehearsal import MadeUp, Searching, zipf
from shuffledp.tasks.search_design import Wish
from shuffledp.tasks.task import Needs, Task
from shuffledp.tasks.unlisted import Unlisted, unlisted

if TYPE_CHECKING:
    pass


class SearchTask(Task, Searching):
    """A task that finds values which nobody listed. Its constructor takes what ``settled`` and its domain tell."""

    values_of: Unlisted
    reach: int
    room: int

    unit = "users"
    by_either = True
    taken: ClassVar[tuple[str, ...]] = ("strings", "bits", "reach")

    def _begin(self, strings: int | None, bits: int | None, reach: int | None, room: int) -> None:
        """The settings that all searches have."""
        chosen = unlisted(strings, bits)
        wanted = argument.count(TASK, "reach", chosen.usual_reach if reach is None else reach)
        object.__setattr__(self, "values_of", chosen)
        object.__setattr__(self, "reach", min(wanted, chosen.longest))
        most = search_design.ROOMS[-1]
        object.__setattr__(self, "room", argument.count(TASK, "room", room, at_least=2, at_most=most))

    @property
    def domain(self) -> Values:
        return self.values_of.domain

    @property
    def code_name(self) -> str:
        """The public code, which must be the same for all who take part."""
        return self.values_of.name

    def settled(self) -> dict[str, Any]:
        """All settings, the domain among them, by the names of the constructor's arguments."""
        own = {name: getattr(self, name) for name in self.parameters if name != "code_name"}
        return self.domain.document() | own

    def wish(self, needs: Needs, mean: float = 0.0) -> Wish:
        """What a design is to reach, and what it may cost."""
        bits = search_design.MOST_BITS if needs.bits is None else needs.bits
        messages = float("inf") if needs.messages is None else needs.messages
        fixed = self.values_of.fixed
        return Wish(needs.users, needs.rounds, mean, self.reach, fixed, bits, messages, needs.by_shuffler)

    def demand(self, mechanism: Mechanism) -> None:
        if not self.can_use(mechanism):
            raise ValueError(f"{WHO}: the task {self.name!r} cannot be done by {mechanism.name}.")
        settings = mechanism.settings()
        for name, wanted in self.facts.items():
            if settings[name] != wanted:
                raise ValueError(f"{WHO}: {mechanism.name} has {name} = {settings[name]}, but the search has {wanted}.")

    def is_number(self, place: int) -> bool:
        del place
        return self.values_of.fixed

    def made_up(self, users: int) -> MadeUp:
        return zipf(self.values_of, users)

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        given = dict(parameters)
        code = given.pop("code_name")
        made = cls(**domain.document(), **given)
        if made.code_name != code:
            raise ValueError(f"{WHO}: expected the code {made.code_name!r}, got {code!r}; use the version that has it.")
        return made

    @classmethod
    def from_options(cls, given: Given) -> Task:
        chosen = {name: given.whole(name) for name in cls.taken}
        made: Any = cls
        found: Task = made(**chosen)
        return found
