"""with_parameters, with_resources, register_trainable."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional

from rt._errors import TuneError
from rt._resources import as_request
from rt._slips import refuse_class
from rt._trainable import Trainable, takes_checkpoint_dir

_registry: dict[str, Any] = {}
_RESOURCES = "_rt_resources"


class FunctionTrainable(Trainable):
    """The base of the classes that wrap_function makes. A search runs the function itself."""

    @classmethod
    def function(cls) -> Any:
        """The function. Raises ValueError for the base."""
        found = vars(cls).get("_function")
        if found is None:
            raise ValueError(f"{cls.__name__} was not made by wrap_function")
        return found.__func__

    def setup(self, config: dict[str, Any]) -> None:
        """Raises RuntimeError: a function has no steps of its own."""
        raise RuntimeError(
            f"{type(self).__name__} is made for tune.Tuner or tune.run; to try the function here, "
            "call it: report() does nothing outside a trial"
        )


def wrap_function(train_func: Callable[..., Any], name: Optional[str] = None) -> type[Trainable]:
    """A class around a function trainable, for code that handles classes only."""
    check_arguments(train_func)
    called = name or str(getattr(train_func, "__name__", "func"))
    return type(called, (FunctionTrainable,), {"_function": staticmethod(train_func)})


def is_function_trainable(trainable: Any) -> bool:
    """Whether it is a function, also under a registered name or in a class of wrap_function."""
    return not inspect.isclass(lookup(trainable))


def validate_trainable(trainable_name: str) -> None:
    """Raises TuneError when no trainable has this name."""
    if trainable_name not in _registry:
        raise TuneError(f"no trainable is registered as {trainable_name!r}")


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Registers `trainable` under a name, for `tune.run(name)` and `Tuner(name)`."""
    _check(trainable)
    _registry[name] = trainable


def lookup(trainable: Any) -> Any:
    """The trainable itself, or the one registered under that name. ValueError otherwise."""
    if isinstance(trainable, str):
        if trainable not in _registry:
            known = ", ".join(sorted(_registry)) or "none"
            raise ValueError(f"no trainable is registered as {trainable!r}; registered: {known}")
        return _registry[trainable]
    if hasattr(trainable, "as_trainable"):  # A trainer.
        return trainable.as_trainable()
    if inspect.isclass(trainable) and issubclass(trainable, FunctionTrainable):
        return trainable.function()
    _check(trainable)
    return trainable


def _check(trainable: Any) -> None:
    if inspect.isclass(trainable):
        if not issubclass(trainable, Trainable):
            raise ValueError(f"the class {trainable.__name__} must derive from tune.Trainable")
    elif not callable(trainable):
        kind = type(trainable).__name__
        raise ValueError(f"a trainable is a function or a subclass of Trainable, not {kind}")


def check_arguments(trainable: Any) -> None:
    """Raises ValueError for a function that needs more arguments than a trial passes."""
    if inspect.isclass(trainable):
        return
    try:
        parameters = inspect.signature(trainable).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    more = [name for name in needed[1:] if name not in ("reporter", "checkpoint_dir")]
    if more:
        given = ", ".join(f"{name}=..." for name in more)
        raise ValueError(
            f"a trainable is a function of one argument, the configuration; this one takes "
            f"{', '.join(needed)}: pass the others by tune.with_parameters(trainable, {given})"
        )


def with_parameters(trainable: Any, **kwargs: Any) -> Any:
    """The trainable with objects of any size passed as keyword arguments (a class: to setup).

    The objects travel by value, once per search, not once per trial.
    """
    trainable = lookup(trainable)
    if inspect.isclass(trainable):
        base: Any = trainable

        class Parametrised(base):  # type: ignore[misc]
            """The class with the parameters of with_parameters."""

            def setup(self, config: dict[str, Any], **more: Any) -> None:
                """Passes the parameters, and those of an outer wrapper, to the user's setup."""
                super().setup(config, **{**kwargs, **more})

        _rename(Parametrised, base)
        return Parametrised
    return _copied(trainable, kwargs)


def with_resources(trainable: Any, resources: Any) -> Any:
    """The trainable with a resource request per trial, such as {"cpu": 2, "gpu": 0.5}.

    "memory" is in bytes. A PlacementGroupFactory asks for several bundles, and a ScalingConfig for
    num_workers ranks. A function of the configuration, called in the driver, returns the request of
    each trial. Raises ValueError for anything else.
    """
    trainable = lookup(trainable)
    refuse_class("resources", resources)
    request = resources if callable(resources) else as_request(resources)
    if inspect.isclass(trainable):
        base: Any = trainable
        kept = staticmethod(request) if callable(request) else request
        derived = type(base.__name__, (base,), {_RESOURCES: kept})
        _rename(derived, base)
        return derived
    wrapped = _copied(trainable, {})
    setattr(wrapped, _RESOURCES, request)
    return wrapped


def resources_of(trainable: Any) -> Any:
    """The request of with_resources; else a class's own default_resource_request; or None."""
    asked = getattr(trainable, _RESOURCES, None)
    if asked is not None or not inspect.isclass(trainable):
        return asked
    own = getattr(trainable, "default_resource_request", None)
    inherited = getattr(vars(Trainable)["default_resource_request"], "__func__", None)
    return None if getattr(own, "__func__", own) in (None, inherited) else own


def _rename(derived: type, base: type) -> None:
    derived.__name__ = base.__name__
    derived.__qualname__ = base.__qualname__
    derived.__module__ = base.__module__


def _copied(function: Callable[..., Any], parameters: dict[str, Any]) -> Callable[..., Any]:
    def plain(config: dict[str, Any], **more: Any) -> Any:
        return function(config, **{**parameters, **more})

    def restoring(config: dict[str, Any], checkpoint_dir: Optional[str] = None, **more: Any) -> Any:
        return function(config, checkpoint_dir=checkpoint_dir, **{**parameters, **more})

    wrapper: Any = restoring if takes_checkpoint_dir(function) else plain
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    wrapper.__name__ = getattr(inner, "__name__", "trainable")
    own = resources_of(function)
    if own is not None:
        setattr(wrapper, _RESOURCES, own)
    return wrapper
