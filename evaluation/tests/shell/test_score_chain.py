"""What `score-chain` tells of a chain by the measures that end it."""

import json

import pytest

from evaluation.__main__ import main
from evaluation.metrics import load_metric
from evaluation.statistics.events import CAUSES


@pytest.fixture
def told(hat_chain, capsys):
    if missing := load_metric("picture").missing():
        pytest.skip("; ".join(missing))
    arguments = ["score-chain", str(hat_chain.folder), "--no-report", "--json"]
    assert main([*arguments, "--metrics", "picture,lpips,place,colour,identity"]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_trip_says_by_what_least_is_kept_and_where(told):
    metrics = told["metrics"]
    assert list(metrics) == ["picture", "lpips", "place", "colour", "identity"]
    for number, trip in enumerate(told["trips"]):
        kept = {
            name: metrics[name]["retention"][number]
            for name in ("lpips", "place", "colour", "identity")
            if metrics[name]["retention"]
        }
        assert trip["because"] == min(kept, key=kept.__getitem__)
        assert metrics["picture"]["retention"][number] == pytest.approx(min(kept.values()))
        left, top, right, bottom, least = trip["worst_place"]
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        assert least == pytest.approx(kept["place"], abs=1e-5)
        assert trip["undo"] < 1  # the hat was somewhere


def test_every_metric_says_when_the_chain_ended_and_by_what(told):
    for metric in told["metrics"].values():
        assert metric["event"] is None or metric["event"]["cause"] in (*CAUSES, None)
    kept = told["metrics"]["picture"]["retention"]
    crossed = [n for n, q in enumerate(kept) if q <= 0.5]
    event = told["metrics"]["picture"]["event"]
    if crossed:
        because = told["trips"][crossed[0]]["because"]
        assert event["cause"] == {"lpips": "whole"}.get(because, because)
        assert crossed[0] < event["time"] <= crossed[0] + 1
    else:
        assert event == {"time": 3.0, "cause": None, "recovered": False}
    assert told["metrics"]["place"]["event"]["cause"] in ("place", None)
