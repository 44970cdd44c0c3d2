"""Running a plan on data: encode, store the messages, shuffle and aggregate, over Arrow record batches.

``shuffledp.collect`` plays all roles. This package also exports the roles of encoder, shuffler and analyst as separate
functions, daily releases, the ledger, and a preview of data before planning.
"""

from shuffledp._core import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
del attach_stub
