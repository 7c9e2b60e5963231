"""Play the zoo of tricks (cheating editors) and honest editors, and write the tables of results.

`python -m evaluation.testing.zoo.tables [NAME ...]` updates the tables of the methodology page, or
only the named rows.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from evaluation.analysis.half_life import shown_half_life
from evaluation.audits.plan import plan
from evaluation.cli.results import run_results
from evaluation.content import catalog, sources
from evaluation.content.suites import Case, Suite
from evaluation.editors import Editor
from evaluation.images import EncodedImage
from evaluation.measuring.scoring import Scorer
from evaluation.play.finish import review
from evaluation.play.folder_scores import FolderScores, score_run
from evaluation.play.folder_store import folder_player
from evaluation.play.run_folder import RunFolder
from evaluation.testing.tricks import HONEST, TRICKS, KnowsImages, SeedTable, public_seed
from evaluation.witnesses import WITNESSES

TABLES = Path(__file__).resolve().parents[3] / "static" / "img" / "examples" / "tricks.json"
SECRET = "5" * 64
TRIPS = 3
#: The number of cases to play from the smoke suite, by kind of change.
CASES = {"local": 4, "exact": 2}


def suite() -> Suite:
    """Return a part of the smoke suite that is played quickly."""
    smoke = catalog.suite("smoke")
    cases: list[Case] = []
    for change, count in CASES.items():
        of_kind = [case for case in smoke.cases if smoke.pair_by_slug[case.pair].change == change]
        cases += of_kind[-count:]
    return dataclasses.replace(smoke, trips=TRIPS, cases=tuple(cases))


#: The witnesses (programs that check edits) that every machine can run.
WITNESS_NAMES = tuple(name for name in WITNESSES if name not in ("clip", "judge"))


class Zoo:
    """Plays editors and returns their rows."""

    def __init__(self) -> None:
        self.suite = suite()
        self.scorer = Scorer(["overall", "lpips"])
        self.scorer.panel.restrict_to(WITNESS_NAMES)
        self.images = {
            image.slug: EncodedImage.from_image(sources.load_prepared(image, self.suite.size))
            for image in self.suite.images
        }

    def trick(self, name: str) -> dict[str, Any]:
        """Play a trick; return its row."""
        trick = TRICKS[name]()
        if isinstance(trick, KnowsImages):
            trick.public = list(self.images.values())
        if isinstance(trick, SeedTable):
            trick.table = {
                public_seed(case.slug, number, "backward"): self.images[case.image]
                for case in self.suite.cases
                for number in range(1, self.suite.trips + 1)
            }
        about = {"stopped_by": trick.stopped_by, "disguises": trick.disguises}
        return {"name": name, **about, **self.play(trick)}

    def honest(self, name: str) -> dict[str, Any]:
        """Play an honest editor; return its row."""
        return {"name": name, **self.play(HONEST[name]())}

    def play(self, editor: Editor) -> dict[str, Any]:
        """Play an editor; return its usable trips, half-life, and findings of audits for cheating."""
        with tempfile.TemporaryDirectory() as folder:
            run = RunFolder.create(
                Path(folder) / "run", self.suite, editor="x", options={}, secret=SECRET
            )
            with run.playing():
                folder_player(run, editor, audits=plan(SECRET, self.suite)).play()
            scores = score_run(run, self.scorer)
            summary = run_results(self.suite, scores)["overall"].summary
            audited = review(FolderScores(run, self.scorer), self.scorer).audited
        return {
            "usable_trips": _rounded(summary.usable_trips),
            "half_life": shown_half_life(summary.half_life, self.suite.trips),
            "edits_made": _rounded(summary.edits_made),
            "marks_kept": _rounded(audited.marks_kept),
            "loss_under_audit": _rounded(audited.loss_under_audit),
            "cold_gap": _rounded(audited.cold_gap, 3),
            "changed_elsewhere": _rounded(audited.changed_elsewhere),
            "ranked": audited.verdict == "clean",
            "reasons": list(audited.reasons),
        }


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)


def tables(names: Collection[str] = ()) -> dict[str, Any]:
    """Return both tables. With names, only these rows are played again."""
    zoo = Zoo()
    before = json.loads(TABLES.read_text(encoding="utf-8")) if names else {}
    kept = {row["name"]: row for part in ("honest", "tricks") for row in before.get(part, ())}

    def row(name: str, play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        if name in kept and name not in names:
            return dict(kept[name])
        played = play(name)
        print(json.dumps(played), flush=True)  # noqa: T201
        return played

    return {
        "trips": zoo.suite.trips,
        "cases": len(zoo.suite.cases),
        "honest": [row(name, zoo.honest) for name in HONEST],
        "tricks": [row(name, zoo.trick) for name in TRICKS],
    }


if __name__ == "__main__":
    text = json.dumps(tables(sys.argv[1:]), indent=1, ensure_ascii=False)
    TABLES.write_text(text + "\n", encoding="utf-8")
