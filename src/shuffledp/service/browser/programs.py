"""Mechanisms as programs for a browser's client, and the files of that client."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.correlated_noise.cancelling_noise import CancellingNoise
from shuffledp.mechanisms.correlated_noise.split_and_mix import SplitAndMix
from shuffledp.mechanisms.dummies.pure_and_mix_dump import MixDUMP, PureDUMP
from shuffledp.mechanisms.frequency.local_hash import LocalHash
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.subset_selection import Subset
from shuffledp.mechanisms.frequency.unary_encoding import OUE, RAPPOR
from shuffledp.mechanisms.mean.piecewise import Piecewise
from shuffledp.mechanisms.mean.witch_hat import WitchHat
from shuffledp.mechanisms.vector.duchi_and_harmony import Duchi
from shuffledp.planning.plan import Plan
from shuffledp.sampling.random_sources import WORD_RANGE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route


# --- Programs ---


BrowserProgram = dict[str, Any]
SUPPORTED_TASKS = ("frequency", "mean", "sum", "count")
MAX_WEIGHTS = 1 << 12
"""Maximum number of weights of a witch hat in a recipe."""
MAX_OPTIONS = 1 << 20
"""Maximum number of options of a bit vector or subset in a recipe."""


def build_program(plan: Plan) -> BrowserProgram:
    """Returns the recipe of a plan's mechanism; empty if clients need this package."""
    making = PROGRAM_BUILDERS.get(type(plan.mechanism))
    if making is None or plan.task.name not in SUPPORTED_TASKS:
        return {}
    found = making(plan.mechanism)
    if not found:
        return {}
    numeric = {} if plan.task.name == "frequency" else {"range": list(plan.mechanism.value_range)}
    return {"bytes": plan.mechanism.message_bytes, **numeric, **found}


def _threshold(probability: Fraction) -> str:
    """Returns the probability in units of 2^-64."""
    threshold = probability * WORD_RANGE
    assert threshold.denominator == 1, "chances are multiples of 2^-64"
    return str(threshold.numerator)


def _fraction_strings(number: Fraction | float) -> list[str]:
    found = Fraction(number)
    return [str(found.numerator), str(found.denominator)]


def _option_program(
    uniform: Fraction, options: int, dummies: int = 0, filled: Fraction = Fraction(1)
) -> BrowserProgram:
    return {"kind": "option", "options": str(options), "uniform": _threshold(uniform), "dummies": str(dummies),
            "filled": _threshold(filled)}  # fmt: skip


def _krr(mechanism: KRR) -> BrowserProgram:
    return _option_program(mechanism.response.uniform_share, mechanism.options)


def _pure_dump(mechanism: PureDUMP) -> BrowserProgram:
    return _option_program(Fraction(0), mechanism.options, mechanism.dummies, mechanism.dummy_law.filled)


def _mix_dump(mechanism: MixDUMP) -> BrowserProgram:
    return _option_program(mechanism.uniform_share, mechanism.options, mechanism.dummies, mechanism.dummy_law.filled)


def _duchi(mechanism: Duchi) -> BrowserProgram:
    """Returns the recipe in one dimension, where the message is a sign, one of two options."""
    if mechanism.dimension != 1:
        return {}
    return _option_program(mechanism.response.uniform_share, 2) | {"grid": "1", "signed": True}


def _bits(mechanism: OUE | RAPPOR) -> BrowserProgram:
    if mechanism.options > MAX_OPTIONS:
        return {}
    row = mechanism.bits
    return {
        "kind": "bits",
        "options": str(row.options),
        "own": _threshold(row.true_probability),
        "other": _threshold(row.false_probability),
    }


def _hash(mechanism: LocalHash) -> BrowserProgram:
    return {"kind": "hash", "messages": str(mechanism.hash_messages.messages), "length": str(mechanism.buckets),
            "uniform": _threshold(mechanism.response.uniform_share)}  # fmt: skip


def _subset(mechanism: Subset) -> BrowserProgram:
    if mechanism.options > MAX_OPTIONS:
        return {}
    width = max(1, (mechanism.options - 1).bit_length())
    return {"kind": "subset", "options": str(mechanism.options), "size": str(mechanism.subset_size),
            "width": str(width), "uniform": _threshold(mechanism.response.uniform_share)}  # fmt: skip


def _window(mechanism: Piecewise) -> BrowserProgram:
    return {"kind": "window", "grid": str(mechanism.grid), "size": str(mechanism.window),
            "uniform": _threshold(mechanism.response.uniform_share), "signed": True}  # fmt: skip


def _hat(mechanism: WitchHat) -> BrowserProgram:
    if mechanism.hat.reach > MAX_WEIGHTS:
        return {}
    return {"kind": "hat", "grid": str(mechanism.grid), "weights": [str(unit) for unit in mechanism.hat.units]}


