from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from evaluation.analysis.item_diagnostics import diagnose
from evaluation.testing.chains import chain, halving


def runs_of(special, models=8, cases=12):
    """Return runs of models of growing strength on ordinary cases and on one special case."""
    random = np.random.default_rng(0)
    return {
        f"model-{m}": [
            *(
                halving(4 + 1.5 * m + random.normal(0, 0.3), image=f"p{i}", pair="hat")
                for i in range(cases)
            ),
            special(m),
        ]
        for m in range(models)
    }


def found(runs, image="special"):
    return next(d for d in diagnose(runs, 20) if d.image == image)


def test_an_ordinary_case_discriminates_and_raises_no_flag():
    runs = runs_of(lambda m: halving(5 + m, image="special"))
    diagnosis = found(runs)
    assert diagnosis.discrimination > 0.95
    assert diagnosis.flags == ()
    assert 0 < diagnosis.difficulty < 1
    assert all(not d.quarantine for d in diagnose(runs, 20))


def test_a_jump_at_trip_1_with_every_model_and_no_later_change_is_ill_posed():
    runs = runs_of(lambda m: chain(*np.linspace(0.55 + m / 100, 0.54, 20), image="special"))
    assert "ill_posed" in found(runs).flags
    assert diagnose(runs, 20)[0].image == "special"
    assert found(runs).jump == pytest.approx(0.38)


def test_one_model_without_the_jump_clears_the_pair():
    def special(m):
        flat = chain(*[0.5] * 20, image="special")
        return flat if m else halving(15, image="special")

    assert "ill_posed" not in found(runs_of(special)).flags


def test_models_that_jump_on_every_case_do_not_flag_a_case():
    runs = {
        f"thumbnail-{m}": [chain(*[0.4] * 20, image=f"p{i}") for i in range(6)] for m in range(4)
    }
    assert all("ill_posed" not in d.flags for d in diagnose(runs, 20))


def test_a_steady_fall_after_the_jump_raises_no_flag():
    runs = runs_of(lambda m: chain(*np.linspace(0.6, 0.1, 20), image="special"))
    assert "ill_posed" not in found(runs).flags


def test_a_case_where_better_models_do_worse_is_misleading():
    diagnosis = found(runs_of(lambda m: halving(15 - 1.2 * m, image="special")))
    assert diagnosis.discrimination < -0.9
    assert diagnosis.quarantine


def test_cases_that_all_or_no_models_pass_are_flagged_but_stay():
    easy = found(runs_of(lambda m: chain(*[1.0] * 20, image="special")))
    hard = found(runs_of(lambda m: chain(outcome="refused", image="special")))
    assert (easy.flags, easy.difficulty, easy.discrimination) == (("too_easy",), 0, None)
    assert (hard.flags, hard.difficulty) == (("too_hard",), 1)
    assert not (easy.quarantine)
    assert not (hard.quarantine)


def test_few_runs_raise_no_flag():
    flat = chain(*[0.5] * 20, image="special")
    two = found(runs_of(lambda m: flat, models=2))
    assert (two.flags, two.discrimination) == ((), None)


def test_lost_chains_and_empty_runs_are_left_out():
    runs = runs_of(lambda m: chain(0.9, outcome="lost", image="special"))
    runs["lost"] = [chain(0.9, outcome="lost")]
    diagnoses = diagnose(runs, 20)
    assert "special" not in {d.image for d in diagnoses}
    assert {d.runs for d in diagnoses} == {8}
    json.dumps([asdict(d) for d in diagnoses], allow_nan=False)
    assert diagnose({}, 20) == []
