"""The library on LanceDB: records, vectors, edges, exact indexes, fusion, maintenance."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec
from typing import Any

CLIENT = "lance_namespace_urllib3_client"
TESTED = "0.13."
"""Versions whose `__init__` only collects names from the package's modules. With any other, the package is imported as usual."""
NAMES_IN_INIT = frozenset({"__all__", "__version__"})


def postpone_client() -> bool:
    """Whether LanceDB's client of namespace servers now stands in `sys.modules` with its `__init__` not yet run.

    `lancedb` takes classes from `lance_namespace_urllib3_client.models`. The `__init__` of that package also imports nine modules of `api`,
    whose hundreds of methods pydantic's `validate_call` wraps one by one; Outrider contacts no such server. Call this before LanceDB is
    imported. The `__init__` runs when a name is read that is no submodule, so the package is complete for whoever uses it. False if it was
    imported before, or is of a version that was not tested.
    """
    if CLIENT in sys.modules:
        return False
    try:
        is_tested = version(CLIENT.replace("_", "-")).startswith(TESTED)
    except PackageNotFoundError:
        is_tested = False
    spec = find_spec(CLIENT) if is_tested else None
    if spec is None or spec.loader is None:
        return False
    loader, module, lock, begun = spec.loader, module_from_spec(spec), threading.RLock(), threading.Event()

    def read(name: str) -> Any:
        """PEP 562: called for names that the module lacks."""
        missing = AttributeError(f"module {CLIENT!r} has no attribute {name!r}")
        if name.startswith("__") and name not in NAMES_IN_INIT:  # of those who look at all of sys.modules
            raise missing
        if find_spec(f"{CLIENT}.{name}") is not None:
            return import_module(f"{CLIENT}.{name}")
        with lock:
            if not begun.is_set():
                begun.set()
                try:
                    loader.exec_module(module)
                except BaseException:
                    begun.clear()
                    raise
            if name not in vars(module):
                raise missing
            return vars(module)[name]

    vars(module)["__getattr__"] = read
    sys.modules[CLIENT] = module
    return True
