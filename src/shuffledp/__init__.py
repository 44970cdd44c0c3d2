"""The shuffle model of differential privacy, from certified bounds to running collections.

The public interface is the list of names exported here: functions and their results, every mechanism under its own name
(``shuffledp.KRR``, ``shuffledp.OUE``, …), and the namespaces ``bounds``, ``collection``, ``metric``, ``spark``,
``tasks``, ``testing``, ``tradeoff``. Parts of mechanisms, for mechanisms of your own, are in
``shuffledp.mechanisms.base``.

>>> import shuffledp as sdp
>>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000)
>>> f"{curve.epsilon(delta=1e-8).upper:.6f}"
'0.010174'
"""

from shuffledp._core import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
del attach_stub
