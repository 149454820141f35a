"""Static files of the page, read once: HTML, style and JavaScript modules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "static"
SHELL = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only these scripts and styles, and no text that becomes HTML. A diagram is an image that the page makes from the received data."""
HEADERS = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}


class File(NamedTuple):
    body: bytes
    media_type: str


def addresses() -> Mapping[str, Path]:
    """The address of each file. They need no key: the page itself asks for one."""
    paths = sorted(path for path in FOLDER.iterdir() if path.suffix in TYPES)
    return {"/" if path.name == SHELL else f"/page/{path.name}": path for path in paths}


def read_files() -> Mapping[str, File]:
    return {address: File(path.read_bytes(), TYPES[path.suffix]) for address, path in addresses().items()}
