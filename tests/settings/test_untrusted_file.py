"""Limits on a settings file in the working folder: no address for keys from elsewhere, no variables."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from outrider.settings.load import KEY_ADDRESSES, LoadedSettings, check_untrusted_file, load
from outrider.settings.setting_names import Entry
from outrider.state.errors import SettingsError

ENVIRON = {"AWS_SECRET_ACCESS_KEY": "s3cret", "HOME": "/home/me"}
FILE = "search_config.yaml"


def read(folder: Path, text: str = "", user: str = "", **environ: str) -> LoadedSettings:
    for name, content in (("work", text), ("user", user)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / FILE).write_text(content)
    return load(environ=ENVIRON | environ, cwd=folder / "work", user_dir=folder / "user")


def refusal(folder: Path, text: str, user: str = "", **environ: str) -> str:
    with pytest.raises(SettingsError) as caught:
        read(folder, text, user, **environ)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def nested(name: str, value: object) -> str:
    for part in reversed(name.split(".")):
        value = {part: value}
    return yaml.safe_dump(value)


@pytest.mark.parametrize("section", sorted(KEY_ADDRESSES))
@pytest.mark.parametrize(
    "address", ["https://evil.example/api", "http://evil.example", "evil.example/api", "evil", "https://user@[::1]:8/x"]
)
def test_the_file_sets_no_address_for_a_key_from_elsewhere(tmp_path: Path, section: str, address: str) -> None:
    """With and without a scheme; the key is in a variable or in the user's own file. The message names a remedy."""
    variable = "OUTRIDER_" + section.upper().replace(".", "__")
    text = nested(f"{section}.base_url", address)
    message = refusal(tmp_path, text, **{f"{variable}__API_KEY": "ours"})
    assert f"{section}.base_url is set in {tmp_path}/work/{FILE}:" in message
    assert f"but its key in environment variable {variable}__API_KEY" in message
    assert f"export {variable}__BASE_URL with the address, or name the file with --config" in message
    assert "but its key in" in refusal(tmp_path, text, nested(f"{section}.api_key", "ours"))
    read(tmp_path, text)


@pytest.mark.parametrize("section", sorted(KEY_ADDRESSES))
def test_no_environment_variable_goes_to_its_address(tmp_path: Path, section: str) -> None:
    address = {"base_url": "https://evil.example"}
    for setting in ("api_key", *(["model_name"] if section in ("embedding", "reranker") else [])):
        message = refusal(tmp_path, nested(section, {**address, setting: "${AWS_SECRET_ACCESS_KEY}"}))
        assert f"{section}.{setting} in {tmp_path}/work/{FILE}:" in message
        assert "reads the environment variable AWS_SECRET_ACCESS_KEY" in message
        assert "--config" in message
    assert "reads the environment" in refusal(tmp_path, nested(section, {**address, "api_key": "${NOT_SET:-x}"}))
    assert "reads the environment" in refusal(tmp_path, nested(f"{section}.base_url", "https://evil.example/${AWS_SECRET_ACCESS_KEY}"))
    read(tmp_path, nested(section, {**address, "api_key": "its own"}))
    read(tmp_path, nested(f"{section}.api_key", "${AWS_SECRET_ACCESS_KEY}"))  # goes where it belongs


@pytest.mark.parametrize("section", sorted(KEY_ADDRESSES))
def test_trusted_files_and_variables_may_set_the_address(tmp_path: Path, section: str) -> None:
    """In the user's file, by variables, and in a file that `--config` names; the working folder may be the user folder."""
    text = nested(section, {"base_url": "https://mine.example", "api_key": "${AWS_SECRET_ACCESS_KEY}"})
    variable = "OUTRIDER_" + section.upper().replace(".", "__")
    ours = {f"{variable}__API_KEY": "ours"}
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / FILE).write_text(text)
    inside = load(environ=ENVIRON, cwd=tmp_path / "user", user_dir=tmp_path / "user")
    named = read(tmp_path, nested("llm.base_url", "https://evil.example"), OUTRIDER_CONFIG=str(tmp_path / "mine.yaml"), **ours)
    for loaded in (inside, named, read(tmp_path, "", text), read(tmp_path, **ours, **{f"{variable}__BASE_URL": "https://mine.example"})):
        effective = loaded.settings
        for part in section.split("."):
            effective = getattr(effective, part)
        assert effective.base_url == "https://mine.example"  # type: ignore[attr-defined]
        assert effective.api_key.get_secret_value() in ("ours", "s3cret")  # type: ignore[attr-defined]
    assert named.settings.llm.base_url != "https://evil.example"


