"""The user's own modules travel as source, with the trainable that needs them.

A trial imports them from there, as they were when the search began, wherever it runs. So a class
of such a module is the same whether the trial was given it or imports it, and what it pickles by
reference (torch.save, multiprocessing) can be read.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, Optional

# Module -> its file, and the text of that; a package without a file: its directory, and None.
Sources = dict[str, tuple[str, Optional[str]]]


class SourceImporter:
    """Finds and loads those modules; sys.meta_path has it first."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """Of a module that travelled."""
        if name not in self._sources:
            return None
        file, text = self._sources[name]
        is_package = text is None or os.path.basename(file) == "__init__.py"
        loader: Any = self
        spec = ModuleSpec(name, loader, origin=file, is_package=is_package)
        if is_package:  # What did not travel may be there all the same.
            spec.submodule_search_locations = [file if text is None else os.path.dirname(file)]
        spec.has_location = text is not None
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """As Python makes it."""

    def exec_module(self, module: ModuleType) -> None:
        """Runs its text."""
        code = self.get_code(module.__name__)
        if code is not None:
            exec(code, module.__dict__)

    def get_code(self, name: str) -> Optional[CodeType]:
        """Its text, compiled; None of a package without a file."""
        file, text = self._sources[name]
        return compile(text, file, "exec", dont_inherit=True) if text is not None else None

    def get_source(self, name: str) -> Optional[str]:
        """For tracebacks, whose file may be on another machine."""
        return self._sources[name][1]


def install(sources: Optional[Sources]) -> None:
    """From here on modules that travelled are imported from `sources`."""
    if sources:
        sys.meta_path.insert(0, SourceImporter(sources))