def _shares(mechanism: SplitAndMix) -> BrowserProgram:
    noise = {"shape": ["1", str(mechanism.honest)], "rate": _fraction_strings(mechanism.rate)}
    return {"kind": "shares", "levels": str(mechanism.levels), "modulus": str(mechanism.modulus),
            "messages": str(mechanism.messages), "noise": noise}  # fmt: skip


def _signed(mechanism: CancellingNoise) -> BrowserProgram:
    """Returns a recipe by which each client draws its share of the noise; none if the shuffler draws the noise."""
    told = {"kind": "signed", "options": str(mechanism.options), "places": str(mechanism.places or 1)}
    if mechanism.honest == 0:
        return told | {"noise": []}
    if not mechanism.places:
        return {}
    part = Fraction(mechanism.options, mechanism.honest)
    single = {"shape": _fraction_strings(part), "rate": _fraction_strings(mechanism.rate)}
    flood = {"shape": _fraction_strings(part * Fraction(mechanism.shape)), "ratio": _fraction_strings(mechanism.ratio)}
    return told | {"noise": [{"signs": ["0"], **single}, {"signs": ["1"], **single}, {"signs": ["0", "1"], **flood}]}


PROGRAM_BUILDERS: Mapping[type[Mechanism], Callable[[Any], BrowserProgram]] = {
    KRR: _krr,
    PureDUMP: _pure_dump,
    MixDUMP: _mix_dump,
    Duchi: _duchi,
    OUE: _bits,
    RAPPOR: _bits,
    LocalHash: _hash,
    Subset: _subset,
    Piecewise: _window,
    WitchHat: _hat,
    SplitAndMix: _shares,
    CancellingNoise: _signed,
}
"""By class: the mechanisms that plans choose most often for frequencies, means, sums and yes/no questions."""


# --- Files ---


MODULE_NAME, PAGE_NAME = "client.js", "take-part"
FILES = MappingProxyType(
    {MODULE_NAME: "client.js", PAGE_NAME: "page.html", "page.js": "page.js", "page.css": "page.css"}
)
"""File in this folder by its name below /v1/."""
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}
INTEGRITY_PLACEHOLDER = b"{integrity}"
"""Placeholder in the page for the integrity hash of the module."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Content security policy: no inline script or style, no other host, no framing, no form submission."""
CACHE_SECONDS = 3600


@dataclass(frozen=True)
class StaticFile:
    """A file and its media type."""

    body: bytes
    media_type: str

    @cached_property
    def etag(self) -> str:
        """A strong ETag, a hash of the content."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'

    @cached_property
    def integrity(self) -> str:
        """The hash for subresource integrity."""
        return "sha384-" + base64.b64encode(hashlib.sha384(self.body).digest()).decode()

    @property
    def headers(self) -> Mapping[str, str]:
        """Response headers: any origin may load the file, its media type is not guessed, no referrer is sent."""
        return {
            "etag": self.etag,
            "cache-control": f"public, max-age={CACHE_SECONDS}",
            "access-control-allow-origin": "*",
            "cross-origin-resource-policy": "cross-origin",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "content-security-policy": CONTENT_SECURITY_POLICY,
        }


@lru_cache
def load_static_file(name: str) -> StaticFile:
    """Returns the file with this name below /v1/."""
    path = resources.files(__package__) / FILES[name]
    body = path.read_bytes()
    if name == PAGE_NAME:
        body = body.replace(INTEGRITY_PLACEHOLDER, load_static_file(MODULE_NAME).integrity.encode())
    return StaticFile(body, MEDIA_TYPES[FILES[name][FILES[name].rindex(".") :]])


# --- Routes ---

NOT_MODIFIED = 304
SUMMARIES = {MODULE_NAME: "The module that browsers and Node take part with.", PAGE_NAME: "A page that takes part."}


def static_routes() -> list[Route]:
    """Returns a route for each file."""
    from starlette.routing import Route

    return [Route(f"/v1/{name}", _build_handler(load_static_file(name)), methods=["GET"]) for name in FILES]


def _build_handler(file: StaticFile) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        from starlette.responses import Response

        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if file.etag in known or "*" in known:
            return Response(status_code=NOT_MODIFIED, headers=file.headers)
        return Response(file.body, headers=file.headers, media_type=file.media_type)

    return serve


def build_openapi_paths() -> dict[str, Any]:
    """Returns the OpenAPI paths of the files."""
    return {
        f"/v1/{name}": {
            "get": {
                "summary": SUMMARIES.get(name, "A part of that page."),
                "responses": {
                    "200": {"description": "It.", "content": {load_static_file(name).media_type.partition(";")[0]: {}}},
                    str(NOT_MODIFIED): {"description": "What you have is it."},
                },
            }
        }
        for name in FILES
    }