def test_the_file_may_set_the_service_s_own_address(tmp_path: Path) -> None:
    for section, addresses in KEY_ADDRESSES.items():
        for address in addresses:
            variable = f"OUTRIDER_{section.upper().replace('.', '__')}__API_KEY"
            read(tmp_path, nested(f"{section}.base_url", f"{address}/v1"), **{variable: "ours"})
            assert "its key" in refusal(tmp_path, nested(f"{section}.base_url", address.replace("https", "http")), **{variable: "ours"})
            assert "its key" in refusal(tmp_path, nested(f"{section}.base_url", f"{address}.evil.example"), **{variable: "ours"})
            assert "its key" in refusal(tmp_path, nested(f"{section}.base_url", f"{address}@evil.example"), **{variable: "ours"})
            assert "its key" in refusal(tmp_path, nested(f"{section}.base_url", f"{address}, https://evil.example"), **{variable: "ours"})


@pytest.mark.parametrize("number", ["OUTRIDER_EMBEDDING__BATCH_TOKENS", "OUTRIDER_EMBEDDING__CONTEXT_LENGTH"])
def test_a_setting_that_is_no_key_may_be_set_elsewhere(tmp_path: Path, number: str) -> None:
    read(tmp_path, "embedding: {base_url: 'http://localhost:8080/v1'}", **{number: "512"})


ACME = "OUTRIDER_SOURCES__EXTRA__ACME__"


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "https://evil.example"}, {"base_url": "evil.example/api"}, {"base_url": "evil"}, {"where": "evil.example"},
        {"where": "evil。example"}, {"where": "127.1"}, {"where": 1572395042}, {"where": 93.1201}, {"where": "//evil"}, {"where": "::1"},
        {"where": "localhost"}, {"to": ["ok", "evil.example"]}, {"to": {"a": {"endpoint": "evil"}}}, {"token_url": "evil.example"},
        {"keycloak": "evil.example"},
    ],
)  # fmt: skip
def test_any_value_of_a_plugin_may_be_an_address(tmp_path: Path, options: dict[str, object]) -> None:
    text = nested("sources.extra.acme", options)
    assert "but its key in environment variable" in refusal(tmp_path, text, **{f"{ACME}API_KEY": "ours"})
    assert f"but sources.extra.acme.auth in {tmp_path}/user" in refusal(tmp_path, text, nested("sources.extra.acme.auth", {"token": "x"}))
    assert "reads the environment" in refusal(tmp_path, nested("sources.extra.acme", {**options, "x": "${AWS_SECRET_ACCESS_KEY}"}))
    assert "reads the environment" in refusal(tmp_path, nested("sources.extra.acme", {**options, "x": [{"y": "${AWS_SECRET_ACCESS_KEY}"}]}))
    read(tmp_path, text, OUTRIDER_SOURCES__EXTRA__OTHER__API_KEY="ours")
    read(tmp_path, text, **{f"{ACME}ROWS": "5"})


def test_plain_values_of_a_plugin_are_allowed_with_its_key(tmp_path: Path) -> None:
    plain = {"rows": 50, "gap_s": 0.5, "sort": "newest first", "fields": ["a", "b_c"], "fast": True, "none": None}
    text = nested("sources.extra.acme", plain)
    assert read(tmp_path, text, **{f"{ACME}API_KEY": "ours"}).settings.sources.extra["acme"] == {**plain, "api_key": "ours"}
    read(tmp_path, nested("sources.extra.acme", {**plain, "api_key": "${AWS_SECRET_ACCESS_KEY}"}))


@pytest.mark.parametrize("address", ["sources.github.base_url", "sources.arxiv.base_url", "sources.extra.acme.base_url"])
def test_the_contact_is_sent_to_every_service(tmp_path: Path, address: str) -> None:
    contact = nested("sources.contact", "${HOME}")
    assert read(tmp_path, contact).settings.sources.contact == "/home/me"
    assert "sources.contact in" in refusal(tmp_path, yaml.safe_dump(merged(contact, nested(address, "https://evil.example"))))
    read(tmp_path, nested(address, "https://evil.example"), OUTRIDER_SOURCES__CONTACT="me@mine.example")


