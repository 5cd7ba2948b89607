"""`@rt.remote`: functions that run as tasks, and classes whose objects are actors."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Callable, Optional

from rt import _pickle
from rt.core import _values
from rt.core._client import Client
from rt.core._current import find_client, get_client
from rt.core._options import (
    ACTOR_OPTIONS,
    METHOD_OPTIONS,
    TASK_OPTIONS,
    ahead_of,
    check,
    count_of,
    env_vars_of,
    resources_of,
    retry_on_of,
    returns_of,
    task_options,
)
from rt.core._records import STREAM, Function, Options, has_coroutines
from rt.core._refs import ObjectRef, ObjectRefGenerator
from rt.core._takes import Takes, takes_of
from rt.core._values import PackedCall, pack_call

# Of an actor's methods, by name: the options, and what the method takes.
Methods = dict[str, tuple[Options, Optional[Takes]]]


_FUNCTION_BYTES_MAX = 95 << 20  # It is kept in each process that runs it; Ray's bound, too.


def id_of(value: Any) -> Optional[int]:
    """The number of a reference; None for any other argument. Raises ValueError for a reference of
    a session that has ended."""
    if type(value) is not ObjectRef:
        return None
    if value._client is not find_client():
        raise ValueError(f"{value!r} is of a session that has ended (rt.shutdown)")
    return value._id


def make_function(name: str, what: Any) -> Function:
    """Pickles a function or class, with the references in it. Raises TypeError, and
    ValueError for one that is too large."""
    before, _values.collected.ids = _values.collected.ids, []
    try:
        blob = _pickle.dumps(what)
        refs = tuple(_values.collected.ids)
    except Exception as error:
        raise TypeError(
            f"{name} cannot be sent to other processes: {error} (what it uses from outside of it "
            "travels along: open files, locks and connections inside of it)"
        ) from error
    finally:
        _values.collected.ids = before
    if len(blob) > _FUNCTION_BYTES_MAX:
        kind = "actor" if inspect.isclass(what) else "remote function"
        raise ValueError(
            f"The {kind} {name} is too large: {len(blob) >> 20} MiB with the "
            f"values that it uses from outside of it, more than {_FUNCTION_BYTES_MAX >> 20} MiB "
            "(pass large values as arguments, with rt.put())"
        )
    return Function(name, blob, refs)


def references(client: Client, numbers: list[int], num_returns: int) -> Any:
    """What `.remote()` returns."""
    if num_returns == 1:
        return ObjectRef(numbers[0], client)
    if num_returns == STREAM:
        return ObjectRefGenerator(ObjectRef(numbers[0], client))
    found = [ObjectRef(each, client) for each in numbers]
    return found if found else None


class RemoteFunction:
    """A function that runs as a task: `f.remote(...)` returns a reference to its value at once."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        check(options, TASK_OPTIONS, "remote")
        self._function = function
        self._options = options
        self._made: Optional[Options] = None
        self._pickled: Optional[Function] = None
        self._known_by: Any = None  # The client that has the function.
        self._num_returns = returns_of(options.get("num_returns"), function)
        # Read at the first call: a function that uses itself is unpickled before its defaults are.
        self._takes: Optional[Takes] = None
        task_options(options, function)  # What is wrong is said where it stands.
        self.__name__ = "f"  # Of what has none.
        functools.update_wrapper(self, function)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"a remote function is not called itself: write {self.__name__}.remote(...)"
        )

    def options(self, **options: Any) -> RemoteFunction:
        """The same function with other options."""
        check(options, TASK_OPTIONS, "options")
        other = RemoteFunction(self._function, {**self._options, **options})
        other._pickled = self._get_pickled()
        return other

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submits a call. The reference to its value; for num_returns=N a list of N of them. Raises
        TypeError when the function does not take these arguments."""
        client = find_client() or get_client()
        options, function = self._made, self._pickled
        if options is None or function is None or self._known_by is not client:
            function = self._get_pickled()
            options = self._made = task_options(self._options, self._function)
            self._known_by = client
            self._takes = takes_of(self._function)
            learn = getattr(client, "learn", None)
            if learn is not None:
                with client.lock:
                    function = self._pickled = learn(function)
        if self._takes is not None:
            self._takes.check(self.__name__, args, kwargs)
        call = pack_call(args, kwargs, id_of) if args or kwargs else _values.NOTHING
        numbers = client.submit(function, call, options)
        if options.num_returns == 1:
            return ObjectRef(numbers[0], client)
        return references(client, numbers, options.num_returns)

    def _get_pickled(self) -> Function:
        if self._pickled is None:
            name = getattr(self._function, "__qualname__", None) or repr(self._function)
            self._pickled = make_function(name, self._function)
        return self._pickled

    def bind(self, *_: Any, **__: Any) -> Any:
        """Not there: rt has no graphs of tasks ahead of time."""
        raise NotImplementedError("bind(): rt has no lazy graphs; call remote() with references")

    def __reduce__(self) -> Any:
        return (_restore_function, (self._function, self._options))


def _restore_function(function: Callable[..., Any], options: dict[str, Any]) -> RemoteFunction:
    return RemoteFunction(function, options)


def method(*args: Any, **options: Any) -> Any:
    """`@rt.method(num_returns=2)`: the options of a method of an actor."""
    if len(args) == 1 and callable(args[0]) and not options:
        return args[0]
    check(options, METHOD_OPTIONS, "method")

    def decorate(function: Any) -> Any:
        function.__rt_method__ = options
        return function

    return decorate


class ActorMethod:
    """A method of an actor: `actor.method.remote(...)`."""

    __slots__ = ("_handle", "_name", "_options", "_takes")

    def __init__(
        self, handle: ActorHandle, name: str, options: Options, takes: Optional[Takes] = None
    ) -> None:
        self._handle = handle
        self._name = name
        self._options = options
        self._takes = takes

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"a method of an actor is not called itself: write {self._name}.remote(...)"
        )

    def options(self, **options: Any) -> ActorMethod:
        """The same method with other options."""
        check(options, METHOD_OPTIONS, "options")
        base = self._options
        retries = options.get("max_task_retries")
        made = Options(
            (),
            base.num_returns if options.get("num_returns") is None else returns_of(
                options["num_returns"], None),
            base.max_retries if retries is None else int(retries),
            base.retry_on if "retry_exceptions" not in options else retry_on_of(
                options["retry_exceptions"]),
            self._name,
            ahead_max=ahead_of(options) if _AHEAD in options else base.ahead_max,
        )  # fmt: skip
        return ActorMethod(self._handle, self._name, made, self._takes)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the method. Calls of one caller arrive in their order. Raises TypeError when the
        method does not take these arguments."""
        handle = self._handle
        if self._takes is not None:
            self._takes.check(self._name, args, kwargs)
        client = handle._client
        call = pack_call(args, kwargs, id_of) if args or kwargs else _values.NOTHING
        numbers = client.call_actor(handle._id, self._name, call, self._options)
        if self._options.num_returns == 1:
            return ObjectRef(numbers[0], client)
        return references(client, numbers, self._options.num_returns)

    def bind(self, *_: Any, **__: Any) -> Any:
        """Not there: rt has no graphs of tasks ahead of time."""
        raise NotImplementedError("bind(): rt has no lazy graphs; call remote() with references")


