"""Skip a test file without an extra, and without loading what the extra brings."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(*modules: str) -> pytest.MarkDecorator:
    """Each worker collects every file: what `pytest.importorskip` loads there would be loaded by all of them."""
    missing = [name for name in modules if find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")
