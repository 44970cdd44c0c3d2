"""Break formulas on purpose, one at a time, and check that the cheap tests notice.

    python scripts/broken_formulas.py                  each formula against the tests named beside it
    python scripts/broken_formulas.py --whole          each formula against the whole cheap tier (./test)
    python scripts/broken_formulas.py --only rényi     formulas whose name contains one of these texts
    python scripts/broken_formulas.py --jobs 2         two formulas at the same time
    python scripts/broken_formulas.py --list           names and files only

The checkout is copied to a temporary folder; the checkout itself is not touched. A formula is caught if a test fails
that passes otherwise. Exit status 1: a formula was missed, or its text is not in the file exactly once.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "shuffledp-report*")
)
SOURCE = "src/shuffledp"
VERIFIER = "packages/shuffledp-verify/src/shuffledp_verify"
VERIFIER_TESTS = "packages/shuffledp-verify/tests/test_verifier.py"
TIMEOUT = 900.0
"""Seconds after which a run counts as noticed: a broken formula may make a search endless."""


@dataclass(frozen=True)
class Mutation:
    """A formula, a wrong form of it, and the cheap tests that are expected to notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def occurrences(self, root: Path) -> int:
        """Returns how often the formula is in its file."""
        return (root / self.file).read_text("utf-8").count(self.old)


