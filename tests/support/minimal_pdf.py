"""PDFs written by hand (ISO 32000-1 §7.5): just enough to be read, of any length, with or without text."""

from __future__ import annotations


def pdf(pages: list[str], information: dict[str, str] | None = None) -> bytes:
    """One page a string, set in 12 point Helvetica; an empty string makes a page without a text layer."""
    font, first = 3, 5
    kids = " ".join(f"{first + 2 * place} 0 R" for place in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        ("<< " + " ".join(f"/{name} ({value})" for name, value in (information or {}).items()) + " >>").encode("latin-1"),
    ]
    for place, text in enumerate(pages):
        content = first + 2 * place + 1
        resources = f"<< /Font << /F1 {font} 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {resources} /Contents {content} 0 R >>".encode())
        objects.append(_stream(text))
    return _file(objects)


def _stream(text: str) -> bytes:
    lines = [f"({line.replace('(', '').replace(')', '')}) Tj T*" for line in text.split("\n")] if text else []
    body = ("BT /F1 12 Tf 14 TL 72 720 Td " + " ".join(lines) + " ET" if lines else "0 0 100 100 re f").encode("latin-1")
    return b"<< /Length %d >>\nstream\n%s\nendstream" % (len(body), body)


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d /Root 1 0 R /Info 4 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
