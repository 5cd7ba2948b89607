"""Actors from their own side: `exit_actor`. `rt.remote` makes actor classes."""

from rt.core import ActorClass, ActorHandle, ActorMethod, exit_actor

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "exit_actor"]