MUTATIONS = (
    # --- Randomizers and their laws ---
    Mutation(
        "variation ratio: α",
        f"{SOURCE}/privacy/variation_ratio.py",
        "to_rational(self.beta) / (p - 1)",
        "to_rational(self.beta) / (p + 1)",
        ("tests/privacy/test_variation_ratio.py",),
    ),
    Mutation(
        "hiding pair: the value of G",
        f"{SOURCE}/privacy/dominating_pairs.py",
        "value = apart - c.second * (ratio - 1)",
        "value = apart - c.first * (ratio - 1)",
        ("tests/privacy/test_pair.py", "tests/bounds/test_reduction.py"),
    ),
    Mutation(
        "two-level response: γ",
        f"{SOURCE}/mechanisms/base/two_level_law.py",
        "1 / (1 + arb(h) * arb(exponent).expm1())",
        "1 / (1 + arb(h) * arb(exponent).exp())",
        ("tests/mechanisms/test_own_region.py", "tests/mechanisms/test_subset.py"),
    ),
    Mutation(
        "two-level response: β",
        f"{SOURCE}/mechanisms/base/two_level_law.py",
        "beta = float_above(only_one * (self.inside_density - self.outside_density))",
        "beta = float_above(only_one * self.inside_density)",
        ("tests/mechanisms/test_own_region.py", "tests/mechanisms/test_subset.py"),
    ),
    Mutation(
        "truncated geometric noise: total variation",
        f"{SOURCE}/mechanisms/mean/laplace.py",
        "return 1 - (near + far) / (1 + self.power(1))",
        "return 1 - (near + far) / (1 + self.power(2))",
        ("tests/mechanisms/test_laplace.py",),
    ),
    # --- Bounds ---
    Mutation(
        "blanket, Hoeffding: the constant",
        f"{SOURCE}/bounds/blanket.py",
        "square / (4 * drift * moments.gamma * users)",
        "square / (8 * drift * moments.gamma * users)",
        ("tests/bounds/test_blanket.py", "tests/bounds/test_closed_form.py"),
    ),
    Mutation(
        "blanket: γ of any randomizer",
        f"{SOURCE}/bounds/blanket.py",
        "return cls(1 / local, (ratio + 1) * (local - 1)",
        "return cls(2 / local, (ratio + 1) * (local - 1)",
        ("tests/bounds/test_blanket.py", "tests/bounds/test_closed_form.py"),
    ),
    Mutation(
        "sample without replacement: ε of the sample",
        f"{SOURCE}/bounds/subsampling.py",
        ".expm1() / share).log1p()",
        ".expm1() / share**2).log1p()",
        ("tests/bounds/test_subsampling.py",),
    ),
    Mutation(
        "sample without replacement: ε of the population",
        f"{SOURCE}/bounds/subsampling.py",
        "return (share * arb(epsilon).expm1()).log1p()",
        "return share * arb(epsilon)",
        ("tests/bounds/test_subsampling.py",),
    ),
    Mutation(
        "non-response: β of each round",
        f"{SOURCE}/bounds/subsampling.py",
        "return delta / (2 * rounds)",
        "return delta / 2",
        ("tests/bounds/test_nonresponse.py",),
    ),
    Mutation(
        "non-response: β in δ",
        f"{SOURCE}/bounds/subsampling.py",
        "upper = np.minimum(1.0, (self.failure + (1 - self.failure) * over)",
        "upper = np.minimum(1.0, over",
        ("tests/bounds/test_nonresponse.py",),
    ),
    # --- Composition, Rényi and trade-off curves ---
    Mutation(
        "composition: the mass at infinity of repeated rounds",
        f"{SOURCE}/privacy/composition.py",
        "log_infinite += times * math.log1p(",
        "log_infinite += math.log1p(",
        ("tests/composition/test_sequential.py",),
    ),
    Mutation(
        "Rényi divergence: the order",
        f"{SOURCE}/privacy/privacy_loss.py",
        "return float(np.logaddexp(0.0, log_excess)) / (order - 1)",
        "return float(np.logaddexp(0.0, log_excess)) / order",
        ("tests/composition/test_renyi.py",),
    ),
    Mutation(
        "Rényi divergence to (ε, δ): the offset",
        f"{SOURCE}/privacy/renyi.py",
        "offset = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)",
        "offset = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / order",
        ("tests/composition/test_renyi.py",),
    ),
    Mutation(
        "Gaussian privacy curve",
        f"{SOURCE}/privacy/tradeoff.py",
        "second = epsilon + log_ndtr(-shift / 2 - epsilon / shift)",
        "second = log_ndtr(-shift / 2 - epsilon / shift)",
        ("tests/tradeoff/test_trade_off.py", "tests/tradeoff/test_divergence.py"),
    ),
    Mutation(
        "clone pair: the weight",
        f"{SOURCE}/privacy/shuffled_tradeoff.py",
        "return 1.0 / (math.exp(self.epsilon_local) + 1.0)",
        "return 1.0 / (math.exp(self.epsilon_local) + 2.0)",
        ("tests/tradeoff/test_trade_off_errata.py", "tests/tradeoff/test_shuffled.py"),
    ),
    # --- Rounding ---
    Mutation(
        "float above an exact number",
        f"{SOURCE}/numerics/ball_arithmetic.py",
        "return nearest if Fraction(nearest) >= Fraction(number) else math.nextafter(nearest, math.inf)",
        "return nearest",
        ("tests/numerics/test_ball.py",),
    ),
    Mutation(
        "float above a ball",
        f"{SOURCE}/numerics/ball_arithmetic.py",
        "arb(candidate) >= ball)",
        "arb(candidate) >= ball.lower())",
        ("tests/numerics/test_ball.py",),
    ),
    # --- Samplers ---
    Mutation(
        "coin: a probability of exactly p",
        f"{SOURCE}/sampling/random_sources.py",
        "self.words(count) < np.uint64(int(threshold))",
        "self.words(count) <= np.uint64(int(threshold))",
        ("tests/sampling/test_random.py", "tests/sampling/test_coin.py"),
    ),
    Mutation(
        "uniform integers: the rejected words",
        f"{SOURCE}/sampling/random_sources.py",
        "last = np.uint64(WORD_RANGE // bound * bound - 1)",
        "last = np.uint64(WORD_RANGE - 1)",
        ("tests/sampling/test_random.py",),
    ),
    Mutation(
        "KRR: the probability of a uniform option",
        f"{SOURCE}/mechanisms/frequency/randomized_response.py",
        "~source.coins(self.response.uniform_share, len(own))",
        "~source.coins(1 - self.response.uniform_share, len(own))",
        ("tests/mechanisms/test_conformance.py", "-k", "krr"),
    ),
    Mutation(
        "cancelling noise: a user's share of the pairs",
        f"{SOURCE}/mechanisms/correlated_noise/counts_with_cancelling_noise.py",
        "shape = Fraction(self.noise.shape) * self.part * self.options",
        "shape = Fraction(self.noise.shape) * self.options",
        ("tests/mechanisms/test_cancelling_noise.py", "tests/sampling/test_divided_noise.py"),
    ),
    Mutation(
        "cancelling noise: the share that is left when users are missing",
        f"{SOURCE}/mechanisms/correlated_noise/counts_with_cancelling_noise.py",
        "min(Fraction(1), Fraction(honest, self.honest))",
        "Fraction(1)",
        ("tests/mechanisms/test_cancelling_noise.py",),
    ),
    # --- Estimates ---
    Mutation(
        "frequency estimate: the unbiasing factor",
        f"{SOURCE}/mechanisms/base/support_counts.py",
        "/ float(s - r)\n",
        "/ float(s)\n",
        ("tests/mechanisms/test_oue.py", "tests/mechanisms/test_unary.py"),
    ),
    Mutation(
        "frequency estimate: the variance",
        f"{SOURCE}/mechanisms/base/support_counts.py",
        "own, other, gap = float(s * (1 - s)), float(r * (1 - r))",
        "own, other, gap = float(r * (1 - r)), float(r * (1 - r))",
        ("tests/mechanisms/test_oue.py", "tests/mechanisms/test_stated_variance.py"),
    ),
    Mutation(
        "confidence interval: the normal quantile",
        f"{SOURCE}/mechanisms/base/estimator.py",
        "inv_cdf(0.5 + confidence / 2)",
        "inv_cdf(confidence)",
        ("tests/mechanisms/test_mean_intervals.py", "tests/mechanisms/test_exact_intervals.py"),
    ),
    Mutation(
        "audit: the Clopper–Pearson limit",
        f"{SOURCE}/auditing.py",
        "betaincinv(hits, trials - hits + 1, error)",
        "betaincinv(hits + 1, trials - hits, error)",
        ("tests/auditing/test_audit.py",),
    ),
    # --- Ledger and service ---
    Mutation(
        "ledger: rounds of one kind are counted",
        f"{SOURCE}/ledger/accounting.py",
        "for _ in range(counts[recipe])]",
        "for _ in range(min(1, counts[recipe]))]",
        ("tests/collection/test_ledger.py", "tests/collection/test_spending.py"),
    ),
    Mutation(
        "envelope: the context names the round",
        f"{SOURCE}/service/crypto.py",
        'kind + bytes.fromhex(campaign) + round_number.to_bytes(8, "big")',
        "kind + bytes.fromhex(campaign) + bytes(8)",
        ("tests/service/test_envelope.py",),
    ),
    Mutation(
        "envelope: the HPKE info string",
        f"{SOURCE}/service/crypto.py",
        r'b"shuffledp v1 report\0"',
        r'b"shuffledp v1 reports\0"',
        ("tests/service/test_envelope.py", "tests/service/test_client.py"),
    ),
    # --- The second proof ---
    Mutation(
        "verifier: counts of messages",
        f"{VERIFIER}/divergence.py",
        "chance * math.comb(left, k) * powers[index][k]",
        "chance * powers[index][k]",
        (VERIFIER_TESTS, "tests/certificates/test_proof.py"),
    ),
    Mutation(
        "verifier: e^x from above",
        f"{VERIFIER}/arithmetic.py",
        "return fmpq(low, one), fmpq(high, one)",
        "return fmpq(low, one), fmpq(low, one)",
        (VERIFIER_TESTS, "tests/certificates/test_proof.py"),
    ),
    Mutation(
        "verifier: mass at infinity of two rounds",
        f"{VERIFIER}/composition.py",
        "infinite = self.infinite * (sum(other.masses) + other.infinite) + other.infinite * sum(self.masses)",
        "infinite = self.infinite * other.infinite",
        (VERIFIER_TESTS, "tests/certificates/test_rounds_proof.py"),
    ),
    Mutation(
        "verifier: the law of a claim sums to 1",
        f"{VERIFIER}/message_laws.py",
        "enough, not_too_much = arb(total) >= 1 - error, arb(total) <= 1 + error",
        "enough, not_too_much = arb(total) >= 0, arb(total) <= 2",
        (VERIFIER_TESTS, "tests/certificates/test_proof.py"),
    ),
)


