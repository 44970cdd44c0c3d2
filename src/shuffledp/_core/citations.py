"""The papers that statements cite, by key."""

from __future__ import annotations

import re

CITATIONS: dict[str, str] = {
    "VR": "S. Wang et al., Privacy Amplification via Shuffling: Unified, Simplified, and Tightened, 2023 preprint",
    "MDP": "S. Wang, J. Li, Y. Li, X. Luo, W. Yang, H. Yan, C. Dong, "
    "Metric Differential Privacy in the Shuffle Model, 2023",
    "LC": "V. Feldman, K. Talwar, Lossless Compression of Efficient Private Local Randomizers, 2021",
    "FDP": "C. Wang, B. Su, J. Ye, R. Shokri, W. Su, "
    "Unified Enhancement of Privacy Bounds for Mixture Mechanisms via f-Differential Privacy, 2023",
    "PB": "B. Balle, J. Bell, A. Gascón, K. Nissim, The Privacy Blanket of the Shuffle Model, 2019",
    "FMT21": "V. Feldman, A. McMillan, K. Talwar, Hiding Among the Clones, 2021",
    "FMT23": "V. Feldman, A. McMillan, K. Talwar, "
    "Stronger Privacy Amplification by Shuffling for Rényi and Approximate Differential Privacy, 2023",
    "SCW25": "P. Su, H. Cheng, S. Wang, "
    "Decomposition-Based Optimal Bounds for Privacy Amplification via Shuffling, 2025",
    "BC20": "V. Balcer, A. Cheu, Separating Local & Shuffled Differential Privacy via Histograms, 2020",
    "BCJM21": "V. Balcer, A. Cheu, M. Joseph, J. Mao, Connecting Robust Shuffle Privacy and Pan-Privacy, 2021",
    "CZ22": "A. Cheu, M. Zhilyaev, Differentially Private Histograms in the Shuffle Model from Fake Users, 2022",
    "GKMPS21": "B. Ghazi, R. Kumar, P. Manurangsi, R. Pagh, A. Sinha, Differentially Private Aggregation in the "
    "Shuffle Model: Almost Central Accuracy in Almost a Single Message, 2021",
    "LWY22": "Q. Luo, Y. Wang, K. Yi, Frequency Estimation in the Shuffle Model with Almost a Single Message, 2022",
    "BBGN20": "B. Balle, J. Bell, A. Gascón, K. Nissim, Private Summation in the Multi-Message Shuffle Model, 2020",
    "DUMP": "X. Li, W. Liu, H. Feng, K. Huang, Y. Hu, J. Liu, K. Ren, Z. Qin, "
    "Privacy Enhancement via Dummy Points in the Shuffle Model, 2023",
}
"""Full citations by key, as in docs/theorems.md, which has the proof of every theorem."""
_CITATION_KEY = re.compile(r"\[([A-Z]+\d*)[\]\s]")


def find_citations(theorem: str) -> list[str]:
    """Returns the full citation of every key in a theorem's name, in their order; empty if it has none.

    >>> find_citations("privacy blanket [PB]")
    ['[PB] B. Balle, J. Bell, A. Gascón, K. Nissim, The Privacy Blanket of the Shuffle Model, 2019']
    """
    return [f"[{key}] {CITATIONS[key]}" for key in dict.fromkeys(_CITATION_KEY.findall(theorem)) if key in CITATIONS]