_AHEAD = "_generator_backpressure_num_objects"
_SPECIAL = ("__ray_terminate__", "__ray_ready__", "__ray_call__")


class ActorHandle:
    """An actor. The last handle that goes out of scope ends it, unless it is detached."""

    def __init__(self, number: int, client: Client, name: str, methods: Methods) -> None:
        """Takes over a handle that the caller has counted."""
        self._id = number
        self._client = client
        self._class = name
        self._methods = methods

    def __getattr__(self, name: str) -> ActorMethod:
        methods: Methods = self.__dict__.get("_methods") or {}
        found = methods.get(name)
        if found is not None:
            return ActorMethod(self, name, *found)
        if name in _SPECIAL:
            return ActorMethod(self, name, Options((), 1, 0, False, name))
        kind = self.__dict__.get("_class", "actor")
        raise AttributeError(f"the actor class {kind} has no method {name!r}")

    def __del__(self) -> None:
        try:
            self._client.dropped.append(self._id)
        except AttributeError:
            pass

    def __reduce__(self) -> Any:
        ids = _values.collected.ids
        if ids is not None:
            ids.append(self._id)
        else:
            self._client.keep_for_ever(self._id)
        return (_restore_handle, (self._id, self._class, self._methods))

    def __repr__(self) -> str:
        return f"Actor({self._class}, {self._actor_id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._id == self._id

    def __hash__(self) -> int:
        return self._id

    @property
    def _actor_id(self) -> str:
        return f"{self._id:032x}"

    @property
    def _ray_actor_id(self) -> str:
        return self._actor_id


def _restore_handle(number: int, name: str, methods: Methods) -> ActorHandle:
    client = get_client()
    with client.lock:
        entry = client.entries.get(number)
        if entry is None:
            raise ValueError("the actor is not known here: its handle came from another session")
        entry.count += 1
    return ActorHandle(number, client, name, methods)


