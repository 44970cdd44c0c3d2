"""The verifier by itself: claims of shuffledp are decided from their files, where shuffledp cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mpmath import mp, mpf
from shuffledp_verify import Verdict, parse_claim, verify
from shuffledp_verify.__main__ import main
from shuffledp_verify.arithmetic import bracket_exponential
from shuffledp_verify.claim import BOUNDS, EVIDENCE_CLASSES, SECRECY_CONDITION, THEOREMS
from shuffledp_verify.message_laws import parse_law

import shuffledp as sdp
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.certificates.mechanism_evidence import MECHANISM_EVIDENCE_CLASSES as MADE_KINDS
from shuffledp.mechanisms import catalogue

Document = dict[str, Any]

POISSON = sdp.PoissonDUMP(options=9, mean=20.0, honest=100)
DUMMIES = sdp.PureDUMP(options=16, dummies=2)
CANCELLING = {"rate": 1.2, "shape": 12, "ratio": 0.6, "honest": 100}
CLAIMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "optimal": (sdp.KRR(2.0, options=16), {"users": 5000, "delta": 1e-6}),
    "optimal, a table": (sdp.FromTable([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]), {"users": 300, "delta": 1e-6}),
    "variation-ratio": (
        sdp.VariationRatio(4.0, 0.2, (3.0, 2.0), q_common=3.0), {"users": 1000, "delta": 1e-6},
    ),
    "variation-ratio of a mechanism": (
        sdp.KRR(1.0, options=4), {"users": 1000, "delta": 1e-6, "bound": "variation-ratio"},
    ),
    "stronger-clone": (sdp.KRR(1.0, options=4), {"users": 1000, "delta": 1e-6, "bound": "stronger-clone"}),
    "clone": (sdp.VariationRatio.from_ldp(1.0), {"users": 1000, "delta": 1e-6, "bound": "clone"}),
    "pair": (sdp.Laplace(1.0, grid=2), {"users": 100, "delta": 1e-4, "pair": (0.0, 0.5)}),
    "diameter": (sdp.Laplace(1.0, grid=2), {"users": 100, "delta": 1e-4, "diameter": 0.5}),
    "all-crowds": (sdp.VariationRatio.from_ldp(1.0), {"users": 3000, "delta": 1e-6, "bound": "all-crowds"}),
    "all-crowds of a mechanism": (sdp.RAPPOR(1.0, 16), {"users": 1000, "delta": 1e-6, "bound": "all-crowds"}),
    "exact-binary": (sdp.KRR(1.0, options=2), {"users": 100, "delta": 1e-6}),
    "noisy-crowd": (sdp.MixDUMP(options=4, flip=0.4, dummies=1), {"users": 20, "delta": 1e-2}),
    "dummies": (DUMMIES, {"users": 200, "delta": 1e-4}),
    "own-noise": (sdp.CancellingNoise(options=5, **CANCELLING), {"users": 100, "delta": 1e-3}),
    "own-noise, Poisson": (POISSON, {"users": 100, "delta": 1e-6}),
    "own-noise, split and mix": (
        sdp.SplitAndMix(rate=0.01, levels=100, modulus=1 << 20, messages=9, honest=1000),
        {"users": 1000, "delta": 1e-6},
    ),
    "composed-parts": (
        sdp.CancellingTree(options=9, fan_out=3, **CANCELLING), {"users": 100, "delta": 1e-3},
    ),
    "rounds": (sdp.KRR(2.0, options=16), {"users": 20_000, "delta": 1e-6, "rounds": 3}),
    "a sample": (sdp.KRR(2.0, options=16), {"users": 1000, "of": 20_000, "delta": 1e-6}),
    "a sample by coins": (sdp.KRR(2.0, options=16), {"of": 20_000, "rate": 0.05, "delta": 1e-6}),
    "dummies, by coins": (DUMMIES, {"of": 20_000, "rate": 0.05, "delta": 1e-6}),
    "noise, by coins": (POISSON, {"of": 20_000, "rate": 0.05, "delta": 1e-6}),
}  # fmt: skip
NO_LOWER_SIDE = {"rounds", "a sample by coins", "dummies, by coins", "noise, by coins"}
"""Where a smaller ε is not proved, and need not be disproved."""
NOT_CERTIFIED = {
    *("all-answered", "density", "parallel", "repeated"),  # cannot be written down
    *("gaussian", "gaussian-vector"),  # have no second proof
    *("split-and-mix", "split-and-mix-vector"),  # hide nothing among so few users; see CLAIMS
}
"""Mechanisms whose first example has no claim."""


@cache
def text_of(name: str) -> str:
    randomizer, asked = CLAIMS[name]
    return str(sdp.certify(randomizer, effort="quick", **asked).text())


def edited(name: str, **fields: Any) -> str:
    """A claim with other numbers, and the sentence that goes with them."""
    document: Document = json.loads(text_of(name))
    for field, value in fields.items():
        document["statement"] = document["statement"].replace(repr(document[field]), repr(value))
        document[field] = value
    return json.dumps(document)


# --- claims of shuffledp ----------------------------------------------------------------------------------------------


@pytest.mark.exhaustive("rounds")
@pytest.mark.parametrize("name", CLAIMS)
def test_a_smaller_epsilon_is_not_proved(name: str) -> None:
    """Yes as it stands; no at nine tenths of ε, wherever the bound has a lower side."""
    assert verify(parse_claim(text_of(name))).verdict is Verdict.YES
    smaller = verify(parse_claim(edited(name, epsilon=json.loads(text_of(name))["epsilon"] * 0.9)))
    assert smaller.verdict is not Verdict.YES
    assert smaller.verdict is Verdict.NO or name in NO_LOWER_SIDE


def test_every_kind_of_evidence_and_every_bound_is_among_them() -> None:
    documents = [json.loads(text_of(name)) for name in CLAIMS]
    assert {document["bound"] for document in documents} == set(BOUNDS)
    claims = [parse_claim(text_of(name)) for name in CLAIMS]
    assert set(EVIDENCE_CLASSES) <= {type(claim.evidence) for claim in claims}


@pytest.mark.exhaustive("cheu-zhilyaev")
@pytest.mark.parametrize("name", catalogue.all_mechanisms())
def test_the_claim_of_every_mechanism_is_proved(name: str) -> None:
    """Its first example; what is not certified is known by name."""
    mechanism = catalogue.all_mechanisms()[name].examples()[0]
    try:
        claim = sdp.certify(mechanism, 30, epsilon=1.5, effort="quick")
    except (ValueError, sdp.NotApplicable):
        assert name in NOT_CERTIFIED
        return
    assert name not in NOT_CERTIFIED
    assert verify(parse_claim(claim.text())).verdict is Verdict.YES


def test_what_is_written_here_is_what_shuffledp_says() -> None:
    """Theorems, the condition of samples, and the kinds of evidence, each on either side."""
    assert {bound: BOUNDS_BY_NAME[bound].theorem for bound in THEOREMS} == THEOREMS
    assert SECRECY_CONDITION == SAMPLING_SECRECY_CONDITION
    assert all(issubclass(made, read) for made, read in zip(MADE_KINDS, EVIDENCE_CLASSES, strict=True))


# --- without shuffledp ------------------------------------------------------------------------------------------------

ALONE = """
import json, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("shuffledp", "numpy", "scipy"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Refuse())
before = set(sys.modules)
from shuffledp_verify import read_claim, verify

