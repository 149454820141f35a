"""Parsing of untrusted XML with defusedxml, which refuses entities and external references."""

from __future__ import annotations

import html.entities
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError, TreeBuilder  # the types only; defusedxml parses

from outrider.state.errors import UnreadableFile

HTML_ENTITIES = {name: chr(code) for name, code in html.entities.name2codepoint.items()}


class _LocalNames(TreeBuilder):
    """Builds a tree whose tags carry no namespace. Attributes keep theirs."""

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        return super().start(local_name(tag), attrs)

    def end(self, tag: str, /) -> Element:
        return super().end(local_name(tag))


class _DepthCounter:
    """Builds nothing. `deepest` is the number of levels."""

    def __init__(self) -> None:
        self.depth = self.deepest = 0

    def start(self, tag: str, attrs: dict[str, str], /) -> None:
        self.depth += 1
        self.deepest = max(self.depth, self.deepest)

    def end(self, tag: str, /) -> None:
        self.depth -= 1

    def close(self) -> None:
        return None


def local_name(tag: str) -> str:
    return tag.rpartition("}")[2]


@contextmanager
def xml_errors(path: Path | str) -> Iterator[None]:
    """Turns an XML parser's errors about a broken or hostile file into `UnreadableFile`."""
    from defusedxml.common import DefusedXmlException

    try:
        yield
    except DefusedXmlException as error:
        raise UnreadableFile(f"{path}: refused, its XML declares entities or refers to other files ({type(error).__name__})") from error
    except ParseError as error:
        raise UnreadableFile(f"{path}: not well-formed XML: {error}") from error
    except (LookupError, ValueError) as error:  # expat's "unknown encoding" and "multi-byte encodings are not supported"
        raise UnreadableFile(f"{path}: its XML encoding cannot be read: {error}") from error


def read_root_name(path: Path) -> str:
    """The local name of the root element. Reads no further than there."""
    from defusedxml.ElementTree import iterparse

    with path.open("rb") as file, xml_errors(path):
        for _, element in iterparse(file, events=("start",)):
            return local_name(element.tag)
    raise UnreadableFile(f"{path}: holds no XML element")


def parse_xml(path: Path) -> Element:
    """The whole tree, tags without namespaces. HTML's named entities are decoded, as in JATS's own DTD."""
    with path.open("rb") as file:
        return _parse(file, path)


def parse_xml_bytes(data: bytes, where: str) -> Element:
    """The same of a file within a file; `where` names it in errors."""
    return _parse(io.BytesIO(data), where)


def check_xml(data: bytes, where: str, max_depth: int) -> None:
    """Raises `UnreadableFile` for XML that is broken, has a document type or is nested deeper: another library will parse it."""
    from defusedxml.ElementTree import DefusedXMLParser

    counter = _DepthCounter()
    parser = DefusedXMLParser(target=counter, forbid_dtd=True)
    with xml_errors(where):
        parser.feed(data)
        parser.close()
    if counter.deepest > max_depth:
        raise UnreadableFile(f"{where}: its XML is nested more than {max_depth} levels deep")


def _parse(file: BinaryIO, where: Path | str) -> Element:
    from defusedxml.ElementTree import DefusedXMLParser

    parser = DefusedXMLParser(target=_LocalNames())
    parser.entity.update(HTML_ENTITIES)
    with xml_errors(where):
        while chunk := file.read(1 << 16):
            parser.feed(chunk)
        root: Element = parser.close()
        return root
