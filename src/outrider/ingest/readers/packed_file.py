"""Zip archives that are one document (XLSX, DOCX, EPUB), within the limit on unpacked bytes.

The archive's directory bounds what is unpacked: zipfile reads no member beyond the size stated there. The sum of these sizes is compared
with the limit before anything is unpacked.
"""

from __future__ import annotations

import errno
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from outrider.ingest.entry import ReadOptions
from outrider.ingest.readers.open_text import refuse_large
from outrider.ingest.readers.safe_xml import parse_xml_bytes
from outrider.state.errors import UnreadableFile

OLD_OFFICE = b"\xd0\xcf\x11\xe0"
"""The container of Office's old formats, in which its new ones are encrypted."""
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What these formats allow. Other methods may take gigabytes of memory to unpack."""
IS_ENCRYPTED = 0x1
MAX_TREE_BYTES = 32 * 2**20
"""Of XML that becomes a tree, which takes ten times as much or more. A book has 10 MB."""


class PackedFile:
    """The members of an archive by name. `form` names the format in errors, such as `.docx document`."""

    def __init__(self, path: Path, stream: BinaryIO, form: str) -> None:
        self.path = path
        self.stream = stream
        self.form = form
        with self._errors():
            self._archive = zipfile.ZipFile(stream)
        self.members: Mapping[str, zipfile.ZipInfo] = {member.filename: member for member in self._archive.infolist()}
        self.unpacked_bytes = sum(member.file_size for member in self._archive.infolist())

    def read(self, name: str) -> bytes:
        """The bytes of a member that exists. Raises `UnreadableFile`."""
        member = self.members[name]
        if member.flag_bits & IS_ENCRYPTED:
            raise UnreadableFile(f"{self.path}: encrypted; save a copy without its password first")
        if member.compress_type not in PACKED:
            raise UnreadableFile(f"{self.path}: not a readable {self.form}: {name} is packed by another method than deflate")
        with self._errors():
            return self._archive.read(member)

    def parse(self, name: str) -> Element | None:
        """The tree of an XML member, tags without namespaces; None if it does not exist. Raises `UnreadableFile`."""
        if name not in self.members:
            return None
        if (size := self.members[name].file_size) > MAX_TREE_BYTES:
            raise UnreadableFile(f"{self.path}: {name}: {size:,} bytes of XML, more than the limit of {MAX_TREE_BYTES:,}")
        return parse_xml_bytes(self.read(name), f"{self.path}: {name}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns zipfile's errors about a broken archive into `UnreadableFile`."""
        try:
            yield
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
            raise UnreadableFile(f"{self.path}: not a readable {self.form}: {error}") from error
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise UnreadableFile(f"{self.path}: not a readable {self.form}: its directory names a place outside the file") from error


@contextmanager
def open_packed(path: Path, options: ReadOptions, form: str, old: str = "") -> Iterator[PackedFile]:
    """The archive while it is open; `old` says what an old or encrypted file of Office is.

    Raises `UnreadableFile` for one that is too large, also when unpacked, for an old file and for no archive.
    """
    refuse_large(path, options)
    with path.open("rb") as stream:
        if stream.read(len(OLD_OFFICE)) == OLD_OFFICE and old:
            raise UnreadableFile(f"{path}: {old}")
        archive = PackedFile(path, stream, form)
        if archive.unpacked_bytes > options.max_bytes:
            raise UnreadableFile(
                f"{path}: {archive.unpacked_bytes:,} bytes when unpacked, more than the limit of {options.max_bytes:,} (ingest.max_bytes)"
            )
        yield archive
