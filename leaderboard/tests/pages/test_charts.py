from __future__ import annotations

import json
import re

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.pages.charts import Chart, Curve, plain, retention_curves, retention_table
from leaderboard.templatetags.drawings import figure_json

EVIL = "<a href='javascript:alert(1)'>x</a></script>%{x}&"
CURVE = {
    "mean": [1.0, 0.80004999, 0.6, -0.1],
    "low": [1.0, 0.7, 0.5, -0.2],
    "high": [1.0, 0.9, 0.7, 0.05],
}


def validated(figure):
    """The figure as plotly's own schema sees it; colours of the theme filled in."""
    text = re.sub(r'"var\([^"]*\)"', '"#123456"', json.dumps(figure, allow_nan=False))
    return go.Figure(json.loads(text))


def test_curves_are_a_valid_figure_with_a_band_per_model():
    curves = [Curve.from_json("A", CURVE), Curve.from_json("Y", CURVE, reference=True)]
    figure = validated(retention_curves(curves, 3))
    band, line, reference = figure.data
    assert band.fill == "toself"
    assert (line.name, reference.name) == ("A", "Y")
    assert reference.mode == "lines"
    assert figure.layout.xaxis.tickvals == (0, 1, 2, 3)
    assert {shape.y0 for shape in figure.layout.shapes} == {0, 0.5}


def test_hover_text_states_the_value_in_words():
    figure = retention_curves([Curve.from_json("A", CURVE)], 3)
    texts = figure["data"][1]["text"]
    assert texts[0] == "the source itself"
    assert texts[2] == "after 2 round trips keeps 60\u00a0% (50–70) of the image"
    assert "blank card" in texts[3]


def test_a_model_may_fall_below_the_blank_card_and_still_be_seen():
    low, _ = retention_curves([Curve.from_json("A", CURVE)], 3)["layout"]["yaxis"]["range"]
    assert low < -0.1


def test_ten_models_all_look_different():
    figure = retention_curves([Curve.from_json(f"M{n}", CURVE) for n in range(12)], 3)
    lines = [trace for trace in figure["data"] if "marker" in trace]
    looks = {(t["line"]["color"], t["line"]["dash"], t["marker"]["symbol"]) for t in lines}
    assert len(looks) == 12


def test_untrusted_names_are_text_everywhere():
    figure = retention_curves([Curve.from_json(EVIL, CURVE)], 3)
    assert "<a" not in json.dumps(figure)
    page = figure_json(Chart("c", EVIL, figure, retention_table([], 3)))
    assert page.count("</script>") == 1
    assert "%{x}" not in json.dumps([trace["hovertemplate"] for trace in figure["data"][1:]])


@given(st.text(max_size=40))
def test_plain_text_never_opens_a_tag(text):
    assert "<" not in plain(text)


def test_figures_carry_four_decimals_and_no_spaces():
    figure = retention_curves([Curve.from_json("A", CURVE)], 3)
    assert figure["data"][1]["y"] == [1.0, 0.8, 0.6, -0.1]
    assert '": ' not in figure_json(Chart("c", "t", figure, retention_table([], 3)))


@pytest.mark.parametrize("curve", [{}, {"mean": [1.0, None]}, {"mean": [1.0], "low": [None]}])
def test_gaps_in_curves_are_not_drawn(curve):
    figure = validated(retention_curves([Curve.from_json("A", curve)], 1))
    assert len(figure.data) == 1


def test_the_table_states_what_was_not_run():
    table = retention_table([Curve.from_json("A", CURVE), Curve.from_json("B", {})], 3)
    assert table.head[1] == "after 1 round trip"
    assert table.rows[0][2] == "60\u00a0% (50–70)"
    assert set(table.rows[1][1:]) == {"not run"}
