import json

import pytest

from evaluation.metrics import load_metric
from tools import examples


@pytest.mark.slow
def test_the_examples_of_the_methodology_page_are_drawn(tmp_path, monkeypatch):
    if missing := load_metric("lpips").missing():
        pytest.skip("; ".join(missing))
    monkeypatch.setattr(examples, "SIZE", 128)
    assert examples.main(["--folder", str(tmp_path)]) == 0
    made = json.loads((tmp_path / "examples.json").read_text())
    assert set(made) == {"half", "seen", "cards", "noop"}
    assert (tmp_path / "astronaut-source.webp").is_file()
