"""Running a plan: encode → materialise once → shuffle → aggregate, over Arrow record batches.

``shuffledp.collect`` plays all roles; here are the three roles apart, the release day by day, the ledger, and a
look at data before anything is planned.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffledp.collection.input.preview import Preview as Preview, preview as preview
    from shuffledp.collection.ledger import Ledger as Ledger
    from shuffledp.collection.role.encoder import encode as encode
    from shuffledp.collection.role.estimator import estimate as estimate
    from shuffledp.collection.role.releaser import ReleasedDay as ReleasedDay, release as release
    from shuffledp.collection.role.shuffler import shuffle as shuffle
else:
    # The same list once more for programs: a name is imported when it is asked for.
    from shuffledp.lazy import door

    __getattr__, __dir__, __all__ = door(
        __name__,
        {
            "shuffledp.collection.input.preview": "Preview preview",
            "shuffledp.collection.ledger": "Ledger",
            "shuffledp.collection.role.encoder": "encode",
            "shuffledp.collection.role.estimator": "estimate",
            "shuffledp.collection.role.releaser": "ReleasedDay release",
            "shuffledp.collection.role.shuffler": "shuffle",
        },
    )
    del TYPE_CHECKING, door
