"""Metric privacy in the shuffle model: amplified distances, and local metrics for a target."""

from shuffledp.metric.amplification import Amplification as Amplification, amplification_of as amplification_of
from shuffledp.metric.amplified import AmplifiedMetric as AmplifiedMetric, MechanismMetric as MechanismMetric
from shuffledp.metric.compared_pair import ComparedPair as ComparedPair, compare_pairs as compare_pairs
from shuffledp.metric.lower import lower_bound as lower_bound
from shuffledp.metric.solver import LocalMetric as LocalMetric, LocalMetricSolver as LocalMetricSolver
from shuffledp.privacy.space import Box as Box, DistanceMatrix as DistanceMatrix, Segment as Segment, Space as Space