class ActorClass:
    """A class whose objects are actors: `C.remote(...)` starts one and returns its handle."""

    def __init__(self, made: type, options: dict[str, Any]) -> None:
        check(options, ACTOR_OPTIONS, "remote")
        self._class = made
        self._options = options
        self._pickled: Optional[Function] = None
        self._read(options)
        self.__name__ = made.__name__
        self.__doc__ = made.__doc__
        self.__module__ = made.__module__
        self.__qualname__ = made.__qualname__

    def __call__(self, *_: Any, **__: Any) -> Any:
        name = self._class.__name__
        raise TypeError(f"an actor class is not called itself: write {name}.remote(...)")

    def __getattr__(self, name: str) -> Any:
        """What the class itself has: its class methods, for instance."""
        made = self.__dict__.get("_class")
        if made is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"an actor class has no attribute {name!r}")
        found = getattr(made, name)
        # Not the function itself: cloudpickle would then send the method by its name, and the
        # executor would have to import the module of the class.
        return functools.partial(found) if inspect.isfunction(found) else found

    def __mro_entries__(self, _bases: Any) -> Any:
        name = self._class.__name__
        raise TypeError(
            f"{name} is an actor class, which cannot be inherited from: inherit from the class "
            "without @rt.remote, and make an actor class of the derived class"
        )

    def options(self, **options: Any) -> ActorClass:
        """The same class with other options."""
        check(options, ACTOR_OPTIONS, "options")
        other = ActorClass(self._class, {**self._options, **options})
        other._pickled = self._pickled
        return other

    def _read(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options as the driver needs them. Raises ValueError."""
        lifetime = options.get("lifetime")
        if lifetime not in (None, "detached", "non_detached"):
            raise ValueError(f"lifetime is None or 'detached', not {lifetime!r}")
        name = options.get("name")
        for what, given in (("name", name), ("namespace", options.get("namespace"))):
            if given is not None and not isinstance(given, str):
                raise TypeError(f"the {what} of an actor is a text, not {type(given).__name__}")
        if name == "":
            raise ValueError("the name of an actor is a text that is not empty")
        if options.get("get_if_exists") and name is None:
            raise ValueError("get_if_exists needs the name of the actor")
        return {
            "resources": resources_of(options, 0),
            "env_vars": env_vars_of(options),
            "name": name,
            "namespace": options.get("namespace"),
            "lifetime": lifetime,
            "max_restarts": count_of(options, "max_restarts", 0, -1),
            "max_concurrency": options.get("max_concurrency")
            and count_of(options, "max_concurrency", 1, 1),
            "is_ordered": (options.get("max_concurrency") or 1) == 1
            and not has_coroutines(self._class),
            "max_pending_calls": count_of(options, "max_pending_calls", -1, -1),
        }

    def _get_methods(self, options: dict[str, Any]) -> Methods:
        retries = count_of(options, "max_task_retries", 0, -1)
        found: Methods = {}
        for name, function in inspect.getmembers(self._class, callable):
            if name.startswith("__") and name not in ("__call__", "__init__"):
                continue
            if name == "__init__":
                continue
            own = getattr(function, "__rt_method__", {})
            made = Options(
                (),
                returns_of(own.get("num_returns"), function),
                int(own.get("max_task_retries", retries)),
                retry_on_of(own.get("retry_exceptions")),
                name,
                ahead_max=ahead_of(own),
            )
            is_method = inspect.isfunction(inspect.getattr_static(self._class, name))
            found[name] = (made, takes_of(function, is_method))
        return found

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Starts an actor with these arguments of its constructor. Raises TypeError when the
        constructor does not take them."""
        takes = takes_of(self._class)
        if takes is not None:
            takes.check(self._class.__name__, args, kwargs)
        client = get_client()
        options = self._read(self._options)
        name = options["name"]
        may_exist = bool(name and self._options.get("get_if_exists"))
        if may_exist:
            with contextlib.suppress(ValueError):
                return get_actor(name, options["namespace"])
        if self._pickled is None:
            self._pickled = make_function(self._class.__name__, self._class)
        methods = self._get_methods(self._options)
        options["methods"] = methods
        call: PackedCall = pack_call(args, kwargs, id_of)
        try:
            number = client.create_actor(self._pickled, call, options)
        except ValueError:
            if may_exist:  # Another thread was first.
                return get_actor(name, options["namespace"])
            raise
        made = ActorHandle(number, client, self._class.__name__, methods)
        if may_exist:  # Another task may have been first.
            with contextlib.suppress(ValueError):
                return get_actor(name, options["namespace"])
        return made

    def bind(self, *_: Any, **__: Any) -> Any:
        """Not there: rt has no graphs of tasks ahead of time."""
        raise NotImplementedError("bind(): rt has no lazy graphs; call remote() with references")

    def __reduce__(self) -> Any:
        return (ActorClass, (self._class, self._options))


def get_actor(name: str, namespace: Optional[str] = None) -> ActorHandle:
    """The actor of a name. Raises ValueError when there is none."""
    if not name:
        raise ValueError("get_actor() needs the name of an actor")
    client = get_client()
    found = client.find_actor(name, namespace)
    return ActorHandle(found["id"], client, found["class"], found["methods"])


def remote(*args: Any, **options: Any) -> Any:
    """Makes a task of a function, or an actor class of a class: `@rt.remote` or
    `@rt.remote(num_cpus=2, ...)`. Raises TypeError and ValueError for what cannot be."""
    if len(args) == 1 and not options and callable(args[0]):
        return _decorate(args[0], {})
    if args:
        raise TypeError("write @rt.remote, or @rt.remote(num_cpus=..., ...) with named arguments")

    def decorate(what: Any) -> Any:
        return _decorate(what, options)

    return decorate


def _decorate(what: Any, options: dict[str, Any]) -> Any:
    if inspect.isclass(what):
        return ActorClass(what, options)
    if not callable(what):
        raise TypeError(f"@rt.remote is for functions and classes, not {type(what).__name__}")
    if inspect.iscoroutinefunction(what):
        raise ValueError("a task cannot be an async function; async methods of an actor can be")
    return RemoteFunction(what, options)
