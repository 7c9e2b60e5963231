"""Records for other catalogues, validated by their own schemas and readers."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from evaluation.records import Played
from leaderboard.exports import catalogues
from leaderboard.models import EditingModel, Run
from leaderboard.testing.losing_runs import losing_run, losing_suite

pytestmark = pytest.mark.django_db

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def fields(required: str, **properties: object) -> dict[str, object]:
    """Return a schema of an object with these fields only, stricter than the original."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


#: The requirements of schema version 0.2.1 for the fields that we use, restated from
#: eval.schema.json of github.com/evaleval/every_eval_ever (commit 0666632).
RECORD = fields(
    "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library "
    "evaluation_results",
    schema_version={"const": "0.2.1"},
    evaluation_id={"type": "string", "pattern": r"^[^/]+/[^/]+/[^/]+/\d+$"},
    evaluation_timestamp=TEXT,
    retrieved_timestamp={"type": "string", "pattern": r"^\d+$"},
    source_metadata=fields(
        "source_type source_organization_name evaluator_relationship",
        source_name=TEXT,
        source_type={"enum": ["documentation", "evaluation_run"]},
        source_organization_name=TEXT,
        source_organization_url=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
        additional_details=TEXTS,
    ),
    eval_library=fields("name version", name=TEXT, version=TEXT, additional_details=TEXTS),
    model_info=fields(
        "name id",
        name=TEXT,
        id=TEXT,
        developer=TEXT,
        inference_platform=TEXT,
        inference_engine=fields("", name=TEXT, version=TEXT),
        additional_details=TEXTS,
    ),
    evaluation_results={
        "type": "array",
        "minItems": 1,
        "items": fields(
            "evaluation_name source_data metric_config score_details",
            evaluation_name=TEXT,
            source_data=fields(
                "dataset_name source_type url",
                dataset_name=TEXT,
                source_type={"const": "url"},
                url={"type": "array", "minItems": 1, "items": TEXT},
                additional_details=TEXTS,
            ),
            metric_config=fields(
                "lower_is_better score_type min_score max_score",
                evaluation_description=TEXT,
                lower_is_better={"type": "boolean"},
                score_type={"const": "continuous"},
                min_score=NUMBER,
                max_score=NUMBER,
                additional_details=TEXTS,
            ),
            score_details=fields(
                "score",
                score=NUMBER,
                details=TEXTS,
                uncertainty=fields(
                    "",
                    num_samples={"type": "integer"},
                    confidence_interval=fields(
                        "lower upper",
                        lower=NUMBER,
                        upper=NUMBER,
                        confidence_level={"type": "number", "minimum": 0, "maximum": 1},
                        method=TEXT,
                    ),
                ),
            ),
            generation_config=fields("", additional_details=TEXTS),
        ),
    },
)


@pytest.fixture
def run() -> Run:
    return losing_run(losing_suite(), "m", 0.1)


def record(client, run: Run) -> dict:
    answer = client.get(f"/runs/{run.pk}/every-eval-ever.json")
    found = json.loads(answer.content)
    jsonschema.validate(found, RECORD)
    return found


def test_a_run_is_a_valid_every_eval_ever_record_with_the_numbers_of_its_page(client, run):
    EditingModel.objects.update(organisation="A Lab", provider="A Host", options={"model": "m-1"})
    found = record(client, run)
    assert found["model_info"]["id"] == "a-lab/m-1"
    assert found["model_info"]["inference_platform"] == "A Host"
    standings = catalogues.standings_of(run)
    for result, standing in zip(found["evaluation_results"], standings.values(), strict=True):
        details = result["score_details"]
        interval = details["uncertainty"]["confidence_interval"]
        assert details["score"] == standing.usable_trips
        assert interval["lower"] == standing.usable_trips_low
        assert interval["upper"] == standing.usable_trips_high
        assert details["uncertainty"]["num_samples"] == standing.counts["cases"]
        assert result["metric_config"]["max_score"] == run.suite.trips


def test_the_record_states_the_evaluators_relationship(client, run):
    relation = {}
    for editor, source in (("gemini", "ours"), ("endpoint", "ours"), ("gemini", "external")):
        EditingModel.objects.update(editor=editor)
        Run.objects.update(source=source, verified=True)
        about = record(client, run)["source_metadata"]
        relation[about["additional_details"]["played"]] = about["evaluator_relationship"]
    assert relation == {
        Played.HERE: "third_party",
        Played.ENDPOINT: "collaborative",
        Played.RECOMPUTED: "other",
    }


def test_the_hub_reads_a_runs_eval_results(client, run):
    page = f"/runs/{run.pk}/eval-results.yaml"
    answer = client.get(page, {"dataset": "somebody/losing"}).content
    (entry,) = parse_eval_result_entries(yaml.safe_load(answer))
    first = next(iter(catalogues.standings_of(run).values()))
    assert (entry.dataset_id, entry.task_id) == ("somebody/losing", run.suite.slug)
    assert entry.value == pytest.approx(first.usable_trips, abs=1e-3)
    assert entry.source_url.endswith(f"/runs/{run.pk}/")
    for wrong in ("", "no-owner", "a/b/c", "a/b\nc"):
        assert client.get(page, {"dataset": wrong}).status_code == 422


def test_runs_that_are_not_public_have_no_record(client, run):
    Run.objects.update(published=False)
    assert client.get(f"/runs/{run.pk}/every-eval-ever.json").status_code == 404
    assert client.get(f"/runs/{run.pk}/eval-results.yaml?dataset=a/b").status_code == 404
