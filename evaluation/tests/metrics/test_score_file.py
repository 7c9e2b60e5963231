"""Score files: valid values are added to chains, invalid lines and fields are named."""

import json
import re

import pytest

from evaluation.metrics.score_file import (
    ChainImages,
    ScoreFileError,
    parse,
    place_values,
    read_score_file,
)

SOURCE, FIRST, SECOND = "a" * 64, "b" * 64, "c" * 64
HEAD = "sha256,metric,value,version\n"
BY_CASE = "case,repeat,trip,metric,value,version,higher_is_better\n"


def chain(repeat=0):
    return ChainImages("pond--hat", repeat, SOURCE, (FIRST, SECOND))


def read(text):
    return parse(text.encode(), "scores.csv")


def test_images_are_found_by_hash_and_by_case():
    by_hash = chain()
    place_values(
        read(f"{HEAD}{SOURCE},musiq,61.5,pyiqa 0.1.13\n{SECOND},musiq,40,pyiqa 0.1.13\n"), [by_hash]
    )
    assert by_hash.quality == {"musiq": [61.5, None, 40.0]}
    one, two = chain(), chain(1)
    place_values(
        read(f"{BY_CASE}pond--hat,1,2,mine,0.5,1,true\npond--hat,1,0,mine,,1,true\n"), [one, two]
    )
    assert (one.quality, two.quality) == ({}, {"mine": [None, None, 0.5]})


def test_json_rows_are_read_too():
    rows = [{"sha256": FIRST, "metric": "nima", "value": 4.5, "version": "1"}]
    own = chain()
    result = parse(json.dumps(rows).encode(), "scores.json")
    place_values(result, [own])
    assert own.quality == {"nima": [None, 4.5, None]}
    assert result.metrics["nima"]["higher_is_better"] is True
    assert len(result.metrics["nima"]["file"]) == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "field metric is missing"),
        (HEAD, "scores.csv has no rows"),
        ("sha256,metric,value\n", "the field version is missing"),
        (f"{HEAD[:-1]},beauty\n", "the field 'beauty' is unknown"),
        ("metric,value,version\n", "must name its image by sha256, or by case and trip"),
        (f"{HEAD}{SOURCE},musiq,1\n", "line 2: this line has more or fewer fields"),
        (f"{HEAD}12,musiq,1,1\n", "line 2, sha256: '12' is not 64"),
        (f"{HEAD},musiq,1,1\n", "line 2, case: give a case"),
        (f"{HEAD}{SOURCE},Müsiq,1,1\n", "line 2, metric: 'Müsiq' is not a name"),
        (f"{HEAD}{SOURCE},brisque,1,1\n", "line 2, metric: ConvergeBench computes brisque itself"),
        (f"{HEAD}{SOURCE},musiq,nan,1\n", "line 2, value: 'nan' is not a number"),
        (f"{HEAD}{SOURCE},musiq,1e9,1\n", "line 2, value: '1e9' is not a number"),
        (f"{HEAD}{SOURCE},musiq,1,\n", "line 2, version: a version of at most 80"),
        (
            f"{HEAD}{SOURCE},mine,1,1\n",
            "line 2, higher_is_better: state whether higher values of mine",
        ),
        (f"{HEAD}{SOURCE},nima,1,1\n{FIRST},nima,1,2\n", "line 3: version or higher_is_better"),
        (f"{BY_CASE}x,0,-1,musiq,1,1,\n", "line 2, trip: '-1' is not a number from 0"),
        (f"{BY_CASE}x,0,1,musiq,1,1,false\n", "MUSIQ is better when higher"),
        (f"{BY_CASE}x,0,1,musiq,1,1,perhaps\n", "'perhaps' is not true or false"),
        ("[1]", "row 1: the row is not a JSON object"),
        ("[{", "is not readable JSON"),
    ],
)
def test_invalid_lines_and_fields_are_named(text, said):
    with pytest.raises(ScoreFileError, match=re.escape(said)):
        read(text)


def test_unknown_images_and_contradicting_values_are_refused():
    with pytest.raises(ScoreFileError, match="line 2, sha256: the run has no image dddddddddddd"):
        place_values(read(f"{HEAD}{'d' * 64},musiq,1,1\n"), [chain()])
    with pytest.raises(ScoreFileError, match="line 2, case: the run has no image pond--hat"):
        place_values(read(f"{BY_CASE}pond--hat,0,9,musiq,1,1,\n"), [chain()])
    with pytest.raises(
        ScoreFileError, match="line 3, value: an earlier row has another value of musiq"
    ):
        place_values(read(f"{HEAD}{FIRST},musiq,1,1\n{FIRST},musiq,2,1\n"), [chain()])


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ScoreFileError, match=r"none.csv cannot be read"):
        read_score_file(tmp_path / "none.csv")
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ScoreFileError, match="not text in UTF-8"):
        read_score_file(tmp_path / "x.csv")
