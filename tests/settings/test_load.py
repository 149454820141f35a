"""Layers, references, and the locations that errors name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.settings.load import LoadedSettings, load
from outrider.settings.model import Settings
from outrider.settings.redact import redact
from outrider.settings.setting_names import leaves
from outrider.settings.yaml_file import expand
from outrider.state.errors import SettingsError


class Place:
    """A working folder and a user folder, each with its own file."""

    def __init__(self, root: Path) -> None:
        self.cwd, self.user = root / "work", root / "user"
        for folder in (self.cwd, self.user):
            folder.mkdir()

    def load(self, text: str = "", *, user: str = "", flags: dict[str, object] | None = None, **environ: str) -> LoadedSettings:
        (self.cwd / "search_config.yaml").write_text(text, encoding="utf-8")
        (self.user / "search_config.yaml").write_text(user, encoding="utf-8")
        return load(flags, environ=environ, cwd=self.cwd, user_dir=self.user)

    def refusal(self, text: str = "", **kwargs: object) -> str:
        with pytest.raises(SettingsError) as caught:
            self.load(text, **kwargs)  # type: ignore[arg-type]
        return str(caught.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_any_file_everything_is_a_default(tmp_path: Path) -> None:
    """No file, variable or flag: the defaults, each marked so."""
    loaded = load(environ={}, cwd=tmp_path, user_dir=tmp_path / "absent")
    assert loaded.settings == Settings()
    assert set(loaded.origins) == set(leaves())
    assert set(loaded.origins.values()) == {"default"}


def test_each_layer_wins_over_the_one_below(place: Place) -> None:
    """flag > environment > working folder > user folder > default, key by key."""
    text = "run:\n  candidates: 2\n"
    user = "run:\n  candidates: 1\nranking:\n  rrf_k: 3\n"
    assert place.load(user=user).settings.run.candidates == 1
    from_file = place.load(text, user=user)
    assert (from_file.settings.run.candidates, from_file.settings.ranking.rrf_k) == (2, 3)
    assert from_file.origins["run.candidates"] == f"{place.cwd}/search_config.yaml:2"
    assert from_file.origins["ranking.rrf_k"] == f"{place.user}/search_config.yaml:4"
    from_variable = place.load(text, user=user, OUTRIDER_RUN__CANDIDATES="4")
    assert from_variable.settings.run.candidates == 4
    assert from_variable.origins["run.candidates"] == "environment variable OUTRIDER_RUN__CANDIDATES"
    from_flag = place.load(text, user=user, flags={"run.candidates": 5, "ranking.rrf_k": None}, OUTRIDER_RUN__CANDIDATES="4")
    assert (from_flag.settings.run.candidates, from_flag.origins["run.candidates"]) == (5, "flag")


def test_the_library_has_a_short_variable_and_a_flag(place: Place) -> None:
    """OUTRIDER_LIBRARY sets library.uri; a flag is stronger; two variables that disagree are refused."""
    assert place.load(OUTRIDER_LIBRARY="s3://b/lib").settings.library.uri == "s3://b/lib"
    assert place.load(OUTRIDER_LIBRARY="a", flags={"library.uri": Path("b")}).settings.library.uri == "b"
    assert "set one of them" in place.refusal(OUTRIDER_LIBRARY="a", OUTRIDER_LIBRARY__URI="b")
    assert place.load(OUTRIDER_LIBRARY="a", OUTRIDER_LIBRARY__URI="a").settings.library.uri == "a"


@pytest.mark.parametrize(
    ("uri", "expected"), [("lib", "{cwd}/lib"), ("/abs/lib", "/abs/lib"), ("s3://bucket/lib", "s3://bucket/lib"), ("~/lib", "{home}/lib")]
)
def test_a_relative_library_in_a_file_is_relative_to_the_file(place: Place, uri: str, expected: str) -> None:
    """Addresses and absolute paths stay as they are."""
    library_uri = place.load(f"library: {{uri: '{uri}'}}").settings.library.uri
    assert library_uri == expected.format(cwd=place.cwd, home=Path.home())


@pytest.mark.parametrize(
    ("named", "expected"), [("law.md", "{folder}/law.md"), ("~/Law.Markdown", "{home}/Law.Markdown"), ("biomedical", "biomedical")]
)
def test_a_relative_domain_in_a_file_is_relative_to_the_file(place: Place, named: str, expected: str) -> None:
    """In the user's folder, too; a flag and a variable are taken from the working folder, and the name of a field is no path."""
    text = f"llm: {{domain: {named}}}"
    assert place.load(user=text).settings.llm.domain == expected.format(folder=place.user, home=Path.home())
    assert place.load(text).settings.llm.domain == expected.format(folder=place.cwd, home=Path.home())
    assert place.load(OUTRIDER_LLM__DOMAIN=named).settings.llm.domain == named
    assert place.load(flags={"llm.domain": named}).settings.llm.domain == named


