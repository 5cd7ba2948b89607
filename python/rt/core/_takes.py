"""Which arguments a function takes: a call that does not fit is refused where it is written."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

_PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Takes:
    """A signature without its defaults and annotations, which may be of any kind."""

    __slots__ = ("_least", "_most", "_signature")

    def __init__(self, signature: inspect.Signature) -> None:
        self._signature = signature
        parameters = list(signature.parameters.values())
        plain = [each for each in parameters if each.kind in _PLAIN]
        is_open = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters)
        needs_names = any(
            each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is inspect.Parameter.empty
            for each in parameters
        )
        # Calls with so many positional arguments and no others fit.
        self._least = sum(each.default is inspect.Parameter.empty for each in plain)
        self._most = 1 << 30 if is_open else len(plain)
        if needs_names:
            self._most = -1

    def check(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raises TypeError when a call with these arguments cannot be."""
        if not kwargs and self._least <= len(args) <= self._most:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}.remote(): {error}") from None

    def __reduce__(self) -> Any:
        return (Takes, (self._signature,))


def takes_of(function: Callable[..., Any], is_method: bool = False) -> Optional[Takes]:
    """What it takes, without the first parameter of a method. None: it does not say, being written
    in C."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = [
        each.replace(
            annotation=inspect.Parameter.empty,
            default=each.default if each.default is inspect.Parameter.empty else None,
        )
        for each in signature.parameters.values()
    ]
    if is_method and parameters and parameters[0].kind in _PLAIN:
        del parameters[0]
    return Takes(inspect.Signature(parameters))
