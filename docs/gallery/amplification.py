"""More users, smaller ε

Three mechanisms with the same local ε0 = 2. The guarantee (lines) falls like 1/√n. An attack on a constructed dataset
(dots) shows that no smaller ε could be promised. The README shows this picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import shuffledp as sdp

users = np.geomspace(1e3, 1e6, 7).round()
shown = {
    "randomized response on 128 options": sdp.KRR(2.0, options=128),
    "randomized response on 16 options": sdp.KRR(2.0, options=16),
    "local hashing of 128 options": sdp.LocalHash(2.0, options=128),
}
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for colour, (name, mechanism) in zip(("#0b3c5d", "#d1495b", "#3b8f6b"), shown.items(), strict=True):
    values = [sdp.amplify(mechanism, n, effort="quick").epsilon(delta=1e-8) for n in users]
    axes.loglog(users, [value.upper for value in values], color=colour, label=name)
    axes.loglog(users, [value.lower for value in values], ".", color=colour)
axes.axhline(2, color="0.5", linestyle=":")
axes.annotate("what each message keeps by itself: ε0 = 2", (1.1e3, 2.15), color="0.35", fontsize=9)
axes.set(xlabel="users who are shuffled together", ylabel="central ε at δ = 1e-8", ylim=(2e-3, 4))
axes.grid(True, color="0.92")
axes.legend(frameon=False, fontsize=9, loc="lower left")
figure.savefig("amplification.png", dpi=130)