@pytest.mark.parametrize(("text", "expected"), [("null", None), ("", None), ("0", 0.0), ("0.5", 0.5)])
def test_no_bound_on_cost_is_null_and_0_is_one(place: Place, text: str, expected: float | None) -> None:
    assert place.load(f"llm:\n  max_cost_usd: {text}\n").settings.llm.max_cost_usd == expected
    assert place.load("llm: {max_cost_usd: 3}", OUTRIDER_LLM__MAX_COST_USD=text).settings.llm.max_cost_usd == expected


def test_references_take_variables_and_defaults(place: Place) -> None:
    """A replaced value is read as YAML where a number is wanted; an empty variable takes the default, as in a shell."""
    text = "run:\n  run_timeout_s: ${T}\n  candidates: ${N:-7}\nlibrary:\n  uri: /x/${WHO:-me}/$${kept}\n"
    settings = place.load(text, T="2.5", N="").settings
    assert (settings.run.run_timeout_s, settings.run.candidates) == (2.5, 7)
    assert settings.library.uri == "/x/me/${kept}"


@pytest.mark.parametrize(
    ("value", "words"),
    [("${NOPE}", ("run.candidates", "NOPE", ":2")), ("${1x}", ("run.candidates", "${1x}")), ("${", ("run.candidates",))],
)
def test_a_reference_that_cannot_be_replaced_is_named(place: Place, value: str, words: tuple[str, ...]) -> None:
    """File, line, key and variable stand in the message."""
    message = place.refusal(f"run:\n  candidates: {value}\n" if value != "${" else "run:\n  candidates: 'a${'\n")
    assert all(word in message for word in ("search_config.yaml", *words))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runn:\n  candidates: 1\n", (":1", "'runn'", "'run'")),
        ("run:\n  candidate: 1\n", (":2", "'run.candidate'", "'run.candidates'")),
        ("candidates: 1\n", ("'candidates'", "'run.candidates'")),
        ("library:\n  candidates: 1\n", ("'library.candidates'", "'run.candidates'")),
        ("sources:\n  githup: {}\n", ("'sources.github'",)),
        ("1: 2\n", ("'1'",)),
        ("<<: {run: {}}\n", ("'<<'",)),
        ("zzzz: 1\n", ("'zzzz'", "library, run, embedding, ranking")),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(place: Place, text: str, words: tuple[str, ...]) -> None:
    """The message names the location and the probable meaning."""
    message = place.refusal(text)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("OUTRIDER_RUN__CANDIDATE", ("OUTRIDER_RUN__CANDIDATE", "'run.candidates'")),
        ("OUTRIDER_RUNN__CANDIDATES", ("'runn.candidates'", "'run.candidates'")),
        ("OUTRIDER_SOURCES__LIBRARY", ("group", "'sources.library'")),
        ("OUTRIDER___", ("unknown",)),
    ],
)
def test_an_unknown_variable_is_refused(place: Place, variable: str, words: tuple[str, ...]) -> None:
    """Only OUTRIDER_*__* are settings; a few others, such as OUTRIDER_DATA, are ignored."""
    message = place.refusal(**{variable: "1"})
    assert all(word in message for word in words), message
    assert place.load(OUTRIDER_DATA="x", OTHER__NAME="y").settings.run.candidates == 100


