"""XML from strangers: parsed with defusedxml, so that entity expansion and external entities are refused by name."""

from __future__ import annotations

import html.entities
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder  # the types only; defusedxml parses

from outrider.state.errors import UnreadableFile

NAMED = {name: chr(code) for name, code in html.entities.name2codepoint.items()}


class _LocalNames(TreeBuilder):
    """Builds a tree whose tags carry no namespace; attributes keep theirs."""

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        return super().start(local(tag), attrs)

    def end(self, tag: str, /) -> Element:
        return super().end(local(tag))


def local(tag: str) -> str:
    return tag.rpartition("}")[2]


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns what an XML parser says about a broken or hostile file into `UnreadableFile`."""
    from defusedxml.common import DefusedXmlException

    try:
        yield
    except DefusedXmlException as refused:
        raise UnreadableFile(f"{path}: refused, its XML declares entities or refers to other files ({type(refused).__name__})") from refused
    except ParseError as broken:
        raise UnreadableFile(f"{path}: not well-formed XML: {broken}") from broken
    except (LookupError, ValueError) as unknown:  # expat's "unknown encoding" and "multi-byte encodings are not supported"
        raise UnreadableFile(f"{path}: its XML encoding cannot be read: {unknown}") from unknown


def root_name(path: Path) -> str:
    """The local name of the root element, read no further than there."""
    from defusedxml.ElementTree import iterparse

    with path.open("rb") as file, translated(path):
        for _, element in iterparse(file, events=("start",)):
            return local(element.tag)
    raise UnreadableFile(f"{path}: holds no XML element")


def parsed(path: Path) -> Element:
    """The whole tree, tags without namespaces. HTML's named entities stand for themselves, as in JATS's own DTD."""
    from defusedxml.ElementTree import DefusedXMLParser

    parser = DefusedXMLParser(target=_LocalNames())
    parser.entity.update(NAMED)
    with path.open("rb") as file, translated(path):
        while chunk := file.read(1 << 16):
            parser.feed(chunk)
        root: Element = parser.close()
        return root
