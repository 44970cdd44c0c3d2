"""The browser module in Node: its size, and the processor time of one person's report, beside Python's in the same run.

    python benchmarks/browser.py [--reports N]

The bars: at most 8 kB compressed with all mechanisms, and 6 ms for a report of one message.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from shuffledp import (
    KRR,
    OUE,
    CancellingNoise,
    LocalHash,
    MixDUMP,
    Plan,
    PureDUMP,
    SplitAndMix,
    Subset,
    WitchHat,
    tasks,
)
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.service.browser.assets import MODULE_NAME, load_static_file
from shuffledp.service.browser.recipes import build_program
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import AnalystKey, PrivateKey, ShufflerKey
from shuffledp.service.notices_and_statements import RoundNotice
from shuffledp.service.sealing import seal_reports

MECHANISMS: dict[str, Mechanism] = {
    "krr, 16 options": KRR(7.4, 16),
    "subset, 16 options": Subset(2.0, 16),
    "oue, 1,000 options": OUE(4.0, 1000),
    "local-hash, 1e6 options": LocalHash(4.0, 10**6),
    "mix-dump, 1,000 options": MixDUMP(1000, flip=0.25, dummies=1),
    "pure-dump, 3 dummies": PureDUMP(1000, dummies=3),
    "witch-hat": WitchHat(8.15, scale=0.125),
    "split-and-mix, 8 messages": SplitAndMix(1 / 645, levels=645, modulus=1 << 27, messages=8, honest=100_000),
    "cancelling-noise, 8 places": CancellingNoise(16, 0.9, 60.0, 0.93, honest=100_000, places=8),
}


def plan_of(mechanism: Mechanism) -> Plan:
    task = tasks.Frequency(mechanism.options) if hasattr(mechanism, "options") else tasks.Mean(0.0, 1.0)
    return Plan(task, mechanism, users=100_000, epsilon=10.0, delta=1e-3)


def in_python(campaign: Campaign, notice: RoundNotice, reports: int) -> float:
    """Milliseconds of sealing one message twice."""
    wire = np.zeros((reports, campaign.plan.mechanism.message_bytes), dtype=np.uint8)
    start = time.process_time()
    seal_reports(campaign, notice, wire)
    return 1000 * (time.process_time() - start) / reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--reports", type=int, default=200)
    reports = parser.parse_args().reports
    key = PrivateKey.new()
    campaign = Campaign.create(
        plan_of(KRR(7.4, 16)), AnalystKey.new(), ShufflerKey.new().identity, url="", operators=("", ""), window=60
    )
    jobs = [{"recipe": build_program(plan_of(each)), "value": 1, "count": reports} for each in MECHANISMS.values()]
    told = {"id": campaign.id, "document": campaign.document, "key": key.public_key.key.hex(), "jobs": jobs}
    with tempfile.TemporaryDirectory() as room:
        module = Path(room, "client.mjs")
        module.write_bytes(load_static_file(MODULE_NAME).body)
        command = ["node", str(Path(__file__).with_suffix(".mjs")), str(module)]
        done = subprocess.run(command, input=json.dumps(told), capture_output=True, text=True, check=True)
    alone = in_python(campaign, RoundNotice(campaign.id, 1, 0, 1, key.public_key), reports)
    body = load_static_file(MODULE_NAME).body
    print(f"module: {len(body):,} bytes, {len(gzip.compress(body, 9)):,} compressed")
    print(f"Python seals a report of one message in {alone:.2f} ms")
    for name, (drawn, whole) in zip(MECHANISMS, json.loads(done.stdout), strict=True):
        print(
            f"{name:28}{drawn:8.2f} ms drawn{whole:8.2f} ms drawn and sealed{whole / alone:8.1f} × Python's one message"
        )


if __name__ == "__main__":
    main()