def test_what_kubernetes_sets_for_a_service_named_outrider_is_no_setting(place: Place) -> None:
    links = {
        "OUTRIDER_SERVICE_HOST": "10.0.0.7",
        "OUTRIDER_SERVICE_PORT": "80",
        "OUTRIDER_SERVICE_PORT_HTTP": "80",
        "OUTRIDER_PORT": "tcp://10.0.0.7:80",
        "OUTRIDER_PORT_80_TCP": "tcp://10.0.0.7:80",
        "OUTRIDER_PORT_80_TCP_ADDR": "10.0.0.7",
        "OUTRIDER_REDIS_SERVICE_HOST": "10.0.0.8",
        "OUTRIDER_REDIS_PORT": "tcp://10.0.0.8:6379",
    }
    assert place.load(**links, OUTRIDER_RUN__CANDIDATES="7").settings.run.candidates == 7
    assert "names no setting" in place.refusal(OUTRIDER_PORT="8080")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run:\n  candidates: '100'\n", (":2", "run.candidates", "a whole number", "'100'")),
        ("run:\n  candidates: many\n", ("a whole number", "'many'")),
        ("run:\n  candidates:\n", ("run.candidates", "nothing")),
        ("run:\n  candidates: 1.5\n", ("a whole number", "1.5")),
        ("run:\n  candidates: true\n", ("a whole number", "True")),
        ("run:\n  candidates: 0\n", ("greater than or equal to 1", "not 0")),
        ("run:\n  candidates: [1]\n", ("one value", "a list")),
        ("ranking:\n  fusion: rff\n", (":2", "ranking.fusion takes 'min_max' or 'rrf', not 'rff'")),
        ("ranking:\n  fusion: 5\n", ("'min_max' or 'rrf', not",)),
        ("ranking:\n  graph_weight: 0\n", ("greater than 0",)),
        ("run:\n  run_timeout_s: .nan\n", ("run.run_timeout_s",)),
        ("run:\n  run_timeout_s: .inf\n", ("less than or equal to 600",)),
        ("run:\n  run_timeout_s: 2024-13-45\n", ("run.run_timeout_s", "2024-13-45")),
        ("run: 5\n", ("run must be a mapping",)),
        ("sources: {library: {enabled: 1}}\n", ("true or false",)),
        ("library:\n  uri: ''\n", ("library.uri",)),
        ("library:\n  uri: !!python/name:os.system x\n", ("library.uri",)),
        ("library:\n  storage_options: 5\n", ("library.storage_options", "mapping")),
        ("stars:\n  emerging_min: 2000\n", (":2", "emerging_min (2000)", "emerging_max (1000)")),
        ("stars:\n  emerging_min: 600\n", (":2", "emerging_min (600)", "lightweight_max (500)")),
        ("llm:\n  max_cost_usd: much\n", (":2", "llm.max_cost_usd takes a number or null, not 'much'")),
        ("llm:\n  max_cost_usd: -1\n", ("greater than or equal to 0 or null",)),
        ("[1, 2]\n", ("must be a mapping", "a list")),
        ("just text\n", ("must be a mapping",)),
        ("run:\n  candidates: 1\n  candidates: 2\n", (":3", "twice", ":2")),
        ("run: &a {candidates: 1}\nranking: *a\n", (":2", "aliases")),
        ("run:\n  candidates: [1\n", ("not YAML", "search_config.yaml:")),
        ("run:\n\tcandidates: 1\n", (":2", "not YAML")),
        ("a: 1\n---\nb: 2\n", ("not YAML",)),
        ("[" * 5000, ("nested too deeply",)),
        ("run: \x00\n", ("not YAML",)),
        ("? [a]\n: 1\n", ("a key must be a name",)),
    ],
)
def test_a_wrong_value_names_place_key_and_what_is_expected(place: Place, text: str, words: tuple[str, ...]) -> None:
    """Whatever a file holds, the answer is one message and no traceback."""
    message = place.refusal(text)
    assert all(word in message for word in ("search_config.yaml", *words)), message


def test_a_choice_is_read_from_every_layer(place: Place) -> None:
    """As a text, in a file, a variable and a flag."""
    assert place.load("ranking:\n  fusion: rrf\n").settings.ranking.fusion == "rrf"
    assert place.load(OUTRIDER_RANKING__FUSION="rrf").settings.ranking.fusion == "rrf"
    assert place.load(flags={"ranking.fusion": "rrf"}).settings.ranking.fusion == "rrf"


def test_a_wrong_variable_names_itself(place: Place) -> None:
    """The same message with the variable as the place; all wrong values are named at once."""
    message = place.refusal(OUTRIDER_RUN__CANDIDATES="many", OUTRIDER_RANKING__RRF_K="0")
    assert "environment variable OUTRIDER_RUN__CANDIDATES: run.candidates takes a whole number, not 'many'" in message
    assert "OUTRIDER_RANKING__RRF_K" in message


def test_a_file_that_is_not_utf8_or_too_large_is_refused(place: Place) -> None:
    """The byte, or the limit, is named."""
    file = place.cwd / "search_config.yaml"
    file.write_bytes(b"run: {} # \xff\n")
    with pytest.raises(SettingsError, match="UTF-8; byte 10"):
        load(environ={}, cwd=place.cwd, user_dir=place.user)
    file.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(SettingsError, match="at most"):
        load(environ={}, cwd=place.cwd, user_dir=place.user)


