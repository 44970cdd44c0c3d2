"""Campaigns: a plan with the analyst, the shuffler and the timing of its rounds.

A campaign is a JSON document in canonical form (sorted keys, no spaces). Its id is a SHA-256 of a label and these
bytes, so all parties that know the id, or have the file, act on the same promises::

    {"analyst":{"key":{…},"operator":"…"},"extensions":1,"fetch":"…","format":"shuffledp campaign",
     "hops":[{"identity":{"ed25519":"…"},"operator":"…","url":"…"}],"nonce":"…","plan":{…},
     "promise":{"colluding":5000,"delta":1e-08,"epsilon":1.0,"epsilon_local":2.0,"users":50000},
     "question":"…","recipe":{…},"retention":2592000,"version":1,"window":604800}

Two fields are optional: ``admission``, the rule for who may take part, and ``capacity``, the maximum number of reports
in a round.

``promise`` has the ε of all rounds together with the plan's minimum of users, of whom ``colluding`` hide nobody.
``fetch`` is a hash of the secret that authorizes the analyst to fetch batches. ``recipe`` is the plan's mechanism in
integers, for clients without this package, such as web pages, and ``question`` is the question that people answer.
Times are in seconds.

The modules that a part needs are imported when it is read. Proving the promise reads ``plan``, which needs planner and
bounds. A device reads ``device_plan`` (task, mechanism and conditions of the promise), which needs neither. The server
process reads no plan.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shuffledp._core import validation
from shuffledp._core.errors import InvalidArgument, error_phrase
from shuffledp._core.message_phrases import phrase
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.service.crypto import (
    ENVELOPE_OVERHEAD_BYTES,
    KEY_BYTES,
    AnalystKey,
    PublicKey,
    ShufflerKey,
    decode_base64url,
    encode_base64url,
)
from shuffledp.service.tokens import Admission, read_admission
from shuffledp.storage import durable_files

if TYPE_CHECKING:
    from shuffledp.ledger.collection_guarantee import Guarantee
    from shuffledp.mechanisms.base.mechanism import Mechanism
    from shuffledp.planning.plan import Plan
    from shuffledp.service.browser.recipes import MechanismRecipe
    from shuffledp.tasks.base import Task

FORMAT, VERSION = "shuffledp campaign", 1
PLAN_FORMAT = ("shuffledp plan", 2)
"""Format and version of the plans that devices can read."""
CAMPAIGN_LABEL = b"shuffledp v1 campaign\0"
MAX_CAMPAIGN_BYTES = 1 << 20
NONCE_BYTES = 16
MAX_DURATION_SECONDS = 10 * 366 * 24 * 3600
FIELDS = {
    "format": str, "version": int, "plan": dict, "analyst": dict, "hops": list, "window": int, "extensions": int,
    "retention": int, "promise": dict, "recipe": dict, "question": str, "nonce": str, "fetch": str,
}  # fmt: skip
ADMISSION_FIELD, CAPACITY_FIELD = "admission", "capacity"
CAPACITY_FACTOR, MIN_DEFAULT_CAPACITY, MAX_CAPACITY = 10, 100_000, 10**12
"""A round's default capacity is CAPACITY_FACTOR times the planned users, at least MIN_DEFAULT_CAPACITY reports: clients
may send a report several times, and invalid reports count as well."""
ERROR_PREFIX = "campaign"


@dataclass(frozen=True)
class DevicePlan:
    """The part of a plan that devices need: task, mechanism, and the conditions of the promise.

    Reading it needs neither planner nor bounds. It only states the promise; ``Campaign.prove_promise`` proves it.
    """

    task: Task
    mechanism: Mechanism
    delta: float
    minimum_users: int
    """Minimum number of users for which the promise holds."""
    colluding: int
    rounds: int
    is_sampled: bool
    """True if the users of a round are sampled from a larger population."""

    @classmethod
    def from_plan(cls, plan: Plan) -> Self:
        """Returns this part of a plan."""
        sampled = plan.participation.is_sampled
        return cls(plan.task, plan.mechanism, plan.delta, plan.fewest, plan.colluding, plan.rounds, sampled)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Reads this part of a plan's document; raises ValueError if a field is missing or invalid."""
        from shuffledp.mechanisms import catalogue
        from shuffledp.tasks import registry

        if (document.get("format"), document.get("version")) != PLAN_FORMAT:
            raise ValueError(
                f"{ERROR_PREFIX}: expected a plan of the form {PLAN_FORMAT}; a newer shuffledp may have written it."
            )
        try:
            users, minimum = validation.count("plan", "users", document["users"]), document.get("minimum")
            fewest = validation.count("plan", "minimum", users if minimum is None else minimum, at_most=users)
            description = document["mechanism"]
            settings = {name: value for name, value in description.get("settings", {}).items() if value is not None}
            mechanism = catalogue.from_document(description | {"settings": settings})
            task = registry.read_task(document["task"])
            task.check_mechanism(mechanism)
            return cls(
                task,
                mechanism,
                validation.open_probability("plan", "delta", document["delta"]),
                fewest,
                validation.count("plan", "colluding", document.get("colluding", 0), at_least=0, at_most=fewest - 1),
                validation.count("plan", "rounds", document.get("rounds", 1)),
                document.get("of") is not None or document.get("rate") is not None,
            )
        except KeyError as error:
            raise ValueError(f"{ERROR_PREFIX}: its plan lacks the field {error}.") from None
        except (ValueError, TypeError, AttributeError) as error:
            reason = error_phrase(error).without_period()
            raise InvalidArgument(ERROR_PREFIX, phrase("its plan cannot be read: {reason}", reason=reason)) from None

    def promise_conditions(self) -> dict[str, Any]:
        """Returns the conditions of the promise, by the names of their fields in a campaign."""
        return {"delta": self.delta, "users": self.minimum_users, "colluding": self.colluding,
                "epsilon_local": self.mechanism.local_epsilon}  # fmt: skip

    def check_uniform_traffic(self) -> None:
        """Raises ValueError unless all clients send the same number of messages and users are not sampled."""
        if self.mechanism.message_plan.user_messages(1) is None:
            raise ValueError(
                f"{ERROR_PREFIX}: users of {self.mechanism.name} send different numbers of messages, which anyone on "
                f"the network could count; choose a mechanism or settings with which all send the same number."
            )
        if self.is_sampled:
            raise ValueError(
                f"{ERROR_PREFIX}: its users must not be a sample of more people: sending reveals who was drawn."
            )


