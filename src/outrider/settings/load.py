"""Settings merged from five layers: flags, environment, two files, and defaults.

The strongest first: flags, environment, the file of the working folder, the user's file, defaults. Both files are named
`search_config.yaml`; OUTRIDER_CONFIG or `--config` names another one instead of that in the working folder. Variables such as
OPENAI_API_KEY fill settings that all layers leave empty (`environment`). Each value keeps its location, which errors name.

A settings file in the working folder, which the user may not have written, is limited. It may not decide where the user's keys are
sent, and may not send what the environment holds. An address that it sets receives no key that is set elsewhere, and nothing that a
`${...}` of the file reads. It may not decide who may use the server, or which services learn of searches. The file in the user's own
folder and one named with `--config` may do all of this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from outrider.moved import former_names
from outrider.settings.environment import (
    CONFIG_VARIABLE,
    DEEPSEEK_HOST,
    LIBRARY_NAME,
    OPENAI_HOST,
    Layer,
    expand_home,
    read_environment,
    read_provider_variables,
    read_service_keys,
    variable_name,
)
from outrider.settings.model import Settings
from outrider.settings.sections import ServiceSettings, SourcesSettings, is_secret
from outrider.settings.setting_names import Entry, find_leaf, leaves, split_name, suggest
from outrider.state.errors import SettingsError, shorten
from outrider.text.sanitize import origin, split_addresses

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
    from outrider.settings.yaml_file import read_yaml  # many commands run without a settings file

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


KEY_ADDRESSES: Mapping[str, tuple[str, ...]] = {
    **{f"sources.{name}": (service.base_url,) for name, service in SourcesSettings() if isinstance(service, ServiceSettings)},
    "llm": (f"https://{OPENAI_HOST}", f"https://{DEEPSEEK_HOST}"),
    "embedding": (),
    "reranker": (),
}
"""Sections with an address and a key, and the addresses that may receive the key whichever file sets them."""
PLUGINS, STORAGE, CACHE, LIBRARY, CONTACT = "sources.extra", "library.storage_options", "cache.url", "library.uri", "sources.contact"
OBSERVERS = ("threads.uri", "jobs.uri", "shared.redis_url", CACHE, "tracing.endpoint", "errors.dsn")
"""Addresses that receive searches, and from which threads and jobs are read back."""
REINDEX = "embedding.reindex"
"""A search would replace the vectors of the user's library by those of the model that the file names."""
ACCESS = ("serve.api_keys", "serve.allowed_hosts", "serve.cors_origins", "serve.trusted_proxies")
"""Access to the server: a stranger's key, host name or page could read the served data."""
CLUSTER = "cluster.address"
"""A cluster receives the files and keys of batch work, and what it sends back is unpickled: it could run any code here."""
MEMORY = ("saved.uri", "saved.webhook_secret", "learning.enabled", "learning.file", "errors.messages")
"""A stranger's saved searches would send what they find in the user's library to the stranger's webhook."""
DECISIONS: Mapping[str, str] = {
    **dict.fromkeys(OBSERVERS, "which address receives your searches"),
    REINDEX: "that your library is embedded again",
    **dict.fromkeys(ACCESS, "who may use the server"),
    CLUSTER: "which cluster does your work",
    **dict.fromkeys(MEMORY, "what is remembered of your searches, and who receives it"),
}
"""What a settings file in the working folder may not decide."""

NAMED_ADDRESS = re.compile(r"url|uri|host|endpoint|address|server|proxy|authority|base", re.IGNORECASE)
NAMED_FILE = re.compile(r"file|path|application_credentials|service_account(?!_key)", re.IGNORECASE)
PLAIN_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_ ,+-]*")
"""No host of the internet: that has a dot (of which Unicode has several) or a colon, or is a number."""
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class UntrustedFile:
    """The settings of all layers, seen from the file in the working folder."""

    entries: Mapping[str, Entry]
    file: str

    def get(self, name: str) -> Entry | None:
        """The file's own value, unless it is empty or a stronger layer replaces it."""
        entry = self.entries.get(name)
        return entry if entry and entry.value and self.wrote(entry) else None

    def wrote(self, entry: Entry) -> bool:
        return entry.where.startswith(f"{self.file}:")

    def below(self, group: str) -> Iterator[tuple[str, Entry]]:
        return ((name, entry) for name, entry in self.entries.items() if name.startswith(f"{group}."))


