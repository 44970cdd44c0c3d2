"""Checked by mypy --strict and by pyright, never run: lines that are right, and lines that must be errors.

A comment that silences an error which is not there is itself an error under both, so that every wrong line below is
known to be refused.
"""

from __future__ import annotations

import math
from typing import assert_type

import numpy as np

import shuffledp as sdp

# --- right --------------------------------------------------------------------------------------------------------

mechanism = sdp.KRR(epsilon=2.0, options=128)
assert_type(mechanism, sdp.KRR)
curve = sdp.amplify(mechanism, users=100_000, effort="quick")
assert_type(curve, sdp.PrivacyCurve)
answer = curve.epsilon(delta=1e-8)
assert_type(answer, sdp.BoundValue)
assert_type(answer.upper, float)
assert_type(answer.lower, float | None)
assert_type(curve.users, int)
assert_type(curve.messages, int)
sdp.amplify(sdp.VariationRatio(p=math.inf, beta=1.0, q=16.0), users=60_001, effort="quick")
sdp.amplify(sdp.Crowd({sdp.KRR(1.0, options=4): 30, sdp.KRR(2.0, options=4): 20})).group_curve(sdp.KRR(1.0, options=4))
sdp.amplify(sdp.FromTable([[0.6, 0.4], [0.4, 0.6]]), users=1e4, bound="optimal")
assert_type(sdp.compose([curve] * 100), sdp.PrivacyCurve)
assert_type(sdp.compose(curve, 100), sdp.PrivacyCurve)
assert_type(sdp.group(curve, 3), sdp.PrivacyCurve)
found = sdp.calibrate(sdp.KRR, options=128, users=100_000, epsilon=1.0, delta=1e-8, effort="quick")
assert_type(found, sdp.Calibration)
sdp.calibrate(sdp.KRR, options=128, users=1e5, target=sdp.Target(1.0, 1e-8), effort="quick")
messages = mechanism.encode(np.zeros(10, dtype=np.int64))
assert_type(mechanism.estimate(messages), sdp.Estimate)
ranking = sdp.plan(sdp.tasks.Frequency(["red", "green"]), users=1e6, epsilon=1, delta=1e-9)
ranking.best.plan.save("plan.json")
assert_type(sdp.simulate(ranking.best.plan), sdp.Outcome | sdp.SearchOutcome)
assert_type(sdp.collect(ranking.best.plan, "data.parquet", column="colour", out="result"), sdp.Report)
sdp.verify("claim.json")
sdp.audit(mechanism)
sdp.testing.check_mechanism(mechanism)
sdp.metric.AmplifiedMetric(sdp.metric.Segment(0, 100, rate=0.05), users=100_000, delta=1e-7)
sdp.tradeoff.GaussianTradeOff(1.0)

# --- wrong --------------------------------------------------------------------------------------------------------

sdp.KRR(epsilon="two", optoins=128)  # type: ignore[call-arg, arg-type] # pyright: ignore[reportCallIssue]
_ = sdp.amplfy  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
_ = sdp.nothing  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
sdp.amplify(3, users=10, effort="quick")  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]
curve.epsilon("small")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
_ = answer.uper  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue]
sdp.OUE(1.0, 4).encode()  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