verdicts = [verify(read_claim(path)).verdict.value for path in sys.argv[1:]]
loaded = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(json.dumps({"verdicts": verdicts, "loaded": sorted(loaded)}))
"""


@pytest.mark.exhaustive
def test_it_needs_neither_shuffledp_nor_numpy(tmp_path: Path) -> None:
    """Every kind of claim, in a process that can import none of them."""
    paths = []
    for number, name in enumerate(CLAIMS):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(text_of(name), encoding="utf-8")
    command = [sys.executable, "-c", ALONE, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert dict(zip(CLAIMS, found["verdicts"], strict=True)) == dict.fromkeys(CLAIMS, "yes")
    # Cython registers modules of its own for FLINT.
    assert [name for name in found["loaded"] if "cython" not in name] == ["flint", "shuffledp_verify"]


# --- what a file says is checked --------------------------------------------------------------------------------------


def test_numbers_of_the_file_are_what_is_proved() -> None:
    """Among fewer messages the same (ε, δ) is not proved, among more it is."""
    document: Document = json.loads(text_of("dummies"))
    assert document["messages"] == 401
    fewer = json.dumps({**document, "messages": 300})
    assert verify(parse_claim(fewer)).verdict is Verdict.NO
    more = json.dumps({**document, "messages": 500})
    assert verify(parse_claim(more)).verdict is Verdict.YES


def test_shuffledp_compares_the_number_of_messages(tmp_path: Path) -> None:
    """More than the protocol has is refuted; a file that does not say it is proved by the protocol's own."""
    document: Document = json.loads(text_of("dummies"))
    path = tmp_path / "claim.json"
    path.write_text(json.dumps({**document, "messages": 500}), encoding="utf-8")
    finding = sdp.verify(path)
    assert finding.verdict is Verdict.NO
    assert finding.reason == "messages is 500 in the file and 401 in truth."
    del document["messages"]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert sdp.verify(path).verdict is Verdict.YES


