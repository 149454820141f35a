"""Settings from five layers, strongest first: flag, environment, `search_config.yaml` in the working folder (or the file that
OUTRIDER_CONFIG or `--config` names instead), the same in the user folder, defaults; variables such as OPENAI_API_KEY and GITHUB_TOKEN
fill in what all of them leave open (`providers`, `service_keys`). Each value remembers its layer; whatever is wrong is named with the
place where it stands.
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

from outrider.settings.model import Settings
from outrider.settings.providers import of_providers
from outrider.settings.schema import Given, is_group, leaves, nearest, owner, sections, split
from outrider.settings.section import is_secret
from outrider.settings.sent_away import refuse_sent_away
from outrider.settings.service_keys import of_services
from outrider.settings.yaml_file import plain_value, read_yaml
from outrider.state.errors import SettingsError
from outrider.state.nearest import nearest as most_like
from outrider.state.nearest import shown

FILE_NAME = "search_config.yaml"
PREFIX = "OUTRIDER_"
LIBRARY_VARIABLE = "OUTRIDER_LIBRARY"
CONFIG_VARIABLE = "OUTRIDER_CONFIG"
LIBRARY_NAME = "library.uri"
DOMAIN_NAME = "llm.domain"
NO_SETTINGS = (LIBRARY_VARIABLE, CONFIG_VARIABLE, "OUTRIDER_DATA", "OUTRIDER_TEST_LLM", "OUTRIDER_LIVE", "OUTRIDER_CHROMIUM")
"""Variables of ours that name no setting: the short name of one; a settings file; where collections are, what tests ask, a browser."""
FLAG = "flag"
DEFAULT = "default"
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
EXPECTED: dict[type[Any], str] = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}

Layer = dict[str, Given]


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and for each dotted name the place its value came from: `flag`, `default`, a variable, or `file:line`."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user_dir: Path | None = None,
) -> Loaded:
    """Read all layers. `flags` maps dotted names to values, None for a flag that was not given. Raises `SettingsError` only."""
    environ = os.environ if environ is None else environ
    folder = _working_folder() if cwd is None else cwd
    user = platformdirs.user_config_path("outrider", appauthor=False) if user_dir is None else user_dir
    merged: Layer = {}
    of_user, of_folder, named = user / FILE_NAME, folder / FILE_NAME, environ.get(CONFIG_VARIABLE, "")
    middle = _named_file(folder / _home(named), environ) if named else _file(of_folder, environ)
    for layer in (_file(of_user, environ), middle, _environment(environ), _flags(flags or {})):
        merged.update(layer)
    merged.update(of_providers(environ, merged) | of_services(environ, merged))
    if middle and not named and of_folder.resolve() != of_user.resolve():  # it is not the user's word
        refuse_sent_away(merged, str(of_folder))
    settings = _checked(merged)
    return Loaded(settings, {name: merged[name].where if name in merged else DEFAULT for name in sorted({*leaves(), *merged})})


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError("the working folder is gone; change into one that exists") from error


def _named_file(path: Path, environ: Mapping[str, str]) -> Layer:
    layer = _file(path, environ)
    if not path.is_file():
        raise SettingsError(f"{path}: no such file; --config and {CONFIG_VARIABLE} name a settings file")
    return layer


def _file(path: Path, environ: Mapping[str, str]) -> Layer:
    try:
        if not path.is_file():
            return {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be looked for: {error.strerror or error}") from error
    layer = read_yaml(path, environ)
    for name, is_path in (LIBRARY_NAME, _is_folder), (DOMAIN_NAME, _is_markdown):
        given = layer.get(name)
        if given is not None and isinstance(given.value, str) and is_path(given.value):
            layer[name] = replace(given, value=str(path.parent / _home(given.value)))  # beside the file, wherever the command is started
    return layer


def _is_folder(uri: str) -> bool:
    return bool(uri) and not ADDRESS.match(uri)


def _is_markdown(domain: str) -> bool:
    """Rather than the name of a field that is known."""
    return domain.lower().endswith((".md", ".markdown"))


def _home(uri: str) -> str:
    """`~/` is the home folder also where no shell has read it."""
    return str(Path.home() / uri[2:]) if uri.startswith("~/") else uri


def _environment(environ: Mapping[str, str]) -> Layer:
    layer: Layer = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS:
            continue
        name = variable.removeprefix(PREFIX).lower().replace("__", ".")
        if "__" not in variable:
            close = most_like(variable, [*NO_SETTINGS, *map(_variable_of, leaves())])
            raise SettingsError(f"{_named(variable)} names no setting{f'; did you mean {close}?' if close else ''}")
        layer.update(_variable(variable, name, environ[variable]))
    short = environ.get(LIBRARY_VARIABLE)
    if short:
        _agree(layer.get(LIBRARY_NAME), short)
        layer[LIBRARY_NAME] = Given(_home(short), _named(LIBRARY_VARIABLE))
    return layer


def _variable(variable: str, name: str, text: str) -> Layer:
    where = _named(variable)
    leaf = owner(name)
    if leaf is None:
        what = f"sets the group {name!r}, not one setting" if name in sections() else f"names the unknown setting {name!r}{nearest(name)}"
        raise SettingsError(f"{where} {what}")
    if leaf.of_mappings:
        return _of_mapping(name, text if is_secret(name) else plain_value(text), where)
    if not leaf.free or name not in leaves():
        value = _home(text) if name == LIBRARY_NAME else text if leaf.kind is str else plain_value(text)
        return {name: Given(value, where)}
    mapping = plain_value(text)
    if not isinstance(mapping, dict) or not all(isinstance(key, str) for key in mapping):
        raise SettingsError(f'{where}: {name} takes a mapping such as {{"key": "value"}}')
    return {f"{name}.{key}": Given(_option(value), where) for key, value in mapping.items()}


def _of_mapping(name: str, value: object, where: str) -> Layer:
    """A variable may hold one value, all settings of one name, or all of all."""
    if not is_group(name):
        return {name: Given(value, where)}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SettingsError(f'{where}: {name} takes a mapping such as {{"base_url": "https://..."}}')
    layer: Layer = {}
    for key, inner in value.items():
        layer |= _of_mapping(f"{name}.{key}", inner, where)
    return layer


def _option(value: object) -> object:
    """Object stores take texts: `true` and `3` mean "true" and "3"."""
    return str(value).lower() if isinstance(value, bool | int) else value


def _agree(long: Given | None, short: str) -> None:
    if long is not None and long.value != _home(short):
        raise SettingsError(f"{LIBRARY_VARIABLE} and OUTRIDER_LIBRARY__URI name different libraries; set one of them")


def _flags(flags: Mapping[str, object]) -> Layer:
    layer: Layer = {}
    for name, value in flags.items():
        if value is None:
            continue
        if owner(name) is None:
            raise SettingsError(f"flag for the unknown setting {name!r}{nearest(name)}")
        layer[name] = Given(os.fspath(value) if isinstance(value, os.PathLike) else value, FLAG)
    return layer


def _checked(merged: Layer) -> Settings:
    tree: dict[str, Any] = {}
    for name, given in merged.items():
        *groups, key = split(name)
        level = tree
        for group in groups:
            level = level.setdefault(group, {})
        level[key] = given.value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError("; ".join(_complaint(detail, merged) for detail in error.errors())) from None  # the cause shows inputs


def _complaint(detail: ErrorDetails, merged: Layer) -> str:
    name = _name(detail)
    a_group = {given.where for known, given in merged.items() if known.startswith(f"{name}.")}
    while name not in merged and owner(name):
        name = name.rpartition(".")[0]  # within a value
    where = merged[name].where if owner(name) else ", ".join(sorted(a_group))
    return f"{where}: {_said(name, detail)}"


def complaints(error: ValidationError, section: str) -> str:
    """What is wrong with the values of one section, by the settings' names; no secret stands in it."""
    return "; ".join(_said(f"{section}.{_name(detail)}", detail) for detail in error.errors())


def _name(detail: ErrorDetails) -> str:
    return ".".join(str(part) for part in detail["loc"])


def _said(name: str, detail: ErrorDetails) -> str:
    leaf = owner(name)
    told = detail["msg"].removeprefix("Value error, ")
    if leaf is None:
        return f"{name}: {told}"
    if detail["type"] == "value_error":
        return f"{name} {told}"
    rule = told.removeprefix("Input should be ") if "_type" not in detail["type"] else ""
    if leaf.of_mappings:
        return f"{name} takes what JSON can hold: texts, numbers, true, false, null, and lists and mappings of those"
    expected = rule if leaf.choices else EXPECTED[leaf.kind] + (f", {rule}" if rule else "") + (" or null" if leaf.may_be_empty else "")
    given = "" if leaf.secret else f", not {_given(detail['input'])}"
    return f"{name} takes {expected}{given}"


def _given(value: object) -> str:
    return "nothing" if value is None else shown(value)


def _variable_of(name: str) -> str:
    return PREFIX + name.upper().replace(".", "__")


def _named(variable: str) -> str:
    return f"environment variable {variable}"
