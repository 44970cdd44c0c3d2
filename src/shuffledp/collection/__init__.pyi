# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp.collection.continual_release import ReleasedDay as ReleasedDay, release as release
from shuffledp.collection.input.column_profiles import Preview as Preview, preview as preview
from shuffledp.collection.roles import encode as encode, estimate as estimate, shuffle as shuffle
from shuffledp.ledger.ledger import Ledger as Ledger