class Copy:
    """A copy of the checkout in which formulas are broken and mended again."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(str(self.root / place) for place in ("src", Path(VERIFIER).parent)),
        }
        self._clock = int(time.time())
        tiers = (self.root / "tests/tiers.py").read_text("utf-8")
        # Without limits of processor time: on a busy machine they fail, which must not count as noticing.
        self.write("tests/tiers.py", re.sub(r"^(MAX_SECONDS\w*) = [\d.]+$", r'\1 = float("inf")', tiers, flags=re.M))

    def write(self, file: str, text: str) -> None:
        """Write a file with a time of its own: bytecode is told apart by whole seconds and the size of its source."""
        path = self.root / file
        path.write_text(text, "utf-8")
        self._clock += 1
        os.utime(path, (self._clock, self._clock))

    def run_tests(self, tests: Sequence[str]) -> tuple[int, str]:
        """Return the exit status of pytest and the line of the failed test, or the last line."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command, cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return 1, f"no end after {TIMEOUT:g} s"
        lines = (done.stdout + done.stderr).splitlines() or [""]
        return done.returncode, next((line for line in lines if line.startswith(("FAILED", "ERROR "))), lines[-1])

    def judge(self, mutation: Mutation, tests: Sequence[str]) -> tuple[str, str]:
        """Break a formula and return the verdict and its reason; a test that fails anyway does not count."""
        text = (self.root / mutation.file).read_text("utf-8")
        self.write(mutation.file, text.replace(mutation.old, mutation.new))
        status, line = self.run_tests(("--fast", *tests))
        self.write(mutation.file, text)
        if status != 1:
            return ("MISSED" if status == 0 else "DOES NOT RUN"), line
        node = re.match(r"(?:FAILED|ERROR) (.*?)(?: - .*)?$", line)
        if node and self.run_tests([node[1]])[0] != 0:
            return "FAILS ANYWAY", line
        return "caught", line