def test_shuffledp_compares_the_numbers_of_every_size(tmp_path: Path) -> None:
    for name, field, value in (("dummies, by coins", "messages", 10**6), ("noise, by coins", "noises", None)):
        document: Document = json.loads(text_of(name))
        size = document["sizes"][0]
        assert field in size
        if value is None:
            size[field][0]["noise"]["mean"] = "1000"
        else:
            size[field] = value
        path = tmp_path / "claim.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        finding = sdp.verify(path)
        assert finding.verdict is Verdict.NO
        assert f"the numbers of {size['users']} users are not those of the mechanism" in finding.reason


def test_sizes_without_their_numbers_are_left_open() -> None:
    document: Document = json.loads(text_of("noise, by coins"))
    for size in document["sizes"]:
        size.pop("noises", None)
    finding = verify(parse_claim(json.dumps(document)))
    assert finding.verdict is Verdict.OPEN
    assert "does not say which numbers its law has for" in finding.reason


def _with(document: Document, path: tuple[Any, ...], value: Any) -> str:
    target: Any = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("name", "path", "value", "reason"),
    [
        ("optimal", ("law", 0, 0, "hiding"), "9/10", "do not sum to 1 (hiding)"),
        ("optimal", ("law", 0, 0, "first"), "0", "do not sum to 1 (first)"),
        ("optimal", ("theorem",), "a better theorem", "the theorem of optimal is"),
        ("optimal", ("bound",), "tightest", "the bound 'tightest' is unknown"),
        ("variation-ratio", ("law", 0, 0, "hiding"), "9/10", "class 1: hiding is 9/10 in the file"),
        ("variation-ratio", ("messages",), 10**6, "one message of each user"),
        ("all-crowds", ("crowds", 0, "gamma"), "9/10", "gamma is above 1/p"),
        ("all-crowds", ("crowds", 0, "gamma"), "2", "gamma must be a fraction"),
        ("exact-binary", ("coin", "most"), "3/2", "must be probabilities"),
        ("noisy-crowd", ("chance",), "3/2", "no probability"),
        ("a sample", ("users",), 1001, "users is not how many are drawn"),
    ],
)
def test_what_cannot_be_is_refuted(name: str, path: tuple[Any, ...], value: Any, reason: str) -> None:
    document: Document = json.loads(text_of(name))
    text = _with(document, path, value)
    finding = verify(parse_claim(text))
    assert finding.verdict is Verdict.NO
    assert reason in finding.reason


def test_both_directions_of_a_law_are_proved() -> None:
    """A law that is not its own mirror image, of which a forger leaves out the worse direction."""
    document: Document = json.loads(text_of("pair"))
    assert document["bound"] == "optimal"
    assert len(document["law"]) == 2
    for direction in (0, 1):
        one = json.dumps({**document, "law": [document["law"][direction]]})
        finding = verify(parse_claim(one))
        assert finding.verdict is Verdict.YES
        assert "all 2 laws" in finding.reason


