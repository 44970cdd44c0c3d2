"""A campaign: one plan, and who seals to whom, mixes for whom, until when; the same bytes for everybody.

A JSON document in its one form (keys in order, no spaces); its id is a SHA-256 of these bytes, so that whoever knows
the id, or has the file, acts on the same promises as everybody else::

    {"analyst":{"key":{…},"operator":"…"},"extensions":1,"fetch":"…","format":"shuffledp campaign",
     "hops":[{"identity":{"ed25519":"…"},"operator":"…","url":"…"}],"nonce":"…","plan":{…},
     "promise":{"colluding":5000,"delta":1e-08,"epsilon":1.0,"epsilon_local":2.0,"users":50000},
     "question":"…","recipe":{…},"retention":2592000,"version":1,"window":604800}

A campaign that admits only whom an issuer knows has one field more, ``admission``; one that says how many reports a
round takes at most, ``capacity``.

``promise`` is ε of all rounds together with the fewest users of the plan, of whom ``colluding`` hide nobody. ``fetch``
is a hash of the secret by which the analyst fetches batches. ``recipe`` is the plan's mechanism in whole numbers, for
clients without this package, such as pages, and ``question`` what people are asked. Times are in seconds.

The process that listens reads no plan: what mechanisms and proofs need is imported where the plan is asked for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shuffledp import argument
from shuffledp.collection import durable
from shuffledp.collection.chain import canonical
from shuffledp.planner.cost import SEAL_BYTES
from shuffledp.service.admission import Admission, read_admission
from shuffledp.service.envelope import KEY_BYTES, PublicKey, from_text, to_text
from shuffledp.service.key_file import AnalystKey, ShufflerKey

if TYPE_CHECKING:
    from shuffledp.collection.guarantee import Guarantee
    from shuffledp.planner.plan_file import Plan
    from shuffledp.service.recipe import Recipe

FORMAT, VERSION = "shuffledp campaign", 1
LABEL = b"shuffledp v1 campaign\0"
LONGEST = 1 << 20
NONCE_BYTES = 16
MOST_SECONDS = 10 * 366 * 24 * 3600
FIELDS = {
    "format": str, "version": int, "plan": dict, "analyst": dict, "hops": list, "window": int, "extensions": int,
    "retention": int, "promise": dict, "recipe": dict, "question": str, "nonce": str, "fetch": str,
}  # fmt: skip
ADMISSION, CAPACITY = "admission", "capacity"
CAPACITY_TIMES, LEAST_CAPACITY, MOST_CAPACITY = 10, 100_000, 10**12
"""Reports that a round takes where the campaign does not say: so many times the planned users, and at least so many.
Clients may send a report several times, and garbage is counted too."""
WHO = "campaign"


@dataclass(frozen=True)
class Campaign:
    """What all parties act on: ``content`` is the document's bytes, and everything else follows from it."""

    content: bytes

    # --- making it --------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        plan: Plan,
        analyst: AnalystKey,
        shuffler: bytes,
        *,
        url: str,
        operators: tuple[str, str],
        window: int,
        extensions: int = 1,
        retention: int = 30 * 24 * 3600,
        question: str = "",
        admission: Admission | None = None,
        capacity: int | None = None,
    ) -> Self:
        """A new campaign of a plan, sealed to this analyst and mixed by this shuffler.

        ``shuffler``: its identity. ``operators``: who runs the analysis and who the shuffler. ``window``: how long each
        round is open; it is extended up to ``extensions`` times while fewer than the plan's minimum have come.
        ``retention``: how long a batch that nobody fetches is kept. ``question``: what people are asked.
        ``admission``: who may take part; None is everybody. ``capacity``: how many reports a round takes at most, in
        which repeated ones and garbage count; None is ten times the planned users, and at least 100,000.
        """
        from shuffledp.collection.guarantee import Guarantee
        from shuffledp.service.link import read_address
        from shuffledp.service.recipe import recipe_of

        if url:
            # A sentence now, in place of one at each client.
            read_address(url)
        demand_fixed(plan)
        guarantee = Guarantee(plan, plan.fewest)
        guarantee.demand(allow_weaker=False)
        nonce = os.urandom(NONCE_BYTES).hex()
        return cls.of({
            "format": FORMAT, "version": VERSION, "plan": plan.document(),
            "analyst": {"operator": operators[0], "key": analyst.public},
            "hops": [{"operator": operators[1], "url": url, "identity": {"ed25519": to_text(shuffler)}}],
            "window": window, "extensions": extensions, "retention": retention, "promise": promise_of(guarantee),
            "recipe": recipe_of(plan), "question": question, "nonce": nonce, "fetch": _hashed(analyst.token(nonce)),
            **({} if admission is None else {ADMISSION: admission.document()}),
            **({} if capacity is None else {CAPACITY: capacity}),
        })  # fmt: skip

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """The campaign of a document, checked."""
        return cls.parse(canonical(document).encode())

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """From bytes; a sentence unless they are a campaign in its one form."""
        try:
            document = json.loads(content) if len(content) <= LONGEST else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("version") != VERSION:
            raise ValueError(
                f'{WHO}: expected a file with "format": "{FORMAT}", version {VERSION}, got something else.'
            )
        if document.keys() - {ADMISSION, CAPACITY} != FIELDS.keys() or any(
            type(document.get(name, 1)) is not kind for name, kind in {**FIELDS, CAPACITY: int}.items()
        ):
            raise ValueError(f"{WHO}: it is damaged: expected {', '.join(FIELDS)}.")
        # One campaign, one text: whoever hashes what was received has the same id.
        if canonical(document).encode() != content.strip():
            raise ValueError(f"{WHO}: it is not in its one form (keys in order, no spaces); take it as it was made.")
        campaign = cls(content.strip())
        campaign._check()
        return campaign

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """From a file."""
        try:
            with open(path, "rb") as file:
                return cls.parse(file.read(LONGEST + 2))
        except OSError as error:
            raise ValueError(f"{WHO}: cannot read {os.fspath(path)}: {error.strerror}.") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Into a new file, which everybody may read: what parties act on is never written over."""
        try:
            if not durable.write_whole(Path(path), self.content + b"\n", durable.ANYBODY_READS):
                raise ValueError(f"{WHO}: {os.fspath(path)} is already there; a campaign is never changed.")
        except OSError as error:
            raise ValueError(f"{WHO}: cannot write {os.fspath(path)}: {error.strerror}.") from None

    def _check(self) -> None:
        """Everything can be read, and the parts go together."""
        demand_fixed(self.plan)
        told = self.document
        argument.count(WHO, "window", told["window"], at_most=MOST_SECONDS)
        argument.count(WHO, "extensions", told["extensions"], at_least=0, at_most=1000)
        argument.count(WHO, "retention", told["retention"], at_most=MOST_SECONDS)
        argument.count(WHO, CAPACITY, self.capacity, at_least=self.plan.fewest, at_most=MOST_CAPACITY)
        if len(told["hops"]) != 1:
            raise ValueError(f"{WHO}: expected one shuffler, got {len(told['hops'])}; docs/shuffler.md says why.")
        _ = self.analyst, self.identity, self.promised, self.admission
        hop, analyst = told["hops"][0], told["analyst"]
        if hop.keys() != {"operator", "url", "identity"} or analyst.keys() != {"operator", "key"}:
            raise ValueError(f"{WHO}: it is damaged: expected an operator with a key, and one with a url and identity.")
        if not all(isinstance(text, str) for text in (hop["operator"], hop["url"], analyst["operator"])):
            raise ValueError(f"{WHO}: operators and url must be texts.")
        if not (_is_hex(told["nonce"], NONCE_BYTES) and _is_hex(told["fetch"], hashlib.sha256().digest_size)):
            raise ValueError(f"{WHO}: nonce and fetch must be hexadecimal digits.")
        if any(told["promise"][name] != wanted for name, wanted in _of_plan(self.plan).items()):
            raise ValueError(f"{WHO}: what it promises is not about its plan.")

    # --- what it says -----------------------------------------------------------------------------------------

    @cached_property
    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(json.loads(self.content))

    @cached_property
    def id(self) -> str:
        """64 hexadecimal digits that stand for every byte of it."""
        return hashlib.sha256(LABEL + self.content).hexdigest()

    @cached_property
    def plan(self) -> Plan:
        """What is estimated from whom, and by which mechanism."""
        from shuffledp.planner.plan_file import Plan

        return Plan.parse(json.dumps(self.document["plan"]))

    @cached_property
    def analyst(self) -> PublicKey:
        """Whom messages are sealed to."""
        return PublicKey.read(WHO, self.document["analyst"].get("key"))

    @cached_property
    def identity(self) -> bytes:
        """The shuffler's, which signs."""
        hop = self.document["hops"][0]
        told = hop.get("identity") if isinstance(hop, dict) else None
        if not isinstance(told, dict) or told.keys() != {"ed25519"}:
            raise ValueError(f"{WHO}: expected the shuffler's Ed25519 identity.")
        return from_text(WHO, "the shuffler's identity", told["ed25519"], KEY_BYTES)

    @property
    def url(self) -> str:
        return str(self.document["hops"][0]["url"])

    @property
    def operators(self) -> tuple[str, str]:
        """Who runs the analysis, and who the shuffler."""
        return str(self.document["analyst"]["operator"]), str(self.document["hops"][0]["operator"])

    @cached_property
    def promised(self) -> float:
        """ε of all rounds together, at the plan's δ, with the fewest users."""
        promise = self.document["promise"]
        if promise.keys() != {"epsilon", *_of_plan(self.plan)}:
            raise ValueError(f"{WHO}: it is damaged: expected a promise of epsilon, {', '.join(_of_plan(self.plan))}.")
        return argument.positive_finite(WHO, "the promised epsilon", promise["epsilon"])

    @cached_property
    def admission(self) -> Admission | None:
        """Who may take part; None is everybody."""
        return read_admission(WHO, self.document[ADMISSION]) if ADMISSION in self.document else None

    @property
    def recipe(self) -> Recipe:
        """What clients without this package execute; empty where they take no part."""
        return dict(self.document["recipe"])

    @property
    def question(self) -> str:
        """What people are asked; empty where the campaign does not say."""
        return str(self.document["question"])

    @property
    def window(self) -> int:
        """Seconds for which a round is open."""
        return int(self.document["window"])

    @property
    def extensions(self) -> int:
        """How often that is extended at most."""
        return int(self.document["extensions"])

    @property
    def retention(self) -> int:
        """Seconds for which a batch is kept."""
        return int(self.document["retention"])

    @property
    def capacity(self) -> int:
        """How many reports a round takes at most, with repeated ones and garbage."""
        if CAPACITY in self.document:
            return int(self.document[CAPACITY])
        return max(CAPACITY_TIMES * int(self.document["plan"]["users"]), LEAST_CAPACITY)

    @property
    def rounds(self) -> int:
        """As many as the plan has."""
        return int(self.document["plan"].get("rounds", 1))

    @property
    def nonce(self) -> str:
        return str(self.document["nonce"])

    def admits(self, token: str) -> bool:
        """Whether this is the secret by which the analyst fetches."""
        return hmac.compare_digest(_hashed(token), str(self.document["fetch"]))

    # --- sizes ------------------------------------------------------------------------------------------------

    @cached_property
    def messages(self) -> int:
        """How many messages each client sends."""
        found = self.plan.mechanism.crowd.sent_by(1)
        assert found is not None, "only such plans are campaigns"
        return found

    @cached_property
    def message_bytes(self) -> int:
        """Of one sealed message."""
        return self.plan.mechanism.message_bytes + SEAL_BYTES

    @cached_property
    def report_bytes(self) -> int:
        """Of all that one client sends."""
        return self.messages * self.message_bytes + self.token_bytes + SEAL_BYTES

    @property
    def token_bytes(self) -> int:
        """Of what a client shows to be admitted."""
        return 0 if self.admission is None else self.admission.token_bytes

    def demand_shuffler(self, key: ShufflerKey) -> None:
        """A sentence unless it is mixed by the shuffler with this key."""
        if key.identity != self.identity:
            raise ValueError(f"{WHO}: it names another shuffler than this one.")

    def demand_round(self, round_number: int) -> None:
        """A sentence unless the plan has this round."""
        self.plan.identity(round_number)

    def demand_kept(self, *, without_local: bool = False) -> None:
        """Compute again what is promised; a sentence if it is more than can be proved, or rests on one party alone."""
        from shuffledp.collection.guarantee import Guarantee
        from shuffledp.service.recipe import recipe_of

        guarantee = Guarantee(self.plan, self.plan.fewest)
        if not guarantee.epsilon <= self.promised or not guarantee.kept:
            raise ValueError(
                f"{WHO}: it promises ε = {self.promised:g} with {self.plan.fewest} users, which is not proved for this "
                f"plan; make it anew by `shuffledp campaign create`."
            )
        if self.recipe != recipe_of(self.plan):
            raise ValueError(
                f"{WHO}: its recipe, which pages follow, is not that of its plan; make it anew by "
                f"`shuffledp campaign create`."
            )
        if self.plan.mechanism.local_epsilon is None and not without_local:
            raise ValueError(
                f"{WHO}: the messages of {self.plan.mechanism.name} promise nothing without the shuffler: if it works "
                f"with the analyst, both see every value; accept that by --without-local, or plan with a local ε."
            )


def demand_fixed(plan: Plan) -> None:
    """A sentence unless all clients of a plan send the same number of messages, for themselves, once a round."""
    if plan.mechanism.crowd.sent_by(1) is None:
        raise ValueError(
            f"{WHO}: users of {plan.mechanism.name} send different numbers of messages, which anybody on the way could "
            f"count; plan with a mechanism, or settings, by which all send the same number."
        )
    if plan.schedule.is_sampled:
        raise ValueError(f"{WHO}: its users must not be drawn out of more people: who sends anything would be known.")


def promise_of(guarantee: Guarantee) -> dict[str, Any]:
    """What clients are promised."""
    return {"epsilon": guarantee.epsilon, **_of_plan(guarantee.plan)}


def _of_plan(plan: Plan) -> dict[str, Any]:
    """The conditions of the promise."""
    return {"delta": plan.delta, "users": plan.fewest, "colluding": plan.colluding,
            "epsilon_local": plan.mechanism.local_epsilon}  # fmt: skip


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_hex(text: str, length: int) -> bool:
    try:
        return bytes.fromhex(text).hex() == text and len(text) == 2 * length
    except ValueError:
        return False
