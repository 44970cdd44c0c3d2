# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp.mechanisms.base.domain import (
    BoundedItemSet as BoundedItemSet,
    BoxVector as BoxVector,
    Category as Category,
    InputDomain as InputDomain,
    IntegerVector as IntegerVector,
    ItemSet as ItemSet,
    RealNumber as RealNumber,
    check_categories as check_categories,
    check_item_sets as check_item_sets,
    check_reals as check_reals,
)
from shuffledp.mechanisms.base.encoding import (
    BitRowEncoding as BitRowEncoding,
    Encoding as Encoding,
    WholeNumberEncoding as WholeNumberEncoding,
)
from shuffledp.mechanisms.base.estimator import (
    ErrorLaw as ErrorLaw,
    Estimate as Estimate,
    Estimator as Estimator,
    Influence as Influence,
    LaplaceErrorLaw as LaplaceErrorLaw,
    NormalErrorLaw as NormalErrorLaw,
    SelectedOptions as SelectedOptions,
    SimulableEstimator as SimulableEstimator,
)
from shuffledp.mechanisms.base.law import AggregateNoiseLaw as AggregateNoiseLaw, Law as Law, PairLaw as PairLaw
from shuffledp.mechanisms.base.mechanism import (
    HidingTable as HidingTable,
    Mechanism as Mechanism,
    OutputTable as OutputTable,
    TunableParameter as TunableParameter,
)
from shuffledp.mechanisms.base.message_plan import (
    MessagePlan as MessagePlan,
    SharedNoise as SharedNoise,
    SingleMessage as SingleMessage,
    WithDummies as WithDummies,
    WithRandomBits as WithRandomBits,
)
from shuffledp.mechanisms.base.range_estimator import TreeEstimator as TreeEstimator
from shuffledp.mechanisms.base.seed_compression import (
    ApproximateProposal as ApproximateProposal,
    Proposal as Proposal,
    UniformNumberProposal as UniformNumberProposal,
    UniformProposal as UniformProposal,
    WeightedProposal as WeightedProposal,
)
from shuffledp.mechanisms.base.support_counts import (
    BitSumEstimator as BitSumEstimator,
    OptionCountEstimator as OptionCountEstimator,
    SupportEstimator as SupportEstimator,
)
from shuffledp.mechanisms.base.table_law import TableLaw as TableLaw, UnitTable as UnitTable
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw as TwoLevelLaw, TwoLevelResponse as TwoLevelResponse
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss as AggregateNoiseLoss
from shuffledp.privacy.dominating_pairs import (
    HidingPair as HidingPair,
    ListedOtherUsers as ListedOtherUsers,
    OtherUsers as OtherUsers,
    exact_pair as exact_pair,
)
from shuffledp.privacy.input_pairs import (
    Neighbours as Neighbours,
    neighbours_from_pair as neighbours_from_pair,
    neighbours_from_parameters as neighbours_from_parameters,
)
from shuffledp.privacy.randomizer_interface import (
    HasAggregateLoss as HasAggregateLoss,
    HasNeighbours as HasNeighbours,
    HasNoisyMessages as HasNoisyMessages,
    HasParts as HasParts,
    HasPublishedGuarantee as HasPublishedGuarantee,
    HasQuickForm as HasQuickForm,
    HasTails as HasTails,
    TruncatedRandomizer as TruncatedRandomizer,
)
from shuffledp.sampling.random_sources import (
    RandomSource as RandomSource,
    round_down_to_multiple as round_down_to_multiple,
    round_up_to_multiple as round_up_to_multiple,
)
