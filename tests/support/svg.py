"""Reading a picture as another program would: as XML, without a style sheet."""

from __future__ import annotations

from xml.etree import ElementTree as ET

NAMESPACE = "{http://www.w3.org/2000/svg}"
ALLOWED = frozenset({"svg", "title", "desc", "style", "rect", "line", "polygon", "circle", "text"})


def read_svg(text: str) -> tuple[ET.Element, str]:
    """The root, and all drawn texts. Fails unless the picture stands alone and has a text alternative."""
    root = ET.fromstring(text)
    title, description = root.find(f"{NAMESPACE}title"), root.find(f"{NAMESPACE}desc")
    assert root.get("role") == "img"
    assert title is not None
    assert title.text
    assert description is not None
    assert description.text
    for element in root.iter():
        assert element.tag.removeprefix(NAMESPACE) in ALLOWED
        assert not [name for name in element.attrib if name == "style" or name.startswith("on") or "href" in name]
        assert not [value for value in element.attrib.values() if "url(" in value]
        if element.tag.removeprefix(NAMESPACE) in ("rect", "line", "polygon", "circle", "text"):
            assert element.get("fill") or element.get("stroke"), "a program without style sheets would draw it black"
    return root, "\n".join(one.text or "" for one in root.iter(f"{NAMESPACE}text"))


def describe(root: ET.Element) -> str:
    return root.findtext(f"{NAMESPACE}desc") or ""


def count(root: ET.Element, name: str, **attributes: str) -> int:
    wanted = {key.rstrip("_"): value for key, value in attributes.items()}
    return sum(all(one.get(key) == value for key, value in wanted.items()) for one in root.iter(f"{NAMESPACE}{name}"))
