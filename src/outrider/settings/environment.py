"""Settings from environment variables: `OUTRIDER_*`, and those of providers and services.

Variables of others, such as OPENAI_API_KEY and GITHUB_TOKEN, fill only settings that flags, our variables and files leave empty.
A key goes only to the address that it belongs to. A server under `llm.base_url` never receives the key of a provider, and a service does
not where `base_url` names another server or one without encryption. The server in `OPENAI_BASE_URL` receives `OPENAI_API_KEY`: the two
belong together, as in OpenAI's own client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from outrider.settings.sections import SourcesSettings, is_secret
from outrider.settings.setting_names import Entry, find_leaf, is_group, leaves, sections, suggest
from outrider.state.errors import SettingsError, find_nearest
from outrider.text.sanitize import origin, split_addresses

PREFIX = "OUTRIDER_"
LIBRARY_VARIABLE = "OUTRIDER_LIBRARY"
CONFIG_VARIABLE = "OUTRIDER_CONFIG"
LIBRARY_NAME = "library.uri"
NO_SETTINGS = (LIBRARY_VARIABLE, CONFIG_VARIABLE, "OUTRIDER_DATA", "OUTRIDER_TEST_LLM", "OUTRIDER_LIVE", "OUTRIDER_CHROMIUM")
"""Variables with our prefix that name no setting: a short name, a settings file, test collections, test switches, a browser."""
SERVICE_LINK = re.compile(r"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)")
LINK_VALUE = re.compile(r"(?:tcp|udp|sctp)://\S+")
"""Variables that Kubernetes sets in each container for a service named outrider or outrider-..., among them OUTRIDER_PORT=tcp://10.0.0.1:80
(https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables)."""
OPENAI_KEY, OPENAI_URL, DEEPSEEK_KEY = "OPENAI_API_KEY", "OPENAI_BASE_URL", "DEEPSEEK_API_KEY"
OPENAI_HOST, DEEPSEEK_HOST = "api.openai.com", "api.deepseek.com"
SERVICE_KEYS: Mapping[str, tuple[str, ...]] = {
    "github": ("GITHUB_TOKEN", "GH_TOKEN"),
    "openalex": ("OPENALEX_API_KEY",),
    "semantic_scholar": ("SEMANTIC_SCHOLAR_API_KEY", "S2_API_KEY"),
    "pubmed": ("NCBI_API_KEY",),
    "opencitations": ("OPENCITATIONS_ACCESS_TOKEN",),
    "serpapi_scholar": ("SERPAPI_API_KEY", "SERPAPI_KEY"),
    "serpapi_google": ("SERPAPI_API_KEY", "SERPAPI_KEY"),
}

Layer = dict[str, Entry]


def variable_name(setting: str) -> str:
    """`OUTRIDER_RUN__CANDIDATES` for `run.candidates`."""
    return PREFIX + setting.upper().replace(".", "__")


def variable_location(variable: str) -> str:
    return f"environment variable {variable}"


def expand_home(path: str) -> str:
    """The path with the home folder for `~/`, which no shell has expanded in a file."""
    return str(Path.home() / path[2:]) if path.startswith("~/") else path


def read_environment(environ: Mapping[str, str]) -> Layer:
    """The settings in `OUTRIDER_*`. Raises `SettingsError` for a variable with that prefix that names no setting."""
    layer: Layer = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS or _is_service_link(variable, environ[variable]):
            continue
        if "__" not in variable:
            close = find_nearest(variable, [*NO_SETTINGS, *map(variable_name, leaves())])
            raise SettingsError(f"{variable_location(variable)} names no setting{f'; did you mean {close}?' if close else ''}")
        layer.update(_read_variable(variable, environ[variable]))
    short = environ.get(LIBRARY_VARIABLE)
    if short:
        uri = expand_home(short)
        if LIBRARY_NAME in layer and layer[LIBRARY_NAME].value != uri:
            raise SettingsError(f"{LIBRARY_VARIABLE} and {variable_name(LIBRARY_NAME)} name different libraries; set one of them")
        layer[LIBRARY_NAME] = Entry(uri, variable_location(LIBRARY_VARIABLE))
    return layer


def _is_service_link(variable: str, value: str) -> bool:
    is_link = SERVICE_LINK.fullmatch(variable) or (variable.endswith("_PORT") and LINK_VALUE.fullmatch(value))
    return bool(is_link) and "__" not in variable


def _read_variable(variable: str, text: str) -> Layer:
    name, where = variable.removeprefix(PREFIX).lower().replace("__", "."), variable_location(variable)
    leaf = find_leaf(name)
    if leaf is None:
        problem = (
            f"names the group {name!r}, not one setting" if name in sections() else f"names the unknown setting {name!r}{suggest(name)}"
        )
        raise SettingsError(f"{where} {problem}")
    if leaf.of_mappings:
        return _read_mapping(name, text if is_secret(name) else _parse_value(text), where)
    if not leaf.free or name not in leaves():
        value = expand_home(text) if name == LIBRARY_NAME else text if leaf.kind is str else _parse_value(text)
        return {name: Entry(value, where)}
    # Object stores take texts as options: `true` and `3` mean "true" and "3".
    options = _mapping(_parse_value(text), f'{where}: {name} takes a mapping such as {{"key": "value"}}').items()
    return {f"{name}.{key}": Entry(str(value).lower() if isinstance(value, bool | int) else value, where) for key, value in options}


def _parse_value(text: str) -> object:
    from outrider.settings.yaml_file import parse_value  # few variables hold more than a text

    return parse_value(text)


def _read_mapping(name: str, value: object, where: str) -> Layer:
    """A variable may hold one value, all settings of one name, or all of all names."""
    if not is_group(name):
        return {name: Entry(value, where)}
    layer: Layer = {}
    for key, inner in _mapping(value, f'{where}: {name} takes a mapping such as {{"base_url": "https://..."}}').items():
        layer |= _read_mapping(f"{name}.{key}", inner, where)
    return layer


def _mapping(value: object, complaint: str) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SettingsError(complaint)
    return value


def read_provider_variables(environ: Mapping[str, str], settings: Mapping[str, Entry]) -> Layer:
    """Address and key of the chat model, where `settings` leave them out or empty."""
    layer: Layer = {}
    values = (settings[name].value if name in settings else "" for name in ("llm.api_key", "llm.model"))
    key, model = (value.strip() if isinstance(value, str) else "" for value in values)
    address = ", ".join(split_addresses(settings["llm.base_url"].value)) if "llm.base_url" in settings else ""
    no_address = not address
    if no_address and environ.get(OPENAI_URL):
        address = environ[OPENAI_URL]
        layer["llm.base_url"] = _entry(environ, OPENAI_URL)
    if key:
        return layer
    if address:
        origins = {origin(one) for one in split_addresses(address)}
        scheme, host, port = origins.pop() if len(origins) == 1 else ("", "", None)  # of several, another would receive the key as well
        host = host if (scheme, port) == ("https", 443) else ""  # a provider is where its host is, with encryption
    else:  # no address names the provider: the model does, or the only key
        deepseek = environ.get(DEEPSEEK_KEY) and (model.startswith("deepseek") or not environ.get(OPENAI_KEY))
        host = DEEPSEEK_HOST if deepseek else OPENAI_HOST
    if host == DEEPSEEK_HOST and environ.get(DEEPSEEK_KEY):
        layer["llm.api_key"] = _entry(environ, DEEPSEEK_KEY)
        if not address:
            layer["llm.base_url"] = Entry(f"https://{DEEPSEEK_HOST}", variable_location(DEEPSEEK_KEY))
    elif environ.get(OPENAI_KEY) and (no_address or host == OPENAI_HOST):
        layer["llm.api_key"] = _entry(environ, OPENAI_KEY)
    return layer


def read_service_keys(environ: Mapping[str, str], settings: Mapping[str, Entry]) -> Layer:
    """Keys of services, where `settings` leave them out or empty."""
    defaults = SourcesSettings()
    layer: Layer = {}
    for service, variables in SERVICE_KEYS.items():
        key, address = f"sources.{service}.api_key", settings.get(f"sources.{service}.base_url")
        elsewhere = address is not None and origin(str(address.value)) != origin(getattr(defaults, service).base_url)
        if elsewhere or (key in settings and settings[key].value):
            continue
        variable = next((variable for variable in variables if environ.get(variable, "").strip()), None)
        if variable:
            layer[key] = _entry(environ, variable)
    return layer


def _entry(environ: Mapping[str, str], variable: str) -> Entry:
    return Entry(environ[variable].strip(), variable_location(variable))
