"""The shipped rows: each loads, states what it needs, and names no retired model."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from evaluation.content.catalog import editing_models
from evaluation.editors import EditorError, Fault, find_row, load_row
from evaluation.editors.providers.base import HostedEditor
from evaluation.editors.sizes import SizeRule
from evaluation.images import is_reframed

ROWS = editing_models()
HOSTED = [row for row in ROWS if row["access"] == "api"]
GONE = {
    "gpt-image-1",
    "dall-e-2",
    "dall-e-3",
    "gemini-3-pro-image-preview",
    "gemini-3.1-flash-image-preview",
}
KEYS = re.compile(r"(?i)(sk-|AIza|r8_|key-)[A-Za-z0-9]{8,}")
WORKING = [(1024, 1024), (1024, 768), (768, 1024), (1008, 672), (672, 1008), (1024, 576)]


def name_of(row: dict[str, Any]) -> str:
    return str(row["slug"])


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_every_row_is_complete(row: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z0-9-]+", row["slug"])
    assert all(row[field] for field in ("name", "provider", "organisation", "licence"))
    assert row["access"] in ("api", "local", "reference")
    assert row["is_reference"] == (row["access"] == "reference")
    assert row["max_in_flight"] >= 1
    assert not KEYS.search(json.dumps(row))
    if row["price_per_edit"] is not None:
        assert 0 < float(row["price_per_edit"]) < 1
        assert re.fullmatch(r"2026-\d\d-\d\d", row["price_date"])
        assert row["price_source"]


def test_no_slug_or_name_occurs_twice() -> None:
    assert len({row["slug"] for row in ROWS}) == len({row["name"] for row in ROWS}) == len(ROWS)


def test_no_model_that_was_shut_down_is_listed() -> None:
    assert not GONE & {row["options"].get("model") for row in ROWS}


@pytest.mark.parametrize("row", HOSTED, ids=name_of)
def test_every_hosted_row_loads_and_names_its_key(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = load_row(row)
    assert isinstance(editor, HostedEditor)
    for variable in editor.key_variables:
        monkeypatch.delenv(variable, raising=False)
    (missing,) = editor.missing()
    assert editor.key_variables[0] in missing
    json.dumps(editor.describe())
    if row["price_per_edit"] is not None:
        assert editor.price == float(row["price_per_edit"])
        assert editor.price_date == row["price_date"]


@pytest.mark.parametrize(
    "row", [row for row in HOSTED if "step" in (row["options"].get("size") or {})], ids=name_of
)
def test_a_free_size_keeps_the_shape_of_every_working_size(row: dict[str, Any]) -> None:
    rule = SizeRule.from_row(row["options"]["size"])
    assert rule is not None
    for size in WORKING:
        asked = rule.nearest(size)
        assert not is_reframed(asked, size)
        assert rule.nearest(asked) == asked, "the second trip asks for what the first one got"


@pytest.mark.parametrize(
    "row", [row for row in HOSTED if "ratios" in (row["options"].get("size") or {})], ids=name_of
)
def test_the_ratios_cover_every_working_shape(row: dict[str, Any]) -> None:
    rule = SizeRule.from_row(row["options"]["size"])
    assert rule is not None
    found = [rule.nearest_ratio(size) for size in WORKING]
    assert found == ["1:1", "4:3", "3:4", "3:2", "2:3", "16:9"]


def test_a_row_is_found_by_slug_and_by_the_models_own_name() -> None:
    row = find_row(ROWS, "gemini-3-1-flash-image")
    assert find_row(ROWS, "gemini-3.1-flash-image") is row
    assert find_row(ROWS, "Nano Banana 2") is row
    assert find_row(ROWS, "black-forest-labs/FLUX.1-Kontext-dev")["slug"] == "flux-1-kontext-dev"
    with pytest.raises(EditorError, match="flux-2-pro") as caught:
        find_row(ROWS, "flux-9")
    assert caught.value.fault is Fault.CONFIGURATION


def test_invalid_options_name_their_row() -> None:
    for options in ({"model": "m", "colour": 1}, {}, {"model": "m", "size": {"ratios": ["4/3"]}}):
        with pytest.raises(EditorError, match="of mine are not valid") as caught:
            load_row({"slug": "mine", "editor": "bfl", "options": options})
        assert caught.value.permanent
