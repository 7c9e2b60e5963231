import json

import pytest

from evaluation.metrics import load_metric
from evaluation.metrics.overall import Overall
from tools import examples

STORED = json.loads((examples.FOLDER / "examples.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_examples_of_the_methodology_page_are_drawn(tmp_path, monkeypatch):
    if missing := load_metric("overall").missing():
        pytest.skip("; ".join(missing))
    monkeypatch.setattr(examples, "SIZE", 128)
    monkeypatch.setattr(examples, "STRIPS", examples.STRIPS[:1])
    assert examples.main(["--folder", str(tmp_path)]) == 0
    made = json.loads((tmp_path / "examples.json").read_text())
    assert set(made) == {"strips", "cards", "noop"}
    assert (tmp_path / "astronaut-source.webp").is_file()
    assert (tmp_path / "strip-01.webp").is_file()


@pytest.mark.slow
def test_the_number_of_each_strip_is_up_to_date(real_network):
    if len(Overall().parts) < 9:
        pytest.skip("the networks of faces or text are not here")
    measured = examples.measure_strips()
    assert [strip["words"] for strip in STORED["strips"]] == [s.words for s in examples.STRIPS]
    for stored, now in zip(STORED["strips"], measured, strict=True):
        assert now["kept"] == pytest.approx(stored["kept"], abs=0.01), stored["words"]
        assert now["because"] == stored["because"], stored["words"]
