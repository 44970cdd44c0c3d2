"""Running a plan: encode → materialise once → shuffle → aggregate, over Arrow record batches.

``shuffledp.collect`` plays all roles; here are the three roles apart, and the ledger.
"""

from shuffledp.collection.ledger import Ledger as Ledger
from shuffledp.collection.role.encoder import encode as encode
from shuffledp.collection.role.estimator import estimate as estimate
from shuffledp.collection.role.shuffler import shuffle as shuffle
