# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp_verify.verdict import Finding as Finding

from shuffledp import (
    bounds as bounds,
    collection as collection,
    metric as metric,
    spark as spark,
    tasks as tasks,
    testing as testing,
    tradeoff as tradeoff,
)
from shuffledp._core import __version__ as __version__
from shuffledp._core.errors import (
    NotApplicable as NotApplicable,
    NumericalError as NumericalError,
    ShuffledpError as ShuffledpError,
)
from shuffledp.auditing import AuditResult as AuditResult, audit as audit
from shuffledp.bounds.amplify import amplify as amplify
from shuffledp.bounds.base import Bound as Bound
from shuffledp.bounds.compare import Comparison as Comparison, compare as compare
from shuffledp.bounds.mixed_populations import Crowd as Crowd
from shuffledp.bounds.participation import Participation as Participation
from shuffledp.bounds.subsampling import poisson as poisson, subsample as subsample
from shuffledp.bounds.sweep import Sweep as Sweep, sweep as sweep
from shuffledp.calibration.calibrate import Calibration as Calibration, calibrate as calibrate
from shuffledp.calibration.targets import RiskTarget as RiskTarget, Target as Target
from shuffledp.certificates.certify import certify as certify
from shuffledp.certificates.claim import Claim as Claim, verify as verify
from shuffledp.collection.collect import collect as collect
from shuffledp.collection.report import Report as Report, ask as ask
from shuffledp.mechanisms.base.estimator import Estimate as Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism as Mechanism
from shuffledp.mechanisms.combined.answer_all import AllAnswered as AllAnswered
from shuffledp.mechanisms.combined.compressed import Compressed as Compressed
from shuffledp.mechanisms.combined.parallel import Parallel as Parallel
from shuffledp.mechanisms.combined.range_queries import RangeQueries as RangeQueries
from shuffledp.mechanisms.combined.repeated import Repeated as Repeated
from shuffledp.mechanisms.correlated_noise.counts_with_cancelling_noise import CancellingNoise as CancellingNoise
from shuffledp.mechanisms.correlated_noise.sets_and_trees_with_cancelling_noise import (
    CancellingSets as CancellingSets,
    CancellingTree as CancellingTree,
)
from shuffledp.mechanisms.correlated_noise.split_and_mix import SplitAndMix as SplitAndMix
from shuffledp.mechanisms.correlated_noise.split_and_mix_vector import SplitAndMixVector as SplitAndMixVector
from shuffledp.mechanisms.dummies.balcer_histograms import BalcerCheu as BalcerCheu, BalcerUniform as BalcerUniform
from shuffledp.mechanisms.dummies.balls_into_bins import BallsIntoBins as BallsIntoBins
from shuffledp.mechanisms.dummies.cheu_zhilyaev import CheuZhilyaev as CheuZhilyaev
from shuffledp.mechanisms.dummies.poisson_dummies import PoissonDUMP as PoissonDUMP
from shuffledp.mechanisms.dummies.poisson_tables_and_trees import PoissonTables as PoissonTables, RangeTree as RangeTree
from shuffledp.mechanisms.dummies.pure_and_mix_dump import MixDUMP as MixDUMP, PureDUMP as PureDUMP
from shuffledp.mechanisms.frequency.hadamard_response import HadamardResponse as HadamardResponse
from shuffledp.mechanisms.frequency.local_hash import LocalHash as LocalHash
from shuffledp.mechanisms.frequency.pi_rappor import PIRAPPOR as PIRAPPOR
from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveGeometry as ProjectiveGeometry
from shuffledp.mechanisms.frequency.randomized_response import KRR as KRR
from shuffledp.mechanisms.frequency.subset_selection import Subset as Subset
from shuffledp.mechanisms.frequency.unary_encoding import OUE as OUE, RAPPOR as RAPPOR
from shuffledp.mechanisms.mean.gaussian import Gaussian as Gaussian
from shuffledp.mechanisms.mean.laplace import Laplace as Laplace
from shuffledp.mechanisms.mean.piecewise import Piecewise as Piecewise
from shuffledp.mechanisms.mean.witch_hat import WitchHat as WitchHat
from shuffledp.mechanisms.metric.exponential import Exponential as Exponential, PaddedExponential as PaddedExponential
from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace as PlanarLaplace
from shuffledp.mechanisms.opt_out_group import OptOut as OptOut
from shuffledp.mechanisms.sets_and_key_values.pckv_and_privkv import PCKV as PCKV, PrivKV as PrivKV
from shuffledp.mechanisms.sets_and_key_values.privset import PrivSet as PrivSet
from shuffledp.mechanisms.sets_and_key_values.sampling_rappor import SamplingRAPPOR as SamplingRAPPOR
from shuffledp.mechanisms.sets_and_key_values.wheel_and_collision import Collision as Collision, Wheel as Wheel
from shuffledp.mechanisms.table_and_density import (
    FromDensity as FromDensity,
    FromTable as FromTable,
    SentPoint as SentPoint,
)
from shuffledp.mechanisms.vector.duchi_and_harmony import Duchi as Duchi, Harmony as Harmony
from shuffledp.mechanisms.vector.gaussian import GaussianVector as GaussianVector
from shuffledp.mechanisms.vector.privunit import PrivUnit as PrivUnit, PrivUnitOptimized as PrivUnitOptimized
from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS as PrivHS, PrivUnitG as PrivUnitG
from shuffledp.mechanisms.vector.sqkr import SQKR as SQKR
from shuffledp.planning.plan import Plan as Plan
from shuffledp.planning.planner import plan as plan
from shuffledp.planning.ranking import Ranking as Ranking
from shuffledp.planning.simulation import Outcome as Outcome, SearchOutcome as SearchOutcome, simulate as simulate
from shuffledp.privacy.attack_risk import AttackRisk as AttackRisk
from shuffledp.privacy.composition import compose as compose, gaussian_limit as gaussian_limit
from shuffledp.privacy.curve import BoundValue as BoundValue, PrivacyCurve as PrivacyCurve
from shuffledp.privacy.divergences import divergence as divergence
from shuffledp.privacy.group_privacy import group as group
from shuffledp.privacy.guaranteed_tradeoff import trade_off as trade_off
from shuffledp.privacy.randomizer_interface import Randomizer as Randomizer
from shuffledp.privacy.renyi import renyi as renyi
from shuffledp.privacy.tradeoff import privacy_curve as privacy_curve
from shuffledp.privacy.variation_ratio import ApproximateLDP as ApproximateLDP, VariationRatio as VariationRatio
from shuffledp.service.client import Client as Client
from shuffledp.statement import Statement as Statement, conditions as conditions
