"""PDFs written by hand (ISO 32000-1 §7.5): just enough to be read, of any length, with or without text, typeset or encrypted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
"""Passwords are padded with it (ISO 32000-1, algorithm 2)."""
PERMISSIONS = (2**32 - 4).to_bytes(4, "little")


@dataclass(frozen=True)
class Run:
    """One line of type: `x` and `y` of its baseline from the lower left corner of a page of 612 x 792 points."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False
    upwards: bool = False
    """Turned by a quarter, as arXiv's stamp in the margin."""


def pdf(pages: list[str], information: dict[str, str] | None = None, password: str | None = None) -> bytes:
    """One page a string, set in 12 point Helvetica; an empty string makes a page without a text layer."""
    return _document([_lines(text) for text in pages], information or {}, password)


def typeset(*pages: Sequence[Run], information: dict[str, str] | None = None, extra: Sequence[bytes] = (), page: str = "") -> bytes:
    """Pages of lines in Helvetica. `extra` are further objects, from 5; `page` is added to the dictionary of each page."""
    return _document([_runs(runs) for runs in pages], information or {}, None, extra, page)


def _document(
    contents: list[bytes], information: dict[str, str], password: str | None, extra: Sequence[bytes] = (), page: str = ""
) -> bytes:
    first = 6 + len(extra)
    kids = " ".join(f"{first + 2 * place} 0 R" for place in range(len(contents)))
    catalog = "<< /Type /Catalog /Pages 2 0 R" + (" /AcroForm << /Fields [6 0 R] >>" if extra else "") + " >>"
    objects = [
        catalog.encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        ("<< " + " ".join(f"/{name} ({value})" for name, value in information.items()) + " >>").encode("latin-1"),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        *extra,
    ]
    owner = _rc4(hashlib.md5(_pad(password + "owner")).digest()[:5], _pad(password)) if password is not None else b""
    key = hashlib.md5(_pad(password) + owner + PERMISSIONS).digest()[:5] if password is not None else None
    for place, content in enumerate(contents):
        number = first + 2 * place
        resources = "<< /Font << /F1 3 0 R /F2 5 0 R >> >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources} /Contents {number + 1} 0 R {page} >>".encode()
        )
        stream = content
        if key is not None:
            stream = _rc4(hashlib.md5(key + (number + 1).to_bytes(3, "little") + b"\x00\x00").digest()[:10], content)
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    encryption = b""
    if key is not None:
        user = _rc4(key, PADDING)
        encryption = b"/ID [<> <>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (
            owner.hex().encode(),
            user.hex().encode(),
        )
    return _file(objects, encryption)


def _lines(text: str) -> bytes:
    lines = [f"({_escape(line)}) Tj T*" for line in text.split("\n")] if text else []
    return ("BT /F1 12 Tf 14 TL 72 720 Td " + " ".join(lines) + " ET" if lines else "0 0 100 100 re f").encode("latin-1")


def _runs(runs: Sequence[Run]) -> bytes:
    lines = []
    for run in runs:
        turn = "0 1 -1 0" if run.upwards else "1 0 0 1"
        lines.append(f"BT /{'F2' if run.bold else 'F1'} {run.size} Tf {turn} {run.x} {run.y} Tm ({_escape(run.text)}) Tj ET")
    return "\n".join(lines).encode("cp1252")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _pad(password: str) -> bytes:
    return (password.encode() + PADDING)[:32]


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    out = bytearray()
    i = j = 0
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


def _file(objects: list[bytes], trailer: bytes = b"") -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R /Info 4 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)
