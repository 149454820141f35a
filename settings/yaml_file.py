"""One `search_config.yaml` as flat values with the line each stands on. Plain YAML 1.1 without aliases; a key may stand once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from outrider.settings.expansion import Malformed, Unset, expand, variables_in
from outrider.settings.schema import Given, is_group, leaves, nearest, owner, sections
from outrider.settings.section import is_secret
from outrider.state.errors import SettingsError

MAX_BYTES = 2**20
PLAIN_TAGS = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:map": "a mapping",
    "tag:yaml.org,2002:seq": "a list",
}


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases, whose expansion could fill the memory."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported in settings", event.start_mark)
        return super().compose_node(parent, index)


def read_yaml(path: Path, environ: Mapping[str, str]) -> dict[str, Given]:
    """Dotted name -> value, for a file that exists; `SettingsError` names file, line and key."""
    node = _compose(path)
    if node is None or _is_null(node):
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{_at(path, node)}: settings must be a mapping such as 'run:', not {_what(node)}")
    return dict(_flatten(path, node, "", environ))


def plain_value(text: str) -> object:
    """A text as YAML reads it: a number, flag, list or mapping, else the text."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _compose(path: Path) -> yaml.Node | None:
    loader: _Loader | None = None
    try:
        loader = _Loader(_text(path))
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}{line}: this is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise SettingsError(f"{path}: this is not YAML for settings: {why}") from error
    finally:
        if loader is not None:
            loader.dispose()


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SettingsError(f"{path}: a settings file has at most {MAX_BYTES:,} bytes")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: settings must be UTF-8; byte {error.start} is not") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error


def _flatten(path: Path, node: yaml.MappingNode, prefix: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    seen: dict[str, str] = {}
    for key_node, value_node in node.value:
        where = _at(path, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise SettingsError(f"{where}: a key must be a name, not {_what(key_node)}")
        name = f"{prefix}{key_node.value}"
        if name in seen:
            raise SettingsError(f"{where}: {name} stands twice; it was set at {seen[name]}")
        seen[name] = where
        yield from _entry(path, name, value_node, where, environ)


def _entry(path: Path, name: str, node: yaml.Node, where: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    leaf = owner(name)
    if leaf is None and name not in sections():
        raise SettingsError(f"{where}: unknown setting {name!r}{nearest(name)}")
    if leaf is None or is_group(name):
        if _is_null(node):
            return  # `run:` with nothing below it
        if not isinstance(node, yaml.MappingNode):
            raise SettingsError(f"{where}: {name} must be a mapping of settings, not {_what(node)}")
        yield from _flatten(path, node, f"{name}.", environ)
    elif leaf.of_mappings:
        yield name, Given(_value(node, where, name, environ), where, tuple(_reads(node)))
    elif isinstance(node, yaml.ScalarNode):
        yield name, Given(_scalar(node, where, name, environ, as_text=leaf.kind is str), where, tuple(_reads(node)))
    else:
        raise SettingsError(f"{where}: {name} takes one value, not {_what(node)}")


def _value(node: yaml.Node, where: str, name: str, environ: Mapping[str, str]) -> object:
    """Whatever stands there; what is called a key is a text."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(one, where, name, environ) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _value(one, where, name, environ) for key, one in node.value}
    assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - there is no fourth kind
    return _scalar(node, where, name, environ, as_text=is_secret(name))


def _reads(node: yaml.Node) -> Iterator[str]:
    """The variables named in it, however deep."""
    if isinstance(node, yaml.ScalarNode):
        yield from variables_in(node.value)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            yield from _reads(one)
    elif isinstance(node, yaml.MappingNode):
        for _, one in node.value:
            yield from _reads(one)


def _scalar(node: yaml.ScalarNode, where: str, name: str, environ: Mapping[str, str], *, as_text: bool) -> object:
    """A value with references is read after they are replaced, so that `${N:-5}` is a number where one is wanted."""
    text = _expanded(node.value, f"{where}: {name}", environ)
    if text != node.value:
        return text if as_text else plain_value(text)
    if as_text and name not in leaves() and not _is_null(node):
        return text  # options of an object store are texts: `allow_http: true` means "true"
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{where}: {name} is no value that settings know: {node.value[:60]!r}") from error


def _expanded(text: str, where: str, environ: Mapping[str, str]) -> str:
    try:
        return expand(text, environ)
    except Unset as error:
        missing = error.args[0]
        raise SettingsError(f"{where} needs the environment variable {missing}; set it or write ${{{missing}:-default}}") from error
    except Malformed as error:
        raise SettingsError(f"{where} holds {error.args[0]!r}; write ${{NAME}} or ${{NAME:-default}}, or $$ for a dollar") from error


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _at(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}"


def _what(node: yaml.Node) -> str:
    return PLAIN_TAGS.get(node.tag) or f"{str(node.value)[:60]!r}"
