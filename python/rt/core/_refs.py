"""References to values that may not exist yet: `ObjectRef`, and the references of a generator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Optional

from rt.core._current import get_client
from rt.core._values import collected

if TYPE_CHECKING:  # They take as long to import as all the rest of rt.core.
    import asyncio
    import concurrent.futures

Client = Any  # rt.core._client.Client, which imports this module.


class ObjectRef:
    """A value that a task returns, or that `rt.put` stored. The value lives as long as a reference
    to it, at most as long as the driver."""

    __slots__ = ("__weakref__", "_client", "_id")

    def __init__(self, number: int, client: Client) -> None:
        """Takes over a handle that the caller has counted."""
        self._id = number
        self._client = client

    def __del__(self) -> None:
        # Called anywhere, also inside the client: so this only notes it.
        try:
            self._client.dropped.append(self._id)
        except AttributeError:
            pass

    def __reduce__(self) -> Any:
        ids = collected.ids
        if ids is not None:
            ids.append(self._id)
        else:
            self._client.keep_for_ever(self._id)  # Pickled by the user's own code.
        return (_restore, (self._id,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectRef) and other._id == self._id

    def __hash__(self) -> int:
        return self._id

    def __repr__(self) -> str:
        return f"ObjectRef({self.hex()})"

    def hex(self) -> str:
        """The reference's number in its session, as hexadecimal digits."""
        return f"{self._id:056x}"

    def binary(self) -> bytes:
        """The same as bytes."""
        return self._id.to_bytes(28, "big")

    def is_nil(self) -> bool:
        """False: every reference is one to a value."""
        return False

    def task_id(self) -> str:
        """The number of the task that returns the value, as hexadecimal digits."""
        return f"{self._client.task_of(self._id):048x}"

    def job_id(self) -> str:
        """The session of the driver."""
        return self._client.session

    def future(self) -> concurrent.futures.Future[Any]:
        """A future of concurrent.futures that ends with the value or the error."""
        from concurrent.futures import Future

        found: Future[Any] = Future()
        self._client.when_ready(self, found)
        return found

    def __await__(self) -> Generator[Any, None, Any]:
        return self.as_future().__await__()

    def as_future(self) -> asyncio.Future[Any]:
        """An asyncio future, in the running loop."""
        import asyncio

        return asyncio.wrap_future(self.future())


def _restore(number: int) -> ObjectRef:
    found: ObjectRef = get_client().adopt(number)
    return found


class ObjectRefGenerator:
    """The references that a generator task yields, in order, each as soon as it was yielded.

    The end of the task is the end of the iteration. If the task raises, the last reference raises
    its error in `rt.get`.
    """

    def __init__(self, stream: ObjectRef) -> None:
        self._stream = stream
        self._taken = 0
        self._asked = 0  # In a task: what the driver was asked for the next item, by is_next_ready.

    def __iter__(self) -> Iterator[ObjectRef]:
        return self

    def __next__(self) -> ObjectRef:
        found = self._next(None)
        if found is None:
            raise StopIteration
        return found

    def _next(self, timeout_s: Optional[float]) -> Optional[ObjectRef]:
        asked, self._asked = self._asked, 0
        found = self._stream._client.next_of(self._stream, self._taken, timeout_s, asked)
        if found is not None:
            self._taken += 1
        return found

    def _is_next_ready(self) -> bool:
        """Whether the next item was yielded, or the end is known. With the client's lock."""
        client = self._stream._client
        if not self._asked:
            self._asked = client.ask_next(self._stream, self._taken)
        found: bool = client.is_next_ready(self._stream, self._taken, self._asked)
        return found

    def __aiter__(self) -> AsyncIterator[ObjectRef]:
        return self

    async def __anext__(self) -> ObjectRef:
        import asyncio

        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self._next, None)
        if found is None:
            raise StopAsyncIteration
        return found

    def completed(self) -> ObjectRef:
        """A reference that is ready once the task has ended. The task does not wait any more until
        what it yields is taken."""
        self._stream._client.await_end(self._stream._id)
        return self._stream

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._stream.hex()})"


DynamicObjectRefGenerator = ObjectRefGenerator