@dataclass(frozen=True)
class Campaign:
    """A campaign; ``content`` is the canonical JSON document, and everything else is derived from it."""

    content: bytes

    # --- Creating and reading ---

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
        """Creates a campaign of a plan.

        Args:
            plan: The plan of the collection.
            analyst: Key of the analyst, to whom messages are sealed.
            shuffler: Identity (Ed25519 public key) of the shuffler.
            url: Address of the shuffler.
            operators: Names of the operators of the analysis and of the shuffler.
            window: Seconds for which a round is open.
            extensions: Maximum number of times that a round is extended by a window if it has fewer than the plan's
                minimum of users.
            retention: Seconds for which a batch that nobody fetches is stored.
            question: The question that people answer.
            admission: Rule for who may take part; None admits everybody.
            capacity: Maximum number of reports in a round, including repeated and invalid ones; None stands for ten
                times the planned users, at least 100,000.

        Raises:
            GuaranteeTooWeak: If the plan does not keep its ε.
            ValueError: If an argument is invalid, users send different numbers of messages, or users are sampled.
        """
        from shuffledp.ledger.collection_guarantee import Guarantee
        from shuffledp.service.browser.recipes import build_recipe
        from shuffledp.service.client import parse_address

        if url:
            # Fails here rather than at each client.
            parse_address(url)
        DevicePlan.from_plan(plan).check_uniform_traffic()
        guarantee = Guarantee(plan, plan.fewest)
        guarantee.require_target(allow_weaker=False)
        nonce = os.urandom(NONCE_BYTES).hex()
        return cls.from_document(
            {
                "format": FORMAT,
                "version": VERSION,
                "plan": plan.document(),
                "analyst": {"operator": operators[0], "key": analyst.public_document},
                "hops": [{"operator": operators[1], "url": url, "identity": {"ed25519": encode_base64url(shuffler)}}],
                "window": window,
                "extensions": extensions,
                "retention": retention,
                "promise": build_promise(guarantee),
                "recipe": build_recipe(plan),
                "question": question,
                "nonce": nonce,
                "fetch": _hash_token(analyst.fetch_token(nonce)),
                **({} if admission is None else {ADMISSION_FIELD: admission.to_document()}),
                **({} if capacity is None else {CAPACITY_FIELD: capacity}),
            }
        )

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Self:
        """Returns the campaign of a document, checked as by ``parse``."""
        return cls.parse(format_canonical_json(document).encode())

    @classmethod
    def parse(cls, content: bytes, *, whole_plan: bool = True) -> Self:
        """Reads and checks a campaign.

        Args:
            content: The document's bytes.
            whole_plan: If False, only the plan's ``device_plan`` is checked, for devices without planner and bounds.

        Raises:
            ValueError: If the bytes are not a valid campaign in canonical form.
        """
        try:
            document = json.loads(content) if len(content) <= MAX_CAMPAIGN_BYTES else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("version") != VERSION:
            raise ValueError(
                f'{ERROR_PREFIX}: expected a file with "format": "{FORMAT}", version {VERSION}, got something else.'
            )
        if document.keys() - {ADMISSION_FIELD, CAPACITY_FIELD} != FIELDS.keys() or any(
            type(document.get(name, 1)) is not kind for name, kind in {**FIELDS, CAPACITY_FIELD: int}.items()
        ):
            raise ValueError(f"{ERROR_PREFIX}: it is damaged: expected {', '.join(FIELDS)}.")
        # A campaign has exactly one encoding, so everybody who hashes the received bytes gets the same id.
        if format_canonical_json(document).encode() != content.strip():
            raise ValueError(
                f"{ERROR_PREFIX}: it is not canonical JSON (sorted keys, no spaces); use the file as it was created."
            )
        campaign = cls(content.strip())
        if whole_plan:
            _ = campaign.plan
        campaign._check()
        return campaign

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, whole_plan: bool = True) -> Self:
        """Reads a campaign from a file, checked as by ``parse``."""
        try:
            with open(path, "rb") as file:
                return cls.parse(file.read(MAX_CAMPAIGN_BYTES + 2), whole_plan=whole_plan)
        except OSError as error:
            raise ValueError(f"{ERROR_PREFIX}: cannot read {os.fspath(path)}: {error.strerror}.") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the campaign into a new file that everybody may read; raises ValueError if the file exists."""
        try:
            if not durable_files.create_atomically(Path(path), self.content + b"\n", durable_files.WORLD_READABLE):
                raise ValueError(f"{ERROR_PREFIX}: {os.fspath(path)} already exists; a campaign is never overwritten.")
        except OSError as error:
            raise ValueError(f"{ERROR_PREFIX}: cannot write {os.fspath(path)}: {error.strerror}.") from None

    def _check(self) -> None:
        """Raises ValueError unless all fields are valid and consistent."""
        self.device_plan.check_uniform_traffic()
        document = self.document
        validation.count(ERROR_PREFIX, "window", document["window"], at_most=MAX_DURATION_SECONDS)
        validation.count(ERROR_PREFIX, "extensions", document["extensions"], at_least=0, at_most=1000)
        validation.count(ERROR_PREFIX, "retention", document["retention"], at_most=MAX_DURATION_SECONDS)
        validation.count(
            ERROR_PREFIX, CAPACITY_FIELD, self.capacity, at_least=self.device_plan.minimum_users, at_most=MAX_CAPACITY
        )
        if len(document["hops"]) != 1:
            raise ValueError(
                f"{ERROR_PREFIX}: expected one shuffler, got {len(document['hops'])}; docs/shuffler.md says why."
            )
        _ = self.analyst_key, self.shuffler_identity, self.promised_epsilon, self.admission
        hop, analyst = document["hops"][0], document["analyst"]
        if hop.keys() != {"operator", "url", "identity"} or analyst.keys() != {"operator", "key"}:
            raise ValueError(
                f"{ERROR_PREFIX}: it is damaged: expected an operator with a key, and one with a url and identity."
            )
        if not all(isinstance(text, str) for text in (hop["operator"], hop["url"], analyst["operator"])):
            raise ValueError(f"{ERROR_PREFIX}: operators and url must be texts.")
        if not (_is_hex(document["nonce"], NONCE_BYTES) and _is_hex(document["fetch"], hashlib.sha256().digest_size)):
            raise ValueError(f"{ERROR_PREFIX}: nonce and fetch must be hexadecimal digits.")
        if any(document["promise"][name] != value for name, value in self.device_plan.promise_conditions().items()):
            raise ValueError(f"{ERROR_PREFIX}: its promise does not match its plan.")

    # --- Fields ---

    @cached_property
    def document(self) -> dict[str, Any]:
        """The campaign as a JSON object."""
        return dict(json.loads(self.content))

    @cached_property
    def id(self) -> str:
        """SHA-256 of the content, in 64 hexadecimal digits."""
        return hashlib.sha256(CAMPAIGN_LABEL + self.content).hexdigest()

    @cached_property
    def plan(self) -> Plan:
        """The complete plan; reading it loads planner and bounds."""
        from shuffledp.planning.plan import Plan

        return Plan.parse(json.dumps(self.document["plan"]))

    @cached_property
    def device_plan(self) -> DevicePlan:
        """The part of the plan that devices need; taken from the complete plan if that has been read."""
        if "plan" in vars(self):
            return DevicePlan.from_plan(self.plan)
        return DevicePlan.from_document(self.document["plan"])

    @cached_property
    def analyst_key(self) -> PublicKey:
        """The analyst's public key, to which messages are sealed."""
        return PublicKey.from_document(ERROR_PREFIX, self.document["analyst"].get("key"))

    @cached_property
    def shuffler_identity(self) -> bytes:
        """The shuffler's Ed25519 public key, which verifies its signatures."""
        hop = self.document["hops"][0]
        identity = hop.get("identity") if isinstance(hop, dict) else None
        if not isinstance(identity, dict) or identity.keys() != {"ed25519"}:
            raise ValueError(f"{ERROR_PREFIX}: expected the shuffler's Ed25519 identity.")
        return decode_base64url(ERROR_PREFIX, "the shuffler's identity", identity["ed25519"], KEY_BYTES)

    @property
    def url(self) -> str:
        return str(self.document["hops"][0]["url"])

    @property
    def operators(self) -> tuple[str, str]:
        """Names of the operators of the analysis and of the shuffler."""
        return str(self.document["analyst"]["operator"]), str(self.document["hops"][0]["operator"])

    @cached_property
    def promised_epsilon(self) -> float:
        """The promised ε of all rounds together, at the plan's δ and with its minimum of users."""
        promise, conditions = self.document["promise"], self.device_plan.promise_conditions()
        if promise.keys() != {"epsilon", *conditions}:
            raise ValueError(f"{ERROR_PREFIX}: it is damaged: expected a promise of epsilon, {', '.join(conditions)}.")
        return validation.positive_finite(ERROR_PREFIX, "the promised epsilon", promise["epsilon"])

    @cached_property
    def admission(self) -> Admission | None:
        """Rule for who may take part; None admits everybody."""
        if ADMISSION_FIELD not in self.document:
            return None
        return read_admission(ERROR_PREFIX, self.document[ADMISSION_FIELD])

    @property
    def recipe(self) -> MechanismRecipe:
        """The randomizer for clients without this package; empty if such clients cannot take part."""
        return dict(self.document["recipe"])

    @property
    def question(self) -> str:
        """The question that people answer; may be empty."""
        return str(self.document["question"])

    @property
    def window(self) -> int:
        """Seconds for which a round is open."""
        return int(self.document["window"])

    @property
    def extensions(self) -> int:
        """Maximum number of extensions of a round."""
        return int(self.document["extensions"])

    @property
    def retention(self) -> int:
        """Seconds for which a batch is stored."""
        return int(self.document["retention"])

    @property
    def capacity(self) -> int:
        """Maximum number of reports in a round, including repeated and invalid ones."""
        if CAPACITY_FIELD in self.document:
            return int(self.document[CAPACITY_FIELD])
        return max(CAPACITY_FACTOR * int(self.document["plan"]["users"]), MIN_DEFAULT_CAPACITY)

    @property
    def rounds(self) -> int:
        """The plan's number of rounds."""
        return int(self.document["plan"].get("rounds", 1))

    @property
    def nonce(self) -> str:
        return str(self.document["nonce"])

    def authorizes_fetch(self, token: str) -> bool:
        """Returns True if this is the secret that authorizes the analyst to fetch batches."""
        return hmac.compare_digest(_hash_token(token), str(self.document["fetch"]))

    # --- Sizes and checks ---

    @cached_property
    def messages_per_user(self) -> int:
        """Number of messages that each client sends."""
        messages = self.device_plan.mechanism.message_plan.user_messages(1)
        assert messages is not None, "_check demands that all users send the same number"
        return messages

    @cached_property
    def message_bytes(self) -> int:
        """Size of a sealed message."""
        return self.device_plan.mechanism.message_bytes + ENVELOPE_OVERHEAD_BYTES

    @cached_property
    def report_bytes(self) -> int:
        """Size of a client's report: all of its messages and its token, sealed to the shuffler."""
        return self.messages_per_user * self.message_bytes + self.token_bytes + ENVELOPE_OVERHEAD_BYTES

    @property
    def token_bytes(self) -> int:
        """Size of the token that a client must show; 0 if everybody is admitted."""
        return 0 if self.admission is None else self.admission.token_bytes

    def check_shuffler(self, key: ShufflerKey) -> None:
        """Raises ValueError unless the campaign names the shuffler with this key."""
        if key.identity != self.shuffler_identity:
            raise ValueError(f"{ERROR_PREFIX}: it names another shuffler than this one.")

    def check_round(self, round_number: int) -> None:
        """Raises ValueError unless the plan has this round."""
        self.device_plan.task.check_planned_round(round_number, self.device_plan.rounds)

    def prove_promise(self, *, without_local: bool = False) -> None:
        """Proves the promised ε again.

        Args:
            without_local: If True, accepts mechanisms without a local ε, whose privacy rests on the shuffler alone.

        Raises:
            ValueError: If the promised ε is not proved, the ``recipe`` is not that of the plan, or there is
                no local ε.
        """
        from shuffledp.ledger.collection_guarantee import Guarantee
        from shuffledp.service.browser.recipes import build_recipe

        guarantee = Guarantee(self.plan, self.plan.fewest)
        if not guarantee.epsilon <= self.promised_epsilon or not guarantee.is_target_met:
            raise ValueError(
                f"{ERROR_PREFIX}: it promises ε = {self.promised_epsilon:g} with {self.plan.fewest} users, which is "
                f"not proved for this plan; create it again with `shuffledp campaign create`."
            )
        if self.recipe != build_recipe(self.plan):
            raise ValueError(
                f"{ERROR_PREFIX}: its recipe, which web pages run, does not match its plan; create it again with "
                f"`shuffledp campaign create`."
            )
        if self.plan.mechanism.local_epsilon is None and not without_local:
            raise InvalidArgument(
                ERROR_PREFIX,
                f"the messages of {self.plan.mechanism.name} are not private without the shuffler: if it colludes with "
                "the analyst, both see every value",
                hint=phrase("accept that by {without_local=True}, or plan with a local ε"),
            )


def build_promise(guarantee: Guarantee) -> dict[str, Any]:
    """Returns the ``promise`` field of a campaign."""
    return {"epsilon": guarantee.epsilon, **DevicePlan.from_plan(guarantee.plan).promise_conditions()}


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _is_hex(text: str, length: int) -> bool:
    try:
        return bytes.fromhex(text).hex() == text and len(text) == 2 * length
    except ValueError:
        return False
