"""Untrusted text in files and on pages never becomes a formula, a script or a secret."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from evaluation.errors import EditorError
from evaluation.records import ModelRecord
from evaluation.untrusted_json import can_be_stored
from leaderboard import endpoints
from leaderboard.models import EditPair
from leaderboard.testing.submission_fields import form_fields
from leaderboard.text import plain_text, safe_cell, secret_names

FORMULAS = [
    *("=cmd|'/C calc'!A0", "+1+cmd", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1+1", "\r=1+1"),
    *("\n=1", " =1+1", "|calc", "%0A", "-1 and more"),
    *("\u200b=1+1", "\ufeff\u2060@SUM(1)", "\u00ad\u034f+cmd", "\u3164-1 and", "\u2800=1", "\0=1"),
    *("\uff1d1+1", "\uff0bcmd", "\uff0dcmd", "\uff20SUM(1)", "\ufe66cmd", "\u200b\uff1d1"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_could_be_a_formula_is_a_text(text):
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", ["-1", "-1.5", "1e-5", "+2", "a=b", "", None, -1, 2.5, "Ünï", "\u200b", "名=1"]
)
def test_numbers_and_names_stay_as_they_are(value):
    assert safe_cell(value) == value


@given(st.text())
def test_no_cell_begins_a_formula(text):
    cell = safe_cell(text)
    assert cell == text or cell == f"'{text}"
    if not cell.startswith("'"):
        shown = plain_text(unicodedata.normalize("NFKC", cell))
        assert shown[:1] not in set("=@|%")


@pytest.mark.django_db
@pytest.mark.parametrize("text", FORMULAS[:4])
def test_the_admins_export_has_no_formula(admin_client, text):
    EditPair.objects.create(
        slug="hostile", title=text, category="text", forward=text, backward="Back.", change="global"
    )
    answer = admin_client.post(
        reverse("admin:leaderboard_editpair_export"),
        {"format": "0", "resource": "", "editpairresource_title": "on"},
    )
    content = answer.content.decode()
    assert f"'{text}" in "\n".join(cell for row in csv.reader(io.StringIO(content)) for cell in row)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "ftp://x", "https://a b", "//x", "x"]
)
def test_a_bundle_links_only_to_web_addresses(address):
    (found,) = ModelRecord.model_fields["paper_url"].metadata
    assert re.search(found.pattern, address) is None
    assert re.search(found.pattern, "https://example.org/paper?x=1")
    assert re.search(found.pattern, "")


# Secrets of submitters and of the site.


@pytest.mark.parametrize(
    "extra",
    [
        {"api_key": 1},
        {"a": {"api_key": "x"}},
        {"a": [{"b": [{"Authorization": "Bearer x"}]}]},
        {"headers": {"Cookie": "x"}},
        json.loads('{"a":' * 30 + "1" + "}" * 30),
    ],
)
def test_a_secret_is_found_however_deep(extra):
    assert secret_names(extra)


def test_parameters_of_models_are_not_secrets():
    assert not secret_names({"guidance": 4, "loras": [{"path": "x", "scale": 1.0}]})


@pytest.mark.django_db
@pytest.mark.parametrize(
    "extra",
    [
        *(
            '{"a": {"api_key": "x"}}',
            '{"a": [{"api_key": "x"}]}',
            '{"a": "\\u0000"}',
            '{"\\ud800": 1}',
        ),
        *(
            '{"a": ["\\udfff"]}',
            '{"a": 1e999}',
            '{"a": [-1e999]}',
            '{"a": NaN}',
            '{"a": 1%s}' % ("0" * 400),
        ),
    ],
)
def test_the_form_refuses_secrets_and_impossible_letters_anywhere(client, suite, extra):
    answer = client.post(reverse("submit"), form_fields(suite, extra=extra))
    assert answer.status_code == 422
    assert 'id="error-extra"' in answer.content.decode()


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_can_be_stored_can_be_encoded(value):
    if can_be_stored(value):
        text = json.dumps(value, ensure_ascii=False)
        assert "\\u0000" not in text
        text.encode()


@pytest.mark.parametrize(
    ("editor", "url", "goes"),
    [
        ("openai-images", "https://api.openai.com/v1", True),
        ("openai-images", "https://evil.example/v1", False),
        ("openai-images", "https://api.openai.com.evil.example/v1", False),
        ("openai-images", "https://api.openai.com@evil.example/v1", False),
        ("openai-images", "http://127.0.0.1:9/v1", False),
        ("ark", "https://ark.cn-beijing.volces.com/api/v3", True),
        ("gemini", "https://proxy.example.org/x", True),
        ("bfl", "https://proxy.example.org/x", True),
        ("noise", "https://evil.example", True),  # has no key to send
    ],
)
def test_a_providers_key_is_sent_only_to_hosts_in_the_settings(settings, editor, url, goes):
    settings.PROVIDER_HOSTS = ["proxy.example.org"]
    if goes:
        endpoints.check_key_destination(editor, {"base_url": url})
    else:
        with pytest.raises(EditorError, match="PROVIDER_HOSTS"):
            endpoints.check_key_destination(editor, {"base_url": url})