def missing_texts() -> Iterator[str]:
    for one in MUTATIONS:
        if (count := one.occurrences(ROOT)) != 1:
            yield f"{one.name}: {one.file} has {one.old!r} {count} times, expected once"
        if one.old == one.new:
            yield f"{one.name}: nothing is broken"
        files = [test for test in one.tests if test.endswith(".py")]
        yield from (f"{one.name}: there is no {file}" for file in files if not (ROOT / file).exists())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--whole", action="store_true", help="run the whole cheap tier for each formula")
    parser.add_argument("--only", nargs="+", default=[""], help="formulas whose name contains one of these texts")
    parser.add_argument("--list", action="store_true", help="print the formulas and stop")
    parser.add_argument("--jobs", type=int, default=1, help="formulas at the same time, each in a copy of its own")
    options = parser.parse_args()
    wrong = list(missing_texts())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    chosen = [one for one in MUTATIONS if any(text.casefold() in one.name.casefold() for text in options.only)]
    if wrong or options.list:
        print(*(f"{one.name}: {one.file}" for one in chosen), sep="\n")
        return 1 if wrong else 0
    copies: SimpleQueue[Copy] = SimpleQueue()

    def judge(mutation: Mutation) -> bool:
        copy, started = copies.get(), time.monotonic()
        verdict, line = copy.judge(mutation, () if options.whole else mutation.tests)
        copies.put(copy)
        print(f"{verdict:<7} {mutation.name} ({time.monotonic() - started:.0f} s): {line}", flush=True)
        return verdict == "caught"

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        for number in range(options.jobs):
            copies.put(Copy(Path(folder) / str(number)))
        caught = sum(pool.map(judge, chosen))
    print(f"{caught} of {len(chosen)} broken formulas caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main())
