"""The module path under which Ray has TuneError."""

from rt._errors import TrialError, TuneError

__all__ = ["TrialError", "TuneError"]
