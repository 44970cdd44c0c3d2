"""Collections over data frames of Spark, inside whatever session, job or notebook has them.

``encode``, ``shuffle`` and ``estimate`` take and give data frames; ``collect`` plays all roles, with ledger and report.
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

from shuffledp.collection.cluster.frame_collection import collect as collect
from shuffledp.collection.cluster.frame_role import encode as encode, estimate as estimate, shuffle as shuffle
from shuffledp.collection.cluster.stream_window import Windows as Windows
from shuffledp.collection.engine.spark_engine import Spark as Spark
