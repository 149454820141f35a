"""One settings file as flat values with their lines, with `${VAR}` expanded.

YAML 1.1 without aliases and octal numbers; a key may be set once. `${VAR}` and `${VAR:-default}` are read as in a POSIX shell, and `$$` is
a dollar sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import yaml

from outrider.settings.sections import is_secret
from outrider.settings.setting_names import Entry, find_leaf, is_group, leaves, sections, suggest
from outrider.state.errors import SettingsError
from outrider.text.sanitize import split_addresses

MAX_BYTES = 2**20
KINDS = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:map": "a mapping",
    "tag:yaml.org,2002:seq": "a list",
}
INTEGER_TAG, INTEGER = "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)$")
REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<malformed>\{))")


class UnsetVariable(LookupError):
    """A reference without a default to a variable that is not set."""


class MalformedReference(ValueError):
    """`${` that does not begin a reference."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced; an empty variable takes the default, as in a shell. Values are not expanded again."""

    def replace(reference: re.Match[str]) -> str:
        if reference["dollar"]:
            return "$"
        if reference["malformed"]:
            raise MalformedReference(text[reference.start() : reference.start() + 20])
        if reference["default"] is not None:
            return environ.get(reference["name"]) or reference["default"]
        if reference["name"] not in environ:
            raise UnsetVariable(reference["name"])
        return environ[reference["name"]]

    return REFERENCE.sub(replace, text)


def parse_value(text: str) -> object:
    """A text as YAML reads it: a number, flag, list or mapping, else the text."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


class _Loader(yaml.SafeLoader):
    """SafeLoader without aliases, whose expansion could exhaust the memory, and without numbers to the bases 8 and 60.

    `010` is not 8, and `1:30` not 90: they are texts, which a setting that is a number refuses.
    """

    yaml_implicit_resolvers: ClassVar = {  # type: ignore[misc] # the stubs declare it of instances
        first: [(tag, INTEGER if tag == INTEGER_TAG else pattern) for tag, pattern in resolvers]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not supported in settings", event.start_mark)
        return super().compose_node(parent, index)


def read_yaml(path: Path, environ: Mapping[str, str]) -> dict[str, Entry]:
    """Dotted name -> value, for a file that exists; `SettingsError` names file, line and key."""
    node = _compose(path)
    if node is None or _is_null(node):
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{_location(path, node)}: settings must be a mapping such as 'run:', not {_describe(node)}")
    return dict(_flatten(path, node, "", environ))


def _compose(path: Path) -> yaml.Node | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SettingsError(f"{path}: a settings file has at most {MAX_BYTES:,} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: settings must be UTF-8; byte {error.start} is not") from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return _parse(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SettingsError(f"{path}{line}: this is not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise SettingsError(f"{path}: this is not YAML for settings: {reason}") from error


@lru_cache(maxsize=2)
def _parse(text: str) -> yaml.Node | None:
    """A command reads the same files twice: for `outrider.graph.pipeline.graph`, and with its own flags. Nothing changes the nodes."""
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _flatten(path: Path, node: yaml.MappingNode, prefix: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Entry]]:
    locations: dict[str, str] = {}
    for key_node, value_node in node.value:
        where = _location(path, key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise SettingsError(f"{where}: a key must be a name, not {_describe(key_node)}")
        name = f"{prefix}{key_node.value}"
        if name in locations:
            raise SettingsError(f"{where}: {name} is set twice; the first time at {locations[name]}")
        locations[name] = where
        yield from _read_entry(path, name, value_node, where, environ)


def _read_entry(path: Path, name: str, node: yaml.Node, where: str, environ: Mapping[str, str]) -> Iterator[tuple[str, Entry]]:
    leaf = find_leaf(name)
    if leaf is None and name not in sections():
        raise SettingsError(f"{where}: unknown setting {name!r}{suggest(name)}")
    if leaf is None or is_group(name):
        if _is_null(node):
            return  # `run:` with nothing below it
        if not isinstance(node, yaml.MappingNode):
            raise SettingsError(f"{where}: {name} must be a mapping of settings, not {_describe(node)}")
        yield from _flatten(path, node, f"{name}.", environ)
    elif leaf.of_mappings:
        yield name, Entry(_read_value(node, where, name, environ), where, tuple(_variables(node)))
    elif isinstance(node, yaml.ScalarNode):
        yield name, Entry(_read_scalar(node, where, name, environ, as_text=leaf.kind is str), where, tuple(_variables(node)))
    elif leaf.of_addresses and isinstance(node, yaml.SequenceNode):
        addresses = ", ".join(split_addresses(_read_value(node, where, name, environ)))
        yield name, Entry(addresses, where, tuple(_variables(node)))
    else:
        raise SettingsError(f"{where}: {name} takes one value, not {_describe(node)}")


def _read_value(node: yaml.Node, where: str, name: str, environ: Mapping[str, str]) -> object:
    """A value of any kind; one whose name denotes a secret is a text."""
    if isinstance(node, yaml.SequenceNode):
        return [_read_value(item, where, name, environ) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _read_value(value, where, name, environ) for key, value in node.value}
    assert isinstance(node, yaml.ScalarNode)  # noqa: S101 - there is no fourth kind
    return _read_scalar(node, where, name, environ, as_text=is_secret(name))


def _variables(node: yaml.Node) -> Iterator[str]:
    """The variables that references in the node name, set or not, at any depth."""
    if isinstance(node, yaml.ScalarNode):
        yield from (reference["name"] for reference in REFERENCE.finditer(node.value) if reference["name"])
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _variables(item)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _variables(value)


def _read_scalar(node: yaml.ScalarNode, where: str, name: str, environ: Mapping[str, str], *, as_text: bool) -> object:
    """A value with references is parsed after they are replaced, so that `${N:-5}` is a number where a number is expected."""
    try:
        text = expand(node.value, environ)
    except UnsetVariable as error:
        variable = error.args[0]
        raise SettingsError(
            f"{where}: {name} needs the environment variable {variable}; set it or write ${{{variable}:-default}}"
        ) from error
    except MalformedReference as error:
        raise SettingsError(
            f"{where}: {name} contains {error.args[0]!r}; write ${{NAME}} or ${{NAME:-default}}, or $$ for a dollar"
        ) from error
    if text != node.value:
        return text if as_text else parse_value(text)
    if as_text and name not in leaves() and not _is_null(node):
        return text  # options of an object store are texts: `allow_http: true` means "true"
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{where}: {name} has a value that settings cannot hold: {node.value[:60]!r}") from error


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _location(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}"


def _describe(node: yaml.Node) -> str:
    return KINDS.get(node.tag) or f"{str(node.value)[:60]!r}"
