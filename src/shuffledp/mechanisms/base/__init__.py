"""Parts of mechanisms, for authors of mechanisms and estimators: base classes, and the parts of the catalogue.

A mechanism is a `Mechanism` with four parts: an `InputDomain`, a `Law`, an `Encoding` and an `Estimator`.
docs/bring-your-own.md has a template.
"""

from shuffledp._core import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
del attach_stub
