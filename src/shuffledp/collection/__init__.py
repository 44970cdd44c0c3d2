"""Running a plan: encode → materialise once → shuffle → aggregate, over Arrow record batches.

``shuffledp.collect`` plays all roles; here are the three roles apart, and the ledger.
"""

from shuffledp.collection.ledger import Ledger as Ledger
from shuffledp.collection.role import encode as encode, estimate as estimate, shuffle as shuffle
