"""Settings merged from five layers: flags, environment, two files, and defaults.

The strongest first: flags, environment, the file of the working folder, the user's file, defaults. Both files are named
`search_config.yaml`; OUTRIDER_CONFIG or `--config` names another one instead of that in the working folder. Variables such as
OPENAI_API_KEY fill settings that all layers leave empty (`environment`). Each value keeps its location, which errors name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from outrider.moved import former_names
from outrider.settings.environment import (
    CONFIG_VARIABLE,
    LIBRARY_NAME,
    Layer,
    expand_home,
    read_environment,
    read_provider_variables,
    read_service_keys,
)
from outrider.settings.model import Settings
from outrider.settings.setting_names import Entry, find_leaf, leaves, split_name, suggest
from outrider.settings.untrusted_file import check_untrusted_file
from outrider.settings.yaml_file import read_yaml
from outrider.state.errors import SettingsError, shorten

FILE_NAME = "search_config.yaml"
DOMAIN_NAME = "llm.domain"
FLAG = "flag"
DEFAULT = "default"
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
EXPECTED: dict[type[Any], str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and for each dotted name the origin of its value: `flag`, `default`, a variable, or `file:line`."""

    settings: Settings
    origins: Mapping[str, str]


__getattr__ = former_names(__name__, {"Loaded": "LoadedSettings"})


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
) -> LoadedSettings:
    """Read all layers. `flags` maps dotted names to values, None for a flag that was not passed. Raises `SettingsError` only."""
    environ = os.environ if environ is None else environ
    try:
        folder = Path.cwd() if cwd is None else cwd
    except OSError as error:
        raise SettingsError("the working folder no longer exists; change into one that does") from error
    user = platformdirs.user_config_path("outrider", appauthor=False) if user_dir is None else user_dir
    user_file, folder_file, config = user / FILE_NAME, folder / FILE_NAME, environ.get(CONFIG_VARIABLE, "")
    middle_file = folder / expand_home(config) if config else folder_file
    middle = _read_file(middle_file, environ)
    if config and not middle_file.is_file():
        raise SettingsError(f"{middle_file}: no such file; --config and {CONFIG_VARIABLE} name a settings file")
    merged: Layer = {}
    for layer in (_read_file(user_file, environ), middle, read_environment(environ), _read_flags(flags or {})):
        merged.update(layer)
    merged.update(read_provider_variables(environ, merged) | read_service_keys(environ, merged))
    if middle and not config and folder_file.resolve() != user_file.resolve():  # the user may not have written it
        check_untrusted_file(merged, str(folder_file))
    origins = {name: merged[name].where if name in merged else DEFAULT for name in sorted({*leaves(), *merged})}
    return LoadedSettings(_validate(merged), origins)


def _read_file(path: Path, environ: Mapping[str, str]) -> Layer:
    try:
        if not path.is_file():
            return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be accessed: {error.strerror or error}") from error
    layer = read_yaml(path, environ)
    for name in (LIBRARY_NAME, DOMAIN_NAME):
        entry = layer.get(name)
        if entry is None or not isinstance(entry.value, str) or not entry.value:
            continue
        # a library may be an address, and a domain the name of a known field
        is_path = not ADDRESS.match(entry.value) if name == LIBRARY_NAME else entry.value.lower().endswith((".md", ".markdown"))
        if is_path:
            # relative to the file, wherever the command is started
            layer[name] = replace(entry, value=str(path.parent / expand_home(entry.value)))
    return layer


def _read_flags(flags: Mapping[str, object]) -> Layer:
    layer: Layer = {}
    for name, value in flags.items():
        if value is None:
            continue
        if find_leaf(name) is None:
            raise SettingsError(f"flag for the unknown setting {name!r}{suggest(name)}")
        layer[name] = Entry(os.fspath(value) if isinstance(value, os.PathLike) else value, FLAG)
    return layer


def _validate(merged: Layer) -> Settings:
    tree: dict[str, Any] = {}
    for name, entry in merged.items():
        *groups, key = split_name(name)
        level = tree
        for group in groups:
            level = level.setdefault(group, {})
        level[key] = entry.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        # `from None`: the cause would show inputs, which may be secrets
        complaints = []
        for detail in error.errors():
            name = _name(detail)
            section = {entry.where for known, entry in merged.items() if known.startswith(f"{name}.")}
            while name not in merged and find_leaf(name):
                name = name.rpartition(".")[0]  # within a value
            where = merged[name].where if find_leaf(name) else ", ".join(sorted(section))
            complaints.append(f"{where}: {_message(name, detail)}")
        raise SettingsError("; ".join(complaints)) from None


def format_errors(error: ValidationError, section: str) -> str:
    """The wrong values of one section by the settings' names, without secrets."""
    return "; ".join(_message(f"{section}.{_name(detail)}", detail) for detail in error.errors())


def _name(detail: ErrorDetails) -> str:
    return ".".join(str(part) for part in detail["loc"])


def _message(name: str, detail: ErrorDetails) -> str:
    leaf = find_leaf(name)
    message = detail["msg"].removeprefix("Value error, ")
    if leaf is None:
        return f"{name}: {message}"
    if detail["type"] == "value_error":
        return f"{name} {message}"
    if leaf.of_mappings:
        return f"{name} takes JSON values: texts, numbers, true, false, null, and lists and mappings of those"
    rule = message.removeprefix("Input should be ") if "_type" not in detail["type"] else ""
    expected = rule if leaf.choices else EXPECTED[leaf.kind] + (f", {rule}" if rule else "") + (" or null" if leaf.may_be_empty else "")
    value = "nothing" if detail["input"] is None else shorten(detail["input"])
    return f"{name} takes {expected}" + ("" if leaf.secret else f", not {value}")