def merged(*texts: str) -> dict[str, dict[str, object]]:
    both: dict[str, dict[str, object]] = {}
    for text in texts:
        for key, section in yaml.safe_load(text).items():
            both.setdefault(key, {}).update(section)
    return both


def test_a_library_in_a_store(tmp_path: Path) -> None:
    """The guide's example works; an endpoint of the file's own gets nothing of elsewhere, and no address holds a variable."""
    options = {
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_secret_access_key": "${AWS_SECRET_ACCESS_KEY}",
    }
    example = {"library": {"uri": "s3://bucket/library", "storage_options": options}}
    assert read(tmp_path, yaml.safe_dump(example)).settings.library.storage_options["aws_secret_access_key"].get_secret_value() == "s3cret"
    for endpoint in ("aws_endpoint", "proxy_url"):
        evil = nested("library.storage_options", {**options, endpoint: "http://evil.example"})
        assert "reads the environment variable" in refusal(tmp_path, evil)
        alone = nested("library.storage_options", {endpoint: "evil.example"})
        assert "may not decide where the credentials" in refusal(tmp_path, alone)
        assert read(tmp_path, "", alone).settings.library.storage_options[endpoint].get_secret_value() == "evil.example"
        assert "but library.storage_options.aws_session_token" in refusal(
            tmp_path, alone, nested("library.storage_options.aws_session_token", "x")
        )
    assert "library.uri in" in refusal(tmp_path, nested("library.uri", "s3://evil/${AWS_SECRET_ACCESS_KEY}"))
    assert "cache.url in" in refusal(tmp_path, nested("cache.url", "redis://:${AWS_SECRET_ACCESS_KEY}@evil.example"))
    assert read(tmp_path, nested("library.uri", "${HOME}/library")).settings.library.uri == "/home/me/library"


@pytest.mark.parametrize(
    "options",
    [
        {"azure_federated_token_file": "/home/me/.ssh/id_rsa"}, {"azure_federated_token_file": "id_rsa"}, {"federated_token_file": "x"},
        {"azure_authority_host": "http://evil.example"}, {"aws_web_identity_token_file": "x"}, {"aws_endpoint_url_sts": "http://evil"},
        {"aws_container_authorization_token_file": "x"}, {"google_service_account": "/home/me/key.json"}, {"service_account_path": "x"},
        {"google_application_credentials": "x"}, {"azure_msi_endpoint": "http://evil.example"}, {"google_base_url": "http://evil"},
    ],
)  # fmt: skip
def test_a_store_of_the_working_folder_gets_no_file_and_no_token(tmp_path: Path, options: dict[str, str]) -> None:
    """The store's client would send the text of the file, or a token of the environment, to the address of the working folder."""
    text = nested("library", {"uri": "az://box/library", "storage_options": {"azure_storage_account_name": "acc", **options}})
    assert "may not decide where the credentials of your library's store are read, or sent" in refusal(tmp_path, text)
    read(tmp_path, "", text)
    plain = {"azure_storage_account_name": "acc", "google_service_account_key": "{}", "timeout": "60s", "allow_http": "true"}
    read(tmp_path, nested("library.storage_options", plain))


def test_a_named_file_must_exist_and_replaces_that_of_the_folder(tmp_path: Path) -> None:
    text = "run: {candidates: 7}"
    (tmp_path / "mine.yaml").write_text("library: {uri: books}")
    loaded = read(tmp_path, text, "ranking: {rrf_k: 3}", OUTRIDER_CONFIG="../mine.yaml")
    assert (loaded.settings.run.candidates, loaded.settings.ranking.rrf_k) == (100, 3)
    assert Path(loaded.settings.library.uri).resolve() == tmp_path / "books"
    assert f"{tmp_path}/work/none.yaml: no such file; --config and OUTRIDER_CONFIG" in refusal(tmp_path, text, OUTRIDER_CONFIG="none.yaml")
    assert "no such file" in refusal(tmp_path, text, OUTRIDER_CONFIG=str(tmp_path))
    assert read(tmp_path, text, OUTRIDER_CONFIG="").settings.run.candidates == 7