def test_an_unknown_noise_is_left_open() -> None:
    text = _with(json.loads(text_of("own-noise")), ("noises", 0, "noise", "kind"), "uniform")
    finding = verify(parse_claim(text))
    assert finding.verdict is Verdict.OPEN
    assert "noise with the kind or number 'uniform'" in finding.reason


@pytest.mark.parametrize("number", ["0", "1/2"])
def test_a_noise_with_impossible_numbers_is_no_claim(number: str) -> None:
    """Nothing loops for ever over a law that does not end."""
    document = json.loads(text_of("own-noise, split and mix"))
    with pytest.raises(ValueError, match=r"^certificate: places of a noise must be .*\.$"):
        verify(parse_claim(_with(document, ("noises", 0, "noise", "places"), number)))
    for name in ("rate", "ratio"):
        document = json.loads(text_of("own-noise"))
        with pytest.raises(ValueError, match=r"^certificate: \w+ of a noise must be .* [01]\.$"):
            verify(parse_claim(_with(document, ("noises", 0, "noise", name), "0" if name == "rate" else "1")))


def test_bounds_of_laws_may_sum_to_more() -> None:
    """The first law from above and the second from below: what is proved holds for the law between."""
    half = {"first": "51/100", "second": "49/100", "hiding": "1/2"}
    assert len(parse_law([half, half])) == 2


# --- the command ------------------------------------------------------------------------------------------------------


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "claim.json"
    path.write_text(text_of("optimal"), encoding="utf-8")
    return path


def test_yes_no_and_cannot_decide(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, err = ran(capsys, str(file))
    assert (status, err) == (0, "")
    assert out.startswith(
        "yes: the divergence is at most delta for the only law.\n  claim   Replacing one user's value"
    )
    status, out, err = ran(capsys, str(file), "--json")
    found: Mapping[str, str] = json.loads(out)
    assert (status, found["verdict"], err) == (0, "yes", "")
    assert found.keys() == {"verdict", "reason", "method"}
    with monkeypatch.context() as patch:
        patch.setattr("shuffledp_verify.divergence.MAX_TERMS", 1)
        status, out, _ = ran(capsys, str(file))
        assert status == 3
        assert out.startswith("cannot decide: ")
    file.write_text(edited("optimal", epsilon=0.05), encoding="utf-8")
    status, out, _ = ran(capsys, str(file))
    assert status == 1
    assert out.startswith("no: this bound's divergence is above δ")


@pytest.mark.parametrize("damage", ["cut", "binary", "missing", "another", "a field less", "a number too long"])
def test_a_damaged_file_is_one_sentence(damage: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document: Document = json.loads(text_of("optimal"))
    texts = {
        "cut": text_of("optimal")[:-40],
        "another": '{"epsilon": 1}',
        "a field less": json.dumps({key: value for key, value in document.items() if key != "law"}),
        "a number too long": text_of("optimal").replace('"users": 5000', f'"users": {"5" * 5000}'),
    }
    if damage == "missing":
        file.unlink()
    elif damage == "binary":
        file.write_bytes(b"\xff\xfe")
    else:
        file.write_text(texts[damage], encoding="utf-8")
    status, out, err = ran(capsys, str(file))
    assert (status, out) == (2, "")
    assert err.startswith("shuffledp-verify: ")
    assert err.count("\n") == 1


def test_as_a_program(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shuffledp_verify", str(file), "--json"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["verdict"] == "yes"


def test_the_readme_shows_what_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(yes: .*?)```", readme, re.DOTALL)
    claim = sdp.certify(sdp.KRR(2.0, options=128), 100_000, delta=1e-8, bound="optimal")
    claim.save(file)
    assert ran(capsys, str(file))[1] == shown


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(41, 3), Fraction(700)])
def test_the_exponential_is_between_its_brackets(x: Fraction) -> None:
    """Against mpmath, which shares no code with it; the two are within 2^-150 of each other."""
    below, above = bracket_exponential(x)
    with mp.workdps(600):
        truth = mp.e ** (mpf(x.numerator) / x.denominator)
        low, high = (mpf(int(side.p)) / int(side.q) for side in (below, above))
        assert low <= truth <= high
        assert (high - low) < truth / 2**150
        assert low < high
