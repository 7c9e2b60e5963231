"""`score` with a folder of chains, and with a folder of models."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from evaluation.__main__ import main
from evaluation.images import EncodedImage
from evaluation.metrics.parts import Object
from evaluation.testing.twin import scene

FAST = ["--metrics", "psnr"]


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def chain(folder, image, wear, trips=2):
    """Write a chain with a random source image, worn at the rate `wear`."""
    folder.mkdir(parents=True)
    small = np.random.default_rng(image).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    drawn = Image.fromarray(small).resize((64, 48))
    drawn.save(folder / "I0_source.png")
    for number in range(1, trips + 1):
        worn = drawn.filter(ImageFilter.GaussianBlur(wear * number))
        (folder / f"I{number}_backward.png").write_bytes(EncodedImage.from_image(worn).data)


def told(folder, capsys, *more):
    assert main(["score", str(folder), *FAST, "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_folder_of_chains_is_one_run_with_an_interval(tmp_path, capsys):
    for number in range(12):
        chain(tmp_path / f"mine/chain-{number:02}", image=number, wear=1 + number % 4)
    found = told("mine", capsys)
    result = found["runs"]["mine"]["results"]["psnr"]
    assert result["summary"]["chains"] == result["summary"]["cases"] == 12
    assert result["bounds"]["usable_trips"] is not None
    assert Path(found["report"]) == Path("mine/mine-report/index.html")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert str(tmp_path) not in Path(found["report"]).read_text()
    assert sorted(found["runs"]["mine"]["chains"].values())[0] == "chain-00"
    assert main(["score", "mine", *FAST]) == 0  # the folder of the report is not a chain
    said = capsys.readouterr().out
    assert "12 cases, 12 chains of 2 trips" in said
    assert said.endswith(f"The report is {found['report']}\n")


def test_folders_of_models_are_compared_on_the_cases_that_they_share(tmp_path, capsys):
    for number in range(4):
        chain(tmp_path / f"models/gentle/c{number}", image=number, wear=0.2)
        chain(tmp_path / f"models/rough/c{number}", image=number, wear=20)
    found = told("models", capsys)
    assert [(row["run"], row["complete"]) for row in found["ranks"]] == [
        ("gentle", True),
        ("rough", True),
    ]
    assert len(found["suite"]["cases"]) == 4
    assert main(["score", "models", *FAST, "--no-report"]) == 0
    assert "rank" in capsys.readouterr().out


def test_chains_with_the_same_source_and_described_edit_are_repeats_of_a_case(tmp_path, capsys):
    for number in range(3):
        chain(tmp_path / f"mine/c{number}", image=0, wear=1)
    for more, cases in (([], 3), (["--forward", "Add a hat.", "--object", "hat"], 1)):
        found = told("mine", capsys, *more, "--no-report")
        assert len(found["suite"]["images"]) == 1
        assert len(found["suite"]["cases"]) == cases
        assert len(found["runs"]["mine"]["chains"]) == 3


def test_chains_are_cut_to_the_shortest(tmp_path, capsys):
    chain(tmp_path / "mine/short", image=0, wear=1, trips=1)
    chain(tmp_path / "mine/long", image=1, wear=1, trips=3)
    assert told("mine", capsys, "--no-report")["suite"]["trips"] == 1


def test_an_invalid_chain_among_many_is_named_by_its_folder(tmp_path, capsys):
    chain(tmp_path / "mine/good", image=0, wear=1)
    chain(tmp_path / "mine/bad", image=1, wear=1)
    (tmp_path / "mine/bad/I1_backward.png").unlink()
    assert main(["score", "mine", *FAST]) == 1
    assert "mine/bad" in capsys.readouterr().err
    (tmp_path / "empty/inside").mkdir(parents=True)
    assert main(["score", "empty"]) == 1
    assert "no folder of a chain" in capsys.readouterr().err


def test_a_source_of_one_colour_is_reported_without_a_crash(tmp_path, capsys):
    chain(tmp_path / "flat", image=0, wear=1)
    Image.new("RGB", (64, 48), "teal").save(tmp_path / "flat/I0_source.png")
    for more in ([], ["--no-report"], ["--json"]):
        assert main(["score", "flat", *FAST, *more]) == 0
    assert "No metric can be computed" in capsys.readouterr().out
    (tmp_path / "many").mkdir()
    (tmp_path / "flat").rename(tmp_path / "many/flat")
    assert main(["score", "many", *FAST]) == 0
    assert "No metric can be computed" in capsys.readouterr().out


def test_furniture_replaced_at_the_first_edit_ends_the_chain_there(tmp_path, capsys):
    """A thing destroyed by the first edit stays lost, whatever comes after."""
    source = scene()
    images = {"I0_source": source}
    for trip in (1, 2, 3):
        # Each trip replaces the ball by a lamp, and the lamp by a box.
        for name, box, colour in (
            (f"I{trip}_forward", (60, 60, 92, 170), (210, 190, 60)),
            (f"I{trip}_backward", (45, 100, 105, 170), (70, 150, 90)),
        ):
            images[name] = source.copy()
            draw = ImageDraw.Draw(images[name])
            draw.rectangle((35, 85, 115, 150), (196, 178, 150))
            draw.rectangle((35, 151, 115, 172), (120, 84, 58))
            draw.rectangle(box, colour)
    (tmp_path / "room").mkdir()
    for name, image in images.items():
        image.save(tmp_path / f"room/{name}.png")
    assert main(["score", "room", "--metrics", "overall", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]["room"]
    (event,) = found["results"]["overall"]["events"].values()
    assert event["cause"] == Object.name
    assert Object.ended == "an object is gone or changed"
    assert event["time"] < 1
