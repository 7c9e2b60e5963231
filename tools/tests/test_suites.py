from dataclasses import replace

import pytest

from evaluation.content import catalog
from evaluation.content.suite_builder import shipped_drafts
from evaluation.content.suites import Suite, SuiteError
from tools.papers.restoration import RESTORED
from tools.suites import main, shipped, write


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param(draft, id=draft.slug, marks=[pytest.mark.slow] if draft.size > 256 else [])
        for draft in shipped_drafts()
    ],
)
def test_a_shipped_suite_matches_its_draft(draft):
    frozen = catalog.suite(f"{draft.slug}-v{draft.version}")
    assert shipped(draft).content_hash == frozen.content_hash


def test_the_command_reports_unchanged_suites(capsys):
    assert main(["smoke", "--check"]) == 0
    assert "smoke v2: unchanged, 14 images, 14 cases, 224 edits" in capsys.readouterr().out


def test_a_frozen_suite_is_not_overwritten_by_accident(tmp_path, monkeypatch):
    first = catalog.suite("smoke-v2")
    second = replace(first, trips=first.trips + 1)
    monkeypatch.setattr(catalog, "folder", lambda: tmp_path)
    path = write(first)
    write(first)
    with pytest.raises(SuiteError, match=r"smoke-v2\.json is frozen and would change"):
        write(second)
    write(second, overwrite=True)
    assert Suite.read(path).content_hash == second.content_hash


def test_every_scene_of_the_study_has_an_image():
    suite = catalog.suite("restoration")
    assert {image.slug for image in suite.images} == set(RESTORED.values())
