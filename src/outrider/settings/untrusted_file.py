"""Limits on a settings file in the working folder, which the user may not have written.

Such a file may not decide where the user's keys are sent, and may not send what the environment holds. An address that it sets receives
no key that is set elsewhere, and nothing that a `${...}` of the file reads. The file may not decide who may use the server, or which
services learn of searches. The file in the user's own folder and one named with `--config` may do all of this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from outrider.settings.environment import DEEPSEEK_HOST, OPENAI_HOST, variable_name
from outrider.settings.sections import ServiceSettings, SourcesSettings, is_secret
from outrider.settings.setting_names import Entry, find_leaf, split_name
from outrider.state.errors import SettingsError
from outrider.text.sanitize import origin

KEY_ADDRESSES: Mapping[str, tuple[str, ...]] = {
    **{f"sources.{name}": (service.base_url,) for name, service in SourcesSettings() if isinstance(service, ServiceSettings)},
    "llm": (f"https://{OPENAI_HOST}", f"https://{DEEPSEEK_HOST}"),
    "embedding": (),
    "reranker": (),
}
"""Sections with an address and a key, and the addresses that may receive the key whichever file sets them."""
PLUGINS, STORAGE, CACHE, LIBRARY, CONTACT = "sources.extra", "library.storage_options", "cache.url", "library.uri", "sources.contact"
OBSERVERS = ("threads.uri", "tracing.endpoint")
"""Addresses that receive searches, and from which threads are read back."""
ACCESS = ("serve.api_keys", "serve.allowed_hosts", "serve.cors_origins")
"""Access to the server: a stranger's key, host name or page could read the served data."""

NAMED_ADDRESS = re.compile(r"url|uri|host|endpoint|address|server|proxy|authority|base", re.IGNORECASE)
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
        if address and origin(str(address.value)) not in map(origin, own):
            _check_address(folder, f"{section}.base_url", folder.below(section))
    for name in sorted({".".join(split_name(name)[:3]) for name, _ in folder.below(PLUGINS)}):
        _check_free_settings(folder, name)
    _check_free_settings(folder, STORAGE)
    for name in (CACHE, LIBRARY):
        address = folder.get(name)
        if address and "://" in str(address.value):
            _check_address(folder, name, [])
    for name, entry in entries.items():
        setting = ".".join(split_name(name)[:2])
        if not folder.get(name) or not (setting in ACCESS or (setting in OBSERVERS and "://" in str(entry.value))):
            continue
        decision = "who may use the server" if setting in ACCESS else "which address receives your searches"
        raise SettingsError(
            f"{name} is set in {entry.where}: a settings file in the working folder may not decide {decision}; set it in the settings file "
            f"of your user folder, export {variable_name(setting)}, or name the file with --config if you trust it"
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
