"""Metric privacy in the shuffle model: amplified distances, and local metrics for a target."""

from shuffledp.bounds.compare_metric import (
    ComparedPair as ComparedPair,
    compare_pairs as compare_pairs,
    lower_bound as lower_bound,
)
from shuffledp.bounds.local_metric_solver import LocalMetric as LocalMetric, LocalMetricSolver as LocalMetricSolver
from shuffledp.bounds.metric_amplification import (
    Amplification as Amplification,
    AmplifiedMetric as AmplifiedMetric,
    MechanismMetric as MechanismMetric,
    find_amplification as find_amplification,
)
from shuffledp.privacy.metric_space import (
    Box as Box,
    DistanceMatrix as DistanceMatrix,
    Segment as Segment,
    Space as Space,
)
