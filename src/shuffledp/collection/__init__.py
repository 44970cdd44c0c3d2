"""Running a plan: encode → materialise once → shuffle → aggregate, over Arrow record batches.

``shuffledp.collect`` plays all roles; here are the three roles apart, the release day by day, and the ledger.
"""

from shuffledp.collection.ledger import Ledger as Ledger
from shuffledp.collection.role.encoder import encode as encode
from shuffledp.collection.role.estimator import estimate as estimate
from shuffledp.collection.role.releaser import ReleasedDay as ReleasedDay, release as release
from shuffledp.collection.role.shuffler import shuffle as shuffle
