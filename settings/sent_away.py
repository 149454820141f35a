"""What a settings file in the working folder may not do: say where the user's keys are sent, or send what the environment holds.

Whoever wrote that file (a repository that was cloned, say) would get it. So an address that it names goes with no key that stands
elsewhere, and with nothing that a `${...}` of that file reads; and who may ask the server is not for it to say at all. The file in the
user's own folder and one named with `--config` may.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from outrider.settings.origin import origin
from outrider.settings.providers import DEEPSEEK_HOST, OPENAI_HOST
from outrider.settings.schema import Given, owner, split
from outrider.settings.section import is_secret
from outrider.settings.sources import ServiceSettings, SourcesSettings
from outrider.state.errors import SettingsError

SERVICES = {f"sources.{name}": of.base_url for name, of in SourcesSettings() if isinstance(of, ServiceSettings)}
OWN: Mapping[str, tuple[str, ...]] = {
    **{section: (address,) for section, address in SERVICES.items()},
    "llm": (f"https://{OPENAI_HOST}", f"https://{DEEPSEEK_HOST}"),
    "embedding": (),
    "reranker": (),
}
"""Sections with an address and a key, and the addresses that the key is meant for whoever names them."""
OTHERS, STORAGE, CACHE, LIBRARY, CONTACT = "sources.extra", "library.storage_options", "cache.url", "library.uri", "sources.contact"
TOLD = ("threads.uri", "tracing.endpoint")
"""Addresses that are told what is searched for, and of which threads are read back."""
DOORS = ("serve.api_keys", "serve.allowed_hosts", "serve.cors_origins")
"""Who may ask the server: a key of a stranger's, a name or a page of his, and what is served is his to read."""

NAMED_ADDRESS = re.compile(r"url|uri|host|endpoint|address|server|proxy|authority|base", re.IGNORECASE)
PLAIN_WORDS = re.compile(r"[A-Za-z_][A-Za-z0-9_ ,+-]*")
"""No host of the internet: it has a dot (of which there are several in Unicode) or a colon, or is a number."""
LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Folder:
    """What the file in the working folder says, and what stands elsewhere."""

    given: Mapping[str, Given]
    file: str

    def says(self, name: str) -> Given | None:
        """What the file says of it, as far as it counts and is not empty."""
        one = self.given.get(name)
        return one if one and one.value and self.wrote(one) else None

    def wrote(self, one: Given) -> bool:
        return one.where.startswith(f"{self.file}:")

    def below(self, group: str) -> Iterator[tuple[str, Given]]:
        return ((name, one) for name, one in self.given.items() if name.startswith(f"{group}."))


def refuse_sent_away(given: Mapping[str, Given], file: str) -> None:
    """`SettingsError` where `file`, the one in the working folder, does so; it says what mends it."""
    folder = Folder(given, file)
    for section, own in OWN.items():
        address = folder.says(f"{section}.base_url")
        if address and origin(str(address.value)) not in map(origin, own):
            _refuse(folder, f"{section}.base_url", folder.below(section))
    for name in sorted({".".join(split(name)[:3]) for name, _ in folder.below(OTHERS)}):
        _refuse_of_others(folder, name)
    _refuse_of_others(folder, STORAGE)
    for name in (CACHE, LIBRARY):
        address = folder.says(name)
        if address and "://" in str(address.value):
            _refuse(folder, name, [])
    _refuse_told(folder)


def _refuse_told(folder: Folder) -> None:
    for name, one in folder.given.items():
        kind = ".".join(split(name)[:2])
        if kind not in (*DOORS, *TOLD) or not folder.says(name) or (kind in TOLD and "://" not in str(one.value)):
            continue
        why = "who may ask the server" if kind in DOORS else "where your searches are told"
        raise SettingsError(
            f"{name} stands in {one.where}: {why} is not for the working folder to say; put it into the settings file of your own folder, "
            f"export {_variable(kind)}, or name the file with --config if you trust it"
        )


def _refuse_of_others(folder: Folder, group: str) -> None:
    """Names of settings that others gave: any value counts that may be an address, and whatever is called a key."""
    settings = list(folder.below(group))
    for name, one in settings:
        last = split(name)[-1]
        key_of_a_store = group == STORAGE and is_secret(last) and not NAMED_ADDRESS.search(last)
        if folder.says(name) and not key_of_a_store and _may_be_address(last, one.value):
            _refuse(folder, name, settings)


def _refuse(folder: Folder, address: str, sent: Iterable[tuple[str, Given]]) -> None:
    """`sent` are the settings that go to this address of the file's; those who are asked as sources are told the contact, too."""
    at, contact = folder.given[address], folder.given.get(CONTACT)
    told = [(CONTACT, contact)] if contact and address.startswith("sources.") else []
    mend = f"export {_variable(address)} with the address, or name the file with --config if you trust it"
    for name, one in (address, at), *sent, *told:
        if not folder.wrote(one) and _holds_key(name, one.value):
            raise SettingsError(
                f"{address} stands in {at.where}, but {'its key' if name.endswith('.api_key') else name} in {one.where}: "
                f"a key is not sent to an address that the working folder names; {mend}"
            )
        if folder.wrote(one) and one.reads:
            beside = "" if name == address else f", and {address} stands in {at.where}"
            raise SettingsError(
                f"{name} in {one.where} reads the environment variable {one.reads[0]}{beside}: "
                f"what the environment holds is not sent to an address that the working folder names; {mend}"
            )


def _holds_key(name: str, value: object) -> bool:
    leaf = owner(name)
    if not value or leaf is None:
        return False
    return _called_key(split(name)[-1], value) if leaf.free else leaf.secret


def _called_key(name: str, value: object) -> bool:
    within = value.items() if isinstance(value, dict) else ((name, one) for one in value) if isinstance(value, list) else ()
    return (is_secret(name) and not isinstance(value, bool)) or any(_called_key(key, one) for key, one in within)


def _may_be_address(name: str, value: object) -> bool:
    """With or without a scheme: nobody here knows what a package makes of it. 93.1201 is as good an address as 1572395042."""
    if value is None or isinstance(value, bool) or value in ("true", "false"):
        return False
    if isinstance(value, int | float):
        return value > LAST_PORT or (value > 1 and value % 1 != 0)
    if isinstance(value, dict):
        return any(_may_be_address(key, one) for key, one in value.items())
    if isinstance(value, list):
        return any(_may_be_address(name, one) for one in value)
    text = str(value).strip()
    return bool(text) and bool(NAMED_ADDRESS.search(name) or not PLAIN_WORDS.fullmatch(text) or text.lower() == "localhost")


def _variable(name: str) -> str:
    return "OUTRIDER_" + name.upper().replace(".", "__")