PLACES = st.sampled_from(["", "/f/search_config.yaml:1", "/user/search_config.yaml:1", "environment variable X", "flag"])


@given(st.sampled_from(sorted(KEY_ADDRESSES)), PLACES, PLACES, st.booleans(), st.booleans())
def test_exactly_these_combinations_are_refused(section: str, address: str, key: str, reads_address: bool, reads_key: bool) -> None:
    """Refused if the folder's file sets the address and either the key is set elsewhere or a variable is read."""
    reads = {"/f/search_config.yaml:1": ("X",)}
    variables = {
        f"{section}.{name}": Entry(value, where, reads.get(where, ()) if reading else ())
        for name, value, where, reading in (
            ("base_url", "evil.example", address, reads_address),
            ("api_key", "k", key, reads_key),
        )
        if where
    }
    of_folder = address.startswith("/f/")
    bad = of_folder and (reads_address or (bool(key) and not key.startswith("/f/")) or (key.startswith("/f/") and reads_key))
    if bad:
        with pytest.raises(SettingsError):
            check_untrusted_file(variables, "/f/search_config.yaml")
    else:
        check_untrusted_file(variables, "/f/search_config.yaml")


HASH = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("serve.api_keys", {"eve": HASH}),
        ("serve.cors_origins", "https://evil.example"),
        ("serve.allowed_hosts", "evil.example"),
    ],
)
def test_the_working_folder_does_not_decide_who_may_use_the_server(tmp_path: Path, name: str, value: object) -> None:
    message = refusal(tmp_path, nested(name, value))
    assert name in message
    assert "--config" in message
    section, _, field = name.partition(".")
    assert getattr(getattr(read(tmp_path, "", nested(name, value)).settings, section), field)


def test_the_working_folder_does_not_have_the_library_embedded_again(tmp_path: Path) -> None:
    """A search would replace the user's vectors by those of a model that the file names."""
    auto = nested("embedding.reindex", "auto")
    assert "may not decide that your library is embedded again" in refusal(tmp_path, auto)
    assert read(tmp_path, nested("embedding.reindex", "offer")).settings.embedding.reindex == "offer"
    assert read(tmp_path, "", auto).settings.embedding.reindex == "auto"
    assert read(tmp_path, auto, OUTRIDER_EMBEDDING__REINDEX="auto").settings.embedding.reindex == "auto", "the user's own word"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("threads.uri", "postgresql://evil.example/x"),
        ("jobs.uri", "postgresql://evil.example/x"),
        ("shared.redis_url", "redis://evil.example/0"),
        ("cache.url", "redis://evil.example/0"),
        ("tracing.endpoint", "https://evil.example"),
    ],
)
def test_the_working_folder_does_not_decide_where_searches_are_sent(tmp_path: Path, name: str, address: str) -> None:
    message = refusal(tmp_path, nested(name, address))
    assert f"{name} is set in" in message
    assert "OUTRIDER_" + name.upper().replace(".", "__") in message
    read(tmp_path, "", nested(name, address))


def test_the_working_folder_does_not_decide_which_cluster_does_the_work(tmp_path: Path) -> None:
    """Its answers are unpickled, which could run any code."""
    assert "may not decide which cluster does your work" in refusal(tmp_path, nested("cluster.address", "evil.example:6379"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("saved.uri", "theirs.sqlite"),
        ("saved.webhook_secret", "known to them"),
        ("learning.enabled", True),
        ("learning.file", "theirs.sqlite"),
    ],
)
def test_the_working_folder_does_not_decide_what_is_remembered_and_sent(tmp_path: Path, name: str, value: object) -> None:
    """Saved searches of a stranger would send what they find in the user's library to the stranger's webhook."""
    message = refusal(tmp_path, nested(name, value))
    assert "may not decide what is remembered of your searches, and who receives it" in message
    assert "known to them" not in message
    read(tmp_path, "", nested(name, value))


def test_the_working_folder_may_set_a_local_file_for_threads(tmp_path: Path) -> None:
    assert read(tmp_path, nested("threads.uri", "here.sqlite")).settings.threads.uri == "here.sqlite"
