"""shuffledp: the shuffle model of differential privacy, from certified numbers to running collections.

What is public is this list: functions and their results, every mechanism under its own name (``shuffledp.KRR``,
``shuffledp.OUE``, …), and the namespaces ``bounds``, ``collection``, ``metric``, ``spark``, ``tasks``, ``testing``,
``tradeoff``.

>>> import shuffledp as sdp
>>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=128), users=100_000)
>>> f"{curve.epsilon(delta=1e-8).upper:.6f}"
'0.010174'
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffledp import (
        bounds as bounds,
        collection as collection,
        metric as metric,
        spark as spark,
        tasks as tasks,
        testing as testing,
        tradeoff as tradeoff,
    )
    from shuffledp.auditing.empirical import AuditResult as AuditResult, audit as audit
    from shuffledp.bounds.amplify import amplify as amplify
    from shuffledp.bounds.bound import Bound as Bound
    from shuffledp.bounds.compare import Comparison as Comparison, compare as compare
    from shuffledp.bounds.schedule import Schedule as Schedule
    from shuffledp.bounds.subsampling import poisson as poisson, subsample as subsample
    from shuffledp.bounds.sweep import Sweep as Sweep, sweep as sweep
    from shuffledp.calibration.calibrate import Calibration as Calibration, calibrate as calibrate
    from shuffledp.calibration.risk_target import RiskTarget as RiskTarget
    from shuffledp.calibration.target import Target as Target
    from shuffledp.certificate.certify import certify as certify
    from shuffledp.certificate.claim import Claim as Claim
    from shuffledp.certificate.proof import Finding as Finding
    from shuffledp.certificate.verify import verify as verify
    from shuffledp.collection.ask import ask as ask
    from shuffledp.collection.collect import collect as collect
    from shuffledp.collection.report import Report as Report
    from shuffledp.composition.gaussian_limit import gaussian_limit as gaussian_limit
    from shuffledp.composition.group import group as group
    from shuffledp.composition.renyi import renyi as renyi
    from shuffledp.composition.sequential import compose as compose
    from shuffledp.errors import (
        NotApplicable as NotApplicable,
        NumericalError as NumericalError,
        ShuffledpError as ShuffledpError,
    )
    from shuffledp.mechanisms.combined.all_answered import AllAnswered as AllAnswered
    from shuffledp.mechanisms.combined.cancelling_tree import CancellingTree as CancellingTree
    from shuffledp.mechanisms.combined.compressed import Compressed as Compressed
    from shuffledp.mechanisms.combined.parallel import Parallel as Parallel
    from shuffledp.mechanisms.combined.poisson_tables import PoissonTables as PoissonTables
    from shuffledp.mechanisms.combined.range_queries import RangeQueries as RangeQueries
    from shuffledp.mechanisms.combined.range_tree import RangeTree as RangeTree
    from shuffledp.mechanisms.combined.repeated import Repeated as Repeated
    from shuffledp.mechanisms.estimate import Estimate as Estimate
    from shuffledp.mechanisms.frequency.hadamard_response import HadamardResponse as HadamardResponse
    from shuffledp.mechanisms.frequency.krr import KRR as KRR
    from shuffledp.mechanisms.frequency.local_hash import LocalHash as LocalHash
    from shuffledp.mechanisms.frequency.oue import OUE as OUE
    from shuffledp.mechanisms.frequency.pi_rappor import PIRAPPOR as PIRAPPOR
    from shuffledp.mechanisms.frequency.projective_geometry import ProjectiveGeometry as ProjectiveGeometry
    from shuffledp.mechanisms.frequency.rappor import RAPPOR as RAPPOR
    from shuffledp.mechanisms.frequency.subset import Subset as Subset
    from shuffledp.mechanisms.given.from_density import FromDensity as FromDensity
    from shuffledp.mechanisms.given.from_table import FromTable as FromTable
    from shuffledp.mechanisms.given.sent_point import SentPoint as SentPoint
    from shuffledp.mechanisms.itemset.cancelling_sets import CancellingSets as CancellingSets
    from shuffledp.mechanisms.itemset.privset import PrivSet as PrivSet
    from shuffledp.mechanisms.itemset.sampling_rappor import SamplingRAPPOR as SamplingRAPPOR
    from shuffledp.mechanisms.itemset.wheel import Wheel as Wheel
    from shuffledp.mechanisms.keyvalue.collision import Collision as Collision
    from shuffledp.mechanisms.keyvalue.pckv import PCKV as PCKV
    from shuffledp.mechanisms.keyvalue.privkv import PrivKV as PrivKV
    from shuffledp.mechanisms.mean.gaussian import Gaussian as Gaussian
    from shuffledp.mechanisms.mean.laplace import Laplace as Laplace
    from shuffledp.mechanisms.mean.piecewise import Piecewise as Piecewise
    from shuffledp.mechanisms.mean.split_and_mix import SplitAndMix as SplitAndMix
    from shuffledp.mechanisms.mechanism import Mechanism as Mechanism
    from shuffledp.mechanisms.metric.exponential import Exponential as Exponential
    from shuffledp.mechanisms.metric.padded_exponential import PaddedExponential as PaddedExponential
    from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace as PlanarLaplace
    from shuffledp.mechanisms.metric.witch_hat import WitchHat as WitchHat
    from shuffledp.mechanisms.multimessage.balcer_cheu import BalcerCheu as BalcerCheu
    from shuffledp.mechanisms.multimessage.balcer_uniform import BalcerUniform as BalcerUniform
    from shuffledp.mechanisms.multimessage.balls_into_bins import BallsIntoBins as BallsIntoBins
    from shuffledp.mechanisms.multimessage.cancelling_noise import CancellingNoise as CancellingNoise
    from shuffledp.mechanisms.multimessage.cheu_zhilyaev import CheuZhilyaev as CheuZhilyaev
    from shuffledp.mechanisms.multimessage.mix_dump import MixDUMP as MixDUMP
    from shuffledp.mechanisms.multimessage.poisson_dump import PoissonDUMP as PoissonDUMP
    from shuffledp.mechanisms.multimessage.pure_dump import PureDUMP as PureDUMP
    from shuffledp.mechanisms.opt_out import OptOut as OptOut
    from shuffledp.mechanisms.vector.duchi import Duchi as Duchi
    from shuffledp.mechanisms.vector.gaussian_vector import GaussianVector as GaussianVector
    from shuffledp.mechanisms.vector.harmony import Harmony as Harmony
    from shuffledp.mechanisms.vector.privhs import PrivHS as PrivHS
    from shuffledp.mechanisms.vector.privunit import PrivUnit as PrivUnit
    from shuffledp.mechanisms.vector.privunit_g import PrivUnitG as PrivUnitG
    from shuffledp.mechanisms.vector.privunit_optimized import PrivUnitOptimized as PrivUnitOptimized
    from shuffledp.mechanisms.vector.split_and_mix_vector import SplitAndMixVector as SplitAndMixVector
    from shuffledp.mechanisms.vector.sqkr import SQKR as SQKR
    from shuffledp.planner.plan import plan as plan
    from shuffledp.planner.plan_file import Plan as Plan
    from shuffledp.planner.ranking import Ranking as Ranking
    from shuffledp.planner.search_outcome import SearchOutcome as SearchOutcome
    from shuffledp.planner.simulation import Outcome as Outcome, simulate as simulate
    from shuffledp.privacy.approximate_ldp import ApproximateLDP as ApproximateLDP
    from shuffledp.privacy.curve import PrivacyCurve as PrivacyCurve
    from shuffledp.privacy.mixed_crowd import Crowd as Crowd
    from shuffledp.privacy.randomizer import Randomizer as Randomizer
    from shuffledp.privacy.value import BoundValue as BoundValue
    from shuffledp.privacy.variation_ratio import VariationRatio as VariationRatio
    from shuffledp.service.client import Client as Client
    from shuffledp.statement.condition import conditions as conditions
    from shuffledp.statement.statement import Statement as Statement
    from shuffledp.tradeoff.divergence import divergence as divergence
    from shuffledp.tradeoff.guaranteed import trade_off as trade_off
    from shuffledp.tradeoff.risk import AttackRisk as AttackRisk
    from shuffledp.tradeoff.trade_off_curve import privacy_curve as privacy_curve
    from shuffledp.version import __version__ as __version__
else:
    # The same list once more for programs: a name is imported when it is asked for.
    from shuffledp.lazy import door

    __getattr__, __dir__, __all__ = door(
        __name__,
        {
            "shuffledp": "bounds collection metric spark tasks testing tradeoff",
            "shuffledp.auditing.empirical": "AuditResult audit",
            "shuffledp.bounds.amplify": "amplify",
            "shuffledp.bounds.bound": "Bound",
            "shuffledp.bounds.compare": "Comparison compare",
            "shuffledp.bounds.schedule": "Schedule",
            "shuffledp.bounds.subsampling": "poisson subsample",
            "shuffledp.bounds.sweep": "Sweep sweep",
            "shuffledp.calibration.calibrate": "Calibration calibrate",
            "shuffledp.calibration.risk_target": "RiskTarget",
            "shuffledp.calibration.target": "Target",
            "shuffledp.certificate.certify": "certify",
            "shuffledp.certificate.claim": "Claim",
            "shuffledp.certificate.proof": "Finding",
            "shuffledp.certificate.verify": "verify",
            "shuffledp.collection.ask": "ask",
            "shuffledp.collection.collect": "collect",
            "shuffledp.collection.report": "Report",
            "shuffledp.composition.gaussian_limit": "gaussian_limit",
            "shuffledp.composition.group": "group",
            "shuffledp.composition.renyi": "renyi",
            "shuffledp.composition.sequential": "compose",
            "shuffledp.errors": "NotApplicable NumericalError ShuffledpError",
            "shuffledp.mechanisms.combined.all_answered": "AllAnswered",
            "shuffledp.mechanisms.combined.cancelling_tree": "CancellingTree",
            "shuffledp.mechanisms.combined.compressed": "Compressed",
            "shuffledp.mechanisms.combined.parallel": "Parallel",
            "shuffledp.mechanisms.combined.poisson_tables": "PoissonTables",
            "shuffledp.mechanisms.combined.range_queries": "RangeQueries",
            "shuffledp.mechanisms.combined.range_tree": "RangeTree",
            "shuffledp.mechanisms.combined.repeated": "Repeated",
            "shuffledp.mechanisms.estimate": "Estimate",
            "shuffledp.mechanisms.frequency.hadamard_response": "HadamardResponse",
            "shuffledp.mechanisms.frequency.krr": "KRR",
            "shuffledp.mechanisms.frequency.local_hash": "LocalHash",
            "shuffledp.mechanisms.frequency.oue": "OUE",
            "shuffledp.mechanisms.frequency.pi_rappor": "PIRAPPOR",
            "shuffledp.mechanisms.frequency.projective_geometry": "ProjectiveGeometry",
            "shuffledp.mechanisms.frequency.rappor": "RAPPOR",
            "shuffledp.mechanisms.frequency.subset": "Subset",
            "shuffledp.mechanisms.given.from_density": "FromDensity",
            "shuffledp.mechanisms.given.from_table": "FromTable",
            "shuffledp.mechanisms.given.sent_point": "SentPoint",
            "shuffledp.mechanisms.itemset.cancelling_sets": "CancellingSets",
            "shuffledp.mechanisms.itemset.privset": "PrivSet",
            "shuffledp.mechanisms.itemset.sampling_rappor": "SamplingRAPPOR",
            "shuffledp.mechanisms.itemset.wheel": "Wheel",
            "shuffledp.mechanisms.keyvalue.collision": "Collision",
            "shuffledp.mechanisms.keyvalue.pckv": "PCKV",
            "shuffledp.mechanisms.keyvalue.privkv": "PrivKV",
            "shuffledp.mechanisms.mean.gaussian": "Gaussian",
            "shuffledp.mechanisms.mean.laplace": "Laplace",
            "shuffledp.mechanisms.mean.piecewise": "Piecewise",
            "shuffledp.mechanisms.mean.split_and_mix": "SplitAndMix",
            "shuffledp.mechanisms.mechanism": "Mechanism",
            "shuffledp.mechanisms.metric.exponential": "Exponential",
            "shuffledp.mechanisms.metric.padded_exponential": "PaddedExponential",
            "shuffledp.mechanisms.metric.planar_laplace": "PlanarLaplace",
            "shuffledp.mechanisms.metric.witch_hat": "WitchHat",
            "shuffledp.mechanisms.multimessage.balcer_cheu": "BalcerCheu",
            "shuffledp.mechanisms.multimessage.balcer_uniform": "BalcerUniform",
            "shuffledp.mechanisms.multimessage.balls_into_bins": "BallsIntoBins",
            "shuffledp.mechanisms.multimessage.cancelling_noise": "CancellingNoise",
            "shuffledp.mechanisms.multimessage.cheu_zhilyaev": "CheuZhilyaev",
            "shuffledp.mechanisms.multimessage.mix_dump": "MixDUMP",
            "shuffledp.mechanisms.multimessage.poisson_dump": "PoissonDUMP",
            "shuffledp.mechanisms.multimessage.pure_dump": "PureDUMP",
            "shuffledp.mechanisms.opt_out": "OptOut",
            "shuffledp.mechanisms.vector.duchi": "Duchi",
            "shuffledp.mechanisms.vector.gaussian_vector": "GaussianVector",
            "shuffledp.mechanisms.vector.harmony": "Harmony",
            "shuffledp.mechanisms.vector.privhs": "PrivHS",
            "shuffledp.mechanisms.vector.privunit": "PrivUnit",
            "shuffledp.mechanisms.vector.privunit_g": "PrivUnitG",
            "shuffledp.mechanisms.vector.privunit_optimized": "PrivUnitOptimized",
            "shuffledp.mechanisms.vector.split_and_mix_vector": "SplitAndMixVector",
            "shuffledp.mechanisms.vector.sqkr": "SQKR",
            "shuffledp.planner.plan": "plan",
            "shuffledp.planner.plan_file": "Plan",
            "shuffledp.planner.ranking": "Ranking",
            "shuffledp.planner.search_outcome": "SearchOutcome",
            "shuffledp.planner.simulation": "Outcome simulate",
            "shuffledp.privacy.approximate_ldp": "ApproximateLDP",
            "shuffledp.privacy.curve": "PrivacyCurve",
            "shuffledp.privacy.mixed_crowd": "Crowd",
            "shuffledp.privacy.randomizer": "Randomizer",
            "shuffledp.privacy.value": "BoundValue",
            "shuffledp.privacy.variation_ratio": "VariationRatio",
            "shuffledp.service.client": "Client",
            "shuffledp.statement.condition": "conditions",
            "shuffledp.statement.statement": "Statement",
            "shuffledp.tradeoff.divergence": "divergence",
            "shuffledp.tradeoff.guaranteed": "trade_off",
            "shuffledp.tradeoff.risk": "AttackRisk",
            "shuffledp.tradeoff.trade_off_curve": "privacy_curve",
            "shuffledp.version": "__version__",
        },
    )
    del TYPE_CHECKING, door
