"""Composition of weekly rounds

ε of randomized response on 16 options, collected every week of a year from the same 100,000 users. It grows like
√weeks, not like weeks.
"""

import matplotlib.pyplot as plt

import shuffledp as sdp

weekly = sdp.amplify(sdp.KRR(2.0, options=16), users=100_000, effort="quick")
weeks = (1, 2, 4, 8, 16, 32, 52)
found = [sdp.compose(weekly, number).epsilon(delta=1e-8).upper for number in weeks]
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.plot(weeks, found, "o-", color="#0b3c5d", label="certified composition")
axes.plot(weeks, [found[0] * number for number in weeks], ":", color="0.5", label="plain sum")
axes.set(xlabel="weeks", ylabel="central ε at δ = 1e-8", xlim=(0, 53), ylim=(0, 0.6))
axes.legend(frameon=False)
figure.savefig("weeks.png", dpi=130)
