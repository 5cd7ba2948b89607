"""Imports ahead of time what PyTorch imports when a program makes its first optimizer.

That takes one to three seconds, more than many trials train for. The fork server does it once for
code that trains, so that each fork has it. No import statement of the user's code shows it:
`_imports.py` does not find it.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib
import os
import signal
import sys
from types import CodeType, FunctionType, ModuleType

GPU_DEVICES = ("/dev/nvidia", "/dev/kfd")  # The beginnings of their paths.
_MODULE = "torch._dynamo"
_OPTIMIZERS = "torch.optim"
_SIGNS = frozenset({"optim", "zero_grad"})  # Names in code that makes or calls an optimizer.
_PDEATHSIG = 1  # prctl


def trains(function: FunctionType) -> bool:
    """Whether the function's code makes or calls an optimizer of PyTorch."""
    names = _names_of(function.__code__)
    if names & _SIGNS or any(_is_of_optimizers(each) for each in names):
        return True
    known = [function.__globals__.get(each) for each in names]
    modules = [each.__module__ for each in known if isinstance(each, type)]
    modules += [each.__name__ for each in known if isinstance(each, ModuleType)]
    return any(map(_is_of_optimizers, modules))


def import_ahead(functions: list[FunctionType]) -> None:
    """Performs the import if one of the functions trains, unless it would open the gpus: a fork of
    a process that has them open cannot use them."""
    if "torch" not in sys.modules or _MODULE in sys.modules or not any(map(trains, functions)):
        return
    if opens_gpus() or (_has_gpus() and not _leaves_gpus_alone()):
        return
    _import()


def opens_gpus() -> str:
    """The device of a gpu that this process has open; empty: none."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{name}")
            if path.startswith(GPU_DEVICES):
                return path
    return ""


def _names_of(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names_of(constant)
    return found


def _is_of_optimizers(module: str) -> bool:
    return module == _OPTIMIZERS or module.startswith(f"{_OPTIMIZERS}.")


def _import() -> None:
    with contextlib.suppress(Exception, SystemExit):  # Releases of PyTorch before 2 have no such.
        importlib.import_module(_MODULE)


def _has_gpus() -> bool:
    return any(glob.glob(f"{each}*") for each in GPU_DEVICES)


def _leaves_gpus_alone() -> bool:
    """Performs the import in a child process, which sees whether the gpus are open afterwards."""
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == parent:
                nowhere = os.open(os.devnull, os.O_RDWR)  # The import that counts may print.
                for stream in (1, 2):
                    os.dup2(nowhere, stream)
                _import()
                code = int(bool(opens_gpus()))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status == 0