def check_untrusted_file(entries: Mapping[str, Entry], file: str) -> None:
    """Raises `SettingsError`, with a remedy, if `file`, the one in the working folder, violates a limit."""
    folder = UntrustedFile(entries, file)
    for section, own in KEY_ADDRESSES.items():
        address = folder.get(f"{section}.base_url")
        if address and not {origin(one) for one in split_addresses(address.value)} <= {origin(one) for one in own}:
            _check_address(folder, f"{section}.base_url", folder.below(section))
    for name in sorted({".".join(split_name(name)[:3]) for name, _ in folder.below(PLUGINS)}):
        _check_free_settings(folder, name)
    _check_free_settings(folder, STORAGE)
    _check_store(folder)
    for name in (CACHE, LIBRARY):
        address = folder.get(name)
        if address and "://" in str(address.value):
            _check_address(folder, name, [])
    for name, entry in entries.items():
        setting = ".".join(split_name(name)[:2])
        is_harmless = (setting == REINDEX and entry.value != "auto") or (setting in OBSERVERS and "://" not in str(entry.value))
        if setting not in DECISIONS or is_harmless or not folder.get(name):
            continue
        raise SettingsError(
            f"{name} is set in {entry.where}: a settings file in the working folder may not decide {DECISIONS[setting]}; set it "
            f"in the settings file of your user folder, export {variable_name(setting)}, or name the file with --config if you trust it"
        )


def _check_store(folder: UntrustedFile) -> None:
    """A store's client finds credentials elsewhere, too, and sends tokens that it reads from files: to none but the store's own address."""
    for name, entry in folder.below(STORAGE):
        last = split_name(name)[-1]
        is_switch = isinstance(entry.value, bool) or entry.value in ("true", "false")
        if folder.get(name) and not is_switch and (NAMED_ADDRESS.search(last) or NAMED_FILE.search(last)):
            raise SettingsError(
                f"{name} is set in {entry.where}: a settings file in the working folder may not decide where the credentials of your "
                "library's store are read, or sent; set it in the settings file of your user folder, "
                f"export {variable_name(STORAGE)}, or name the file with --config if you trust it"
            )


def _check_free_settings(folder: UntrustedFile, group: str) -> None:
    """Settings of unknown meaning: any value counts that may be an address, and any name that denotes a secret."""
    settings = list(folder.below(group))
    for name, entry in settings:
        last = split_name(name)[-1]
        key_of_a_store = group == STORAGE and is_secret(last) and not NAMED_ADDRESS.search(last)
        if folder.get(name) and not key_of_a_store and _may_be_address(last, entry.value):
            _check_address(folder, name, settings)


def _check_address(folder: UntrustedFile, address: str, settings: Iterable[tuple[str, Entry]]) -> None:
    """`sent` are the settings that go to this address of the file; sources receive the contact, too."""
    at, contact = folder.entries[address], folder.entries.get(CONTACT)
    also_sent = [(CONTACT, contact)] if contact and address.startswith("sources.") else []
    remedy = f"export {variable_name(address)} with the address, or name the file with --config if you trust it"
    for name, entry in (address, at), *settings, *also_sent:
        leaf = find_leaf(name)
        holds_key = leaf is not None and bool(entry.value) and (_names_key(split_name(name)[-1], entry.value) if leaf.free else leaf.secret)
        if holds_key and not folder.wrote(entry):
            raise SettingsError(
                f"{address} is set in {at.where}, but {'its key' if name.endswith('.api_key') else name} in {entry.where}: "
                f"no key is sent to an address that the working folder sets; {remedy}"
            )
        if folder.wrote(entry) and entry.variables:
            address_set = "" if name == address else f", and {address} is set in {at.where}"
            raise SettingsError(
                f"{name} in {entry.where} reads the environment variable {entry.variables[0]}{address_set}: "
                f"no environment variable is sent to an address that the working folder sets; {remedy}"
            )


def _names_key(name: str, value: object) -> bool:
    inner = value.items() if isinstance(value, dict) else ((name, item) for item in value) if isinstance(value, list) else ()
    return (is_secret(name) and not isinstance(value, bool)) or any(_names_key(key, item) for key, item in inner)


def _may_be_address(name: str, value: object) -> bool:
    """With or without a scheme: the plugin decides how to read it. The number 93.1201 is an address as 1572395042 is."""
    if value is None or isinstance(value, bool) or value in ("true", "false"):
        return False
    if isinstance(value, int | float):
        return value > LAST_PORT or (value > 1 and value % 1 != 0)
    if isinstance(value, dict):
        return any(_may_be_address(key, item) for key, item in value.items())
    if isinstance(value, list):
        return any(_may_be_address(name, item) for item in value)
    text = str(value).strip()
    return bool(text) and bool(NAMED_ADDRESS.search(name) or not PLAIN_WORDS.fullmatch(text) or text.lower() == "localhost")
