"""The module path under which Ray has BasicVariantGenerator."""

from rt.tune.search import BasicVariantGenerator

__all__ = ["BasicVariantGenerator"]
