"""Licences in one form, and those under which a text is not read."""

from __future__ import annotations

import pytest

from outrider.full_text.licences import explain_refusal, is_reusable, normal_licence

FORMS = {
    "http://creativecommons.org/licenses/by/4.0/": "cc-by-4.0",
    "https://creativecommons.org/licenses/by-nc-nd/3.0/legalcode": "cc-by-nc-nd-3.0",
    "CC BY": "cc-by",
    "CCBY 4.0": "cc-by-4.0",
    "CCC RightsLink": "ccc rightslink",
    "cc-by-nc-sa": "cc-by-nc-sa",
    "CC BY-NC 4.0": "cc-by-nc-4.0",
    "This is open access under the Creative Commons Attribution Non-Commercial License": "cc-by-nc",
    "CC0": "cc0",
    "https://creativecommons.org/publicdomain/zero/1.0/": "cc0",
    "public-domain": "public-domain",
    "pd": "public-domain",
    "http://arxiv.org/licenses/nonexclusive-distrib/1.0/": "arxiv-nonexclusive-distrib",
    "publisher-specific-oa": "publisher-specific-oa",
    "TDM": "tdm",
    "": "",
}


@pytest.mark.parametrize("text", FORMS)
def test_each_way_to_write_a_licence_has_one_form(text: str) -> None:
    assert normal_licence(text) == FORMS[text]
    assert normal_licence(normal_licence(text)) == FORMS[text]


@pytest.mark.parametrize(
    "text", ["© 2020 Elsevier. All rights reserved.", "No text and data mining", "closed", "TDM reserved", "may not be copied"]
)
def test_a_licence_that_forbids_reading_is_refused(text: str) -> None:
    assert "forbids" in explain_refusal(text, "open")


@pytest.mark.parametrize(
    "text", ["publisher-specific-oa", "tdm", "other-oa", "implied-oa", "http://www.elsevier.com/open-access/userlicense/1.0/", ""]
)
def test_an_open_text_without_a_known_licence_is_read_unless_the_settings_want_one(text: str) -> None:
    assert explain_refusal(text, "open") == ""
    assert bool(explain_refusal(text, "stated")) == (not text)
    assert explain_refusal(text, "reusable")


def test_a_creative_commons_licence_prevails_over_the_words_beside_it() -> None:
    assert explain_refusal("© 2020. All rights reserved. CC BY 4.0", "reusable") == ""
    assert is_reusable("cc-by-nc-nd")
    assert not is_reusable("tdm")
    assert not is_reusable(normal_licence("CCC (Copyright Clearance Center)"))
