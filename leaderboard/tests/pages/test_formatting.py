from __future__ import annotations

import pytest
from django.template import Context, Template
from hypothesis import given
from hypothesis import strategies as st

from evaluation.content.suites import ticks
from leaderboard import formatting

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, f">{NBSP}20"), (7.34, "7.3"), (0, "0.0"), (19.96, "20.0")],
)
def test_a_half_life_reads_as_trips_or_as_beyond_the_suite(value, text):
    assert formatting.half_life(value, 20) == text


def test_an_unreached_bound_is_marked():
    assert formatting.half_life_interval(6.1, 8.84, 20) == "6.1–8.8"
    assert formatting.half_life_interval(17.2, None, 20) == f"17.2 to >{NBSP}20"
    assert formatting.half_life_interval(None, None, 20) == ""


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0, "0 %"),
        (1, "100 %"),
        (0.624, "62 %"),
        (0.002, "< 1 %"),
        (0.998, "> 99 %"),
        (-0.05, "−5 %"),
    ],
)
def test_a_small_share_never_reads_as_zero(share, text):
    assert formatting.percent(share) == text.replace(" ", NBSP)


# Sums of many floats may miss 1 by a rounding error: that is everything, too.
@given(st.floats(0, 1 - 1e-8, exclude_min=True))
def test_only_zero_reads_as_0_and_only_one_as_100(share):
    assert formatting.percent(share) not in (f"0{NBSP}%", f"100{NBSP}%")


def test_retention_is_described_in_words():
    assert formatting.kept(0.62, 0.55, 0.69) == f"keeps 62{NBSP}% (55–69) of the image"
    assert formatting.kept(0.62) == f"keeps 62{NBSP}% of the image"
    assert "blank card" in formatting.kept(-0.2, -0.3, 0.1)
    assert formatting.after_round_trips(1) == "after 1 round trip"
    assert formatting.in_trips(1.0, 20) == "1.0 round trip"
    assert formatting.in_trips(None, 20) == "more than 20 round trips"


def test_an_interval_below_zero_does_not_read_as_a_range_of_dashes():
    assert formatting.interval(-0.3, 0.1, 100, 0) == "−30 to 10"
    assert formatting.interval(None, 0.1) == ""


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (None, "–"),
        (0, "free"),
        (0.039, "$0.039"),
        (0.1, "$0.10"),
        (0.29, "$0.29"),
        (0.134, "$0.134"),
        (0.00031, "$0.00031"),
        (1.5, "$1.50"),
    ],
)
def test_prices_keep_the_digits_that_matter(price, text):
    assert formatting.usd(price) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.004, "4 ms"), (0.42, "0.4 s"), (12.3, "12 s"), (150, "2.5 min")],
)
def test_times_read_in_a_fitting_unit(value, text):
    assert formatting.seconds(value) == text.replace(" ", NBSP)


@pytest.mark.parametrize("trips", [1, 3, 5, 10, 20, 37, 100])
def test_ticks_end_with_the_last_trip_and_never_pass_it(trips):
    numbers = ticks(trips)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == trips


def test_an_unregistered_metric_still_has_a_name():
    assert formatting.metric_label("lpips") == "LPIPS"
    assert formatting.metric_label("some_thing") == "SOME THING"


def test_long_lists_are_cut():
    assert formatting.listed([]) == ""
    assert formatting.listed(["A"]) == "A"
    assert formatting.listed(["A", "B", "C"]) == "A, B and C"
    assert formatting.listed(list("ABCDE")) == "A, B, C and 2 more"


TABLE = """{% load formatting %}{% scroll_table name "heat" axis=axis %}
  <table>
    <tbody>
      <tr>
        <th scope="row">
          {{ name }}
        </th>
        <td> <b>2.0</b> <small>1.7–2.4</small> </td>
      </tr>
    </tbody>
  </table>
{% endscroll_table %}"""


def test_a_table_is_a_region_with_a_name_and_words_in_its_cells_stay_apart():
    context = Context({"name": "<i> > </i>", "axis": [0, 5, 10]})
    assert Template(TABLE).render(context) == (
        '<div class="table heat steps-2" tabindex="0" role="region"'
        ' aria-label="&lt;i&gt; &gt; &lt;/i&gt;">'
        '<table><tbody><tr><th scope="row">&lt;i&gt; &gt; &lt;/i&gt;</th>'
        "<td><b>2.0</b> <small>1.7–2.4</small></td></tr></tbody></table></div>"
    )
