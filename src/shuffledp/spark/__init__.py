"""Collections over Spark data frames, inside any session, job or notebook that has them.

``encode``, ``shuffle`` and ``estimate`` take data frames; ``collect`` plays all roles, with ledger and report.
``Windows`` collects a stream window by window. ``Spark`` is the engine for ``shuffledp.collect``. PySpark (extra
``spark``) is imported when they are called.

>>> import shuffledp as sdp
>>> engine = sdp.spark.Spark()
>>> frame = engine.session.range(1000).selectExpr("CAST(id % 2 AS INT) AS colour")
>>> plan = sdp.Plan(sdp.tasks.Frequency(2), sdp.KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
>>> shuffled = sdp.spark.shuffle(sdp.spark.encode(frame, plan, "colour"))
>>> sdp.spark.estimate(shuffled, plan).guarantee.users
1000
>>> engine.close()
"""

from shuffledp._core import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
del attach_stub