def test_empty_groups_and_files_change_nothing(place: Place) -> None:
    """`run:` with nothing below it, comments, a byte order mark."""
    assert place.load("\ufeff# nothing\n").settings == Settings()
    assert place.load("run:\nsources:\n  library:\nlibrary: {storage_options: {}}\n").settings == Settings()


def test_options_of_an_object_store_come_from_every_layer(place: Place) -> None:
    """They are texts, merged key by key, and their names are the user's."""
    text = "library:\n  storage_options:\n    allow_http: true\n    aws.secret: ${KEY}\n    region: here\n"
    variables = {"OUTRIDER_LIBRARY__STORAGE_OPTIONS": '{"region": "there", "retries": 3}', "OUTRIDER_LIBRARY__STORAGE_OPTIONS__MORE": "yes"}
    loaded = place.load(text, KEY="s3cret", **variables)
    options = {key: value.get_secret_value() for key, value in loaded.settings.library.storage_options.items()}
    assert options == {"allow_http": "true", "aws.secret": "s3cret", "region": "there", "retries": "3", "more": "yes"}
    assert loaded.origins["library.storage_options.region"].endswith("OUTRIDER_LIBRARY__STORAGE_OPTIONS")


@pytest.mark.parametrize("section", ["embedding", "reranker"])
def test_a_key_must_fit_into_an_http_header(place: Place, section: str) -> None:
    """A block scalar and a mounted file end with a line break, which no key holds."""
    loaded = place.load(f"{section}:\n  api_key: |\n    sk-secret\n")
    assert getattr(loaded.settings, section).api_key.get_secret_value() == "sk-secret"
    for key in ("sk-secr\u00e9t", "sk-\u2028secret", "sk-\\nsecret", "sk-\\0secret"):
        message = place.refusal(f'{section}:\n  api_key: "{key}"\n')
        assert message == f"{place.cwd}/search_config.yaml:2: {section}.api_key contains a character that an HTTP header cannot carry"


def test_secrets_are_never_shown(place: Place) -> None:
    """Neither in what is shown, nor in repr, nor in a message about a wrong value."""
    loaded = place.load("library:\n  uri: s3://me:pass@host/x\n  storage_options: {key: s3cret, empty: ''}\n")
    redacted = redact(loaded.settings)
    assert redacted["library"]["uri"] == "s3://********@host/x"
    assert redacted["library"]["storage_options"] == {"key": "********", "empty": ""}
    for address, shown in (
        ("postgresql://host/x?password=s3cret", "postgresql://host/x?password=********"),
        ("postgresql://me:12/34@host/x", "postgresql://********@host/x"),
    ):
        database = place.load(OUTRIDER_THREADS__URI=address)
        assert redact(database.settings)["threads"]["uri"] == shown
    assert "s3cret" not in repr(loaded) + str(redacted)
    message = place.refusal(OUTRIDER_LIBRARY__STORAGE_OPTIONS='{"key": ["s3cret"]}')
    assert "library.storage_options.key" in message
    assert "s3cret" not in message


def test_an_unknown_flag_is_refused(place: Place) -> None:
    """A flag is checked like a file."""
    assert "'run.candidates'" in place.refusal(flags={"run.candidate": 3})
    assert "flag: run.candidates takes a whole number" in place.refusal(flags={"run.candidates": "3"})


@given(st.text(max_size=40), st.dictionaries(st.sampled_from(["A", "B_1"]), st.text(max_size=5)))
def test_text_without_a_dollar_is_unchanged(text: str, environ: dict[str, str]) -> None:
    """Expansion touches references only, and `$$` is a literal dollar."""
    assert expand(text.replace("$", "$$"), environ) == text


@pytest.mark.parametrize(
    ("variable", "suggestion"), [("OUTRIDER_LIBARY", "OUTRIDER_LIBRARY"), ("OUTRIDER_RUN_CANDIDATES", "OUTRIDER_RUN__CANDIDATES")]
)
def test_a_misspelt_variable_of_ours_is_refused(place: Place, variable: str, suggestion: str) -> None:
    with pytest.raises(SettingsError, match=f"{variable} names no setting; did you mean {suggestion}"):
        place.load(**{variable: "x"})


def test_a_variable_of_a_source_that_is_not_built_is_kept(place: Place) -> None:
    loaded = place.load(OUTRIDER_SOURCES__GITHUB__BASE_URL="http://127.0.0.1:9")
    assert loaded.settings.sources.github.base_url == "http://127.0.0.1:9"
