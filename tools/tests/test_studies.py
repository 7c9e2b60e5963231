import json
from dataclasses import replace

import numpy as np
import pytest

from evaluation.content import catalog, sources
from evaluation.editors.drawings import draw
from evaluation.measuring.error_rates import WEAR, ErrorTable
from tools.studies import change_seen_rates, headline, known_damages, tables, witness_rates
from tools.studies.__main__ import main

STORED = ErrorTable.stored("change_seen")
SMOKE = catalog.suite("smoke")


def test_the_study_of_change_seen_prints_its_table(monkeypatch, capsys):
    one = {"nothing else": change_seen_rates.DRIFTS["nothing else"]}
    untouched = {"the image untouched": change_seen_rates.FALSE_FLIPS["the image untouched"]}
    for name, kept in (("DRIFTS", one), ("DAMAGES", one), ("FALSE_FLIPS", untouched)):
        monkeypatch.setattr(change_seen_rates, name, kept)
    few = replace(SMOKE, cases=SMOKE.cases[:1] + SMOKE.cases[-1:])
    monkeypatch.setattr("tools.studies.change_seen.find_suite", lambda _: few)
    assert main(["change-seen", "--suite", "smoke", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["what"] for row in rows] == ["nothing else"] * 3 + ["the image untouched"]
    assert main(["change-seen", "--suite", "smoke"]) == 0
    assert "a drawing" in capsys.readouterr().out


def test_the_stored_table_has_a_row_for_every_case():
    tried = (
        ("local", True, change_seen_rates.DRIFTS),
        ("local", False, change_seen_rates.DRIFTS),
        ("exact", True, change_seen_rates.DAMAGES),
        ("exact", False, change_seen_rates.FALSE_FLIPS),
    )
    for of, seen, names in tried:
        rows = [row for row in STORED.rows if row.of == of and row.should_be_seen is seen]
        assert [row.what for row in rows] == list(names)


@pytest.mark.parametrize("what", ["a fifth lighter", "a wobble of 4 px"])
def test_a_row_measured_now_agrees_with_the_stored_one(what):
    """After a change of "change seen" its table must be measured again."""
    drift = change_seen_rates.DRIFTS[what]
    cases = change_seen_rates.shipped_cases([catalog.suite("lite")], "local")[:2]
    stored = {
        row.should_be_seen: row for row in STORED.rows if (row.of, row.what) == ("local", what)
    }
    drawn = change_seen_rates.with_drawing(what, drift, cases)
    assert set(drawn.wrong) <= set(stored[True].wrong)
    untouched = change_seen_rates.without_edit(what, drift, cases[:1])
    assert set(untouched.wrong) <= set(stored[False].wrong)


def test_the_study_of_witnesses_prints_its_table(monkeypatch, capsys):
    pytest.importorskip("torch", reason="torch is not installed (pip install .[worker])")
    colours = [case for case in SMOKE.cases if SMOKE.pair_by_slug[case.pair].witness[:4] == "hue:"]
    few = replace(SMOKE, cases=tuple(colours[:1]))
    monkeypatch.setattr("tools.studies.witnesses.find_suite", lambda _: few)
    assert main(["witnesses", "--suite", "smoke", "--witness", "hue", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    # Five kinds of wear, each with a red ball instead and with an edit that was not undone.
    assert [row["should_be_seen"] for row in rows].count(False) == 10
    assert all(row["wrong"] == [] for row in rows)
    assert main(["witnesses", "--suite", "smoke", "--measure", "nothing"]) == 1
    assert "there is no 'nothing'" in capsys.readouterr().err


def judged_chain(folder, trips):
    """A judged chain of drawn sunglasses: added and removed, then added and left."""
    woman = SMOKE.image_by_slug["smiling-woman"]
    image = sources.load_prepared(woman, SMOKE.size)
    worn = draw("sunglasses", image, woman.annotations)
    folder.mkdir()
    images = {
        "I0_source": image,
        "I1_forward": worn,
        "I1_backward": image,
        "I2_forward": worn,
        "I2_backward": worn,
    }
    for name, one in images.items():
        one.save(folder / f"{name}.png")
    judged = {"object": "sunglasses", "trips": trips}
    (folder / "judged.json").write_text(json.dumps(judged))


SEEN = [{"made": True, "undone": True}, {"made": True, "undone": False}]


def test_a_folder_of_judged_chains_is_compared_with_its_judgements(tmp_path, capsys):
    pytest.importorskip("torch", reason="torch is not installed (pip install .[worker])")
    folder = tmp_path / "by-eye"
    folder.mkdir()
    judged_chain(folder / "woman", SEEN)
    assert main(["witnesses", str(folder), "--witness", "parsing", "--json"]) == 0
    rows = {
        (row["what"].split()[-2].strip(","), row["should_be_seen"]): row
        for row in json.loads(capsys.readouterr().out)["rows"]
    }
    assert {key: row["judged"] for key, row in rows.items()} == {
        ("made", True): 2,
        ("undone", True): 1,
        ("undone", False): 1,
    }
    assert all(row["wrong"] == [] for row in rows.values())
    assert all(row["what"].endswith(", by-eye") for row in rows.values())


def test_a_wrong_judgement_counts_as_an_error_of_the_witness(tmp_path, capsys):
    pytest.importorskip("torch", reason="torch is not installed (pip install .[worker])")
    judged_chain(tmp_path / "woman", [{"made": False}])
    assert main(["witnesses", str(tmp_path / "woman"), "--witness", "parsing", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["should_be_seen"], row["judged"], row["wrong"]) == (False, 1, ["woman 1"])


def test_a_folder_without_judgements_is_refused_with_the_layout(tmp_path, capsys):
    judged_chain(tmp_path / "woman", [])
    (tmp_path / "woman" / "judged.json").write_text('{"object": "hat", "trips": [{"done": true}]}')
    assert main(["witnesses", str(tmp_path / "woman")]) == 1
    assert "judged.json" in capsys.readouterr().err
    (tmp_path / "woman" / "judged.json").unlink()
    assert main(["witnesses", str(tmp_path / "woman")]) == 1
    assert "see --help" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["witnesses", "--help"])
    assert "FOLDER/CHAIN/judged.json" in capsys.readouterr().out


def test_the_site_knows_every_kind_of_wear():
    assert tuple(witness_rates.WEAR) == WEAR


def test_rows_measured_again_replace_stored_rows():
    first = STORED.rows[0]
    newer = ErrorTable({"smoke": "new"}, (replace(first, judged=1000),))
    merged = tables.merged(replace(STORED, rows=(first,)), newer)
    assert merged.rows == newer.rows
    assert merged.suites["smoke"] == "new"


def test_the_study_of_the_headline_counts_losses_by_damage(monkeypatch, capsys, tmp_path):
    bottle = next(thing for thing in known_damages.THINGS if thing.word == "the orange bottle")
    few = {"harmless": {"JPEG 85": known_damages.HARMLESS["JPEG 85"]}}
    few["strong"] = {"turned grey": known_damages.STRONG["turned grey"]}
    for name, value in {
        "ON_WHOLE_IMAGES": few,
        "THINGS": (bottle,),
        "COLOURED": (bottle,),
        "FILE": tmp_path / "damages.json",
        "drawn": lambda count: ["bottles"],
    }.items():
        monkeypatch.setattr(headline, name, value)
    assert main(["headline", "--size", "256", "--store"]) == 0
    assert "another hue" in capsys.readouterr().out
    rows = {
        row["group"]: row for row in json.loads((tmp_path / "damages.json").read_text())["rows"]
    }
    assert [rows[group]["below"] for group in rows] == [0, 1, 1, 1]
    assert list(rows) == ["harmless", "a thing lost", "another hue", "strong"]


def test_the_images_of_the_headline_study_are_drawn_the_same_every_time():
    assert headline.drawn(5) == headline.drawn(5)
    assert len(set(headline.drawn(5))) == 5


def test_only_the_thing_in_the_box_gets_another_hue():
    image = known_damages.shipped("bottles", 256)
    bottle = next(thing for thing in known_damages.THINGS if thing.word == "the green bottle")
    blue = known_damages.turned_hue(image, bottle.box).split()[2]
    changed = np.asarray(blue, int) - np.asarray(image.split()[2], int) > 20
    assert changed[:, : image.width // 3].mean() > 0.2
    assert not changed[:, image.width // 3 :].any()
    wall = np.asarray(image.convert("HSV"))[..., 1] < 40
    assert not (changed & wall).any()
