"""Former import paths and names of documented things, kept for one release with a warning."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from importlib.abc import Loader

MOVED = {
    "outrider.retrieval.embed.embedder": "outrider.models.embed.embedder",
    "outrider.serve.analyzing": "outrider.usecases.analyze",
    "outrider.serve.cli": "outrider.interfaces.cli",
    "outrider.serve.distilling": "outrider.usecases.distill",
    "outrider.serve.files": "outrider.usecases.deduplicate",
    "outrider.serve.python": "outrider",
    "outrider.serve.reindexing": "outrider.usecases.ingest",
    "outrider.serve.studio": "outrider.interfaces.studio_routes",
    "outrider.serve.systematic": "outrider.usecases.systematic",
    "outrider.sources.calls.caller": "outrider.sources.http.client",
    "outrider.sources.calls.service": "outrider.sources.http.service",
}
"""Former path -> path of today. The packages above a former path can be imported, too, and are empty."""


def former_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module (PEP 562) that still gives what it documented under former names.

    `names` maps each former name to today's. The result raises `AttributeError` for any other name.
    """

    def get_by_former_name(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        message = f"{module}.{name} is now {module}.{names[name]}; the former name will go in the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    return get_by_former_name


class MovedModules:
    """Imports a module under its former path: the same module object, after a `DeprecationWarning`.

    Stands last in `sys.meta_path`, so that it is asked only for what nothing else finds. It is a `MetaPathFinder` and a `Loader` without
    these base classes: `importlib.abc` takes longer to import than the rest of `import outrider`.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        is_parent = any(former.startswith(f"{fullname}.") for former in MOVED)
        return ModuleSpec(fullname, cast("Loader", self), is_package=is_parent) if is_parent or fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """None: the import makes the module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in the place of the one that the import made."""
        former = module.__name__
        if (today := MOVED.get(former)) is not None:
            warnings.warn(f"{former} is now {today}; the former path will go in the next release", DeprecationWarning, stacklevel=2)
            sys.modules[former] = import_module(today)
