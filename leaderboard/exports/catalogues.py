"""Results of a run in the formats of other catalogues: Every Eval Ever and Hugging Face."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse

from evaluation import __version__
from evaluation.analysis.eval_results import eval_results
from evaluation.analysis.half_life import shown_half_life
from evaluation.analysis.thresholds import DEFAULT_THRESHOLD, life
from evaluation.metrics import HEADLINE, in_order
from evaluation.records import Played
from leaderboard import formatting
from leaderboard.models import EditingModel, Run, Standing
from leaderboard.text import absolute

#: Version of the Every Eval Ever schema that the records follow (github.com/evaleval).
EVERY_EVAL_EVER = "0.2.1"
#: The schema's word for the evaluator's relationship to the model. Endpoints are hosted by their
#: submitters; a contributed run may come from anyone.
RELATIONSHIPS = {
    Played.HERE: "third_party",
    Played.ENDPOINT: "collaborative",
    Played.RECOMPUTED: "other",
    Played.REPORTED: "other",
}


def standings_of(run: Run) -> dict[str, Standing]:
    """Return the run's standings on all cases by metric, the headline metric (Overall) first."""
    rows = run.standings.filter(scope="all", threshold=DEFAULT_THRESHOLD).select_related("metric")
    by_metric = {row.metric.name: row for row in rows}
    return {name: by_metric[name] for name in in_order(by_metric)}


def every_eval_ever(run: Run) -> dict[str, Any]:
    """Return a run as an Every Eval Ever record with a result for each metric.

    The schema requires strings as values of `additional_details` and `details`.
    """
    standings = standings_of(run)
    computed_at = max(standing.computed_at for standing in standings.values())
    ended, code = run.finished_at, run.provenance.get("code") or {}
    name = _model_id(run.editing_model)
    record = {
        "schema_version": EVERY_EVAL_EVER,
        "evaluation_id": f"convergebench-{run.suite.key}/{name}/{computed_at.timestamp():.0f}",
        "retrieved_timestamp": f"{computed_at.timestamp():.0f}",
        "source_metadata": {
            "source_name": "ConvergeBench",
            "source_type": "evaluation_run",
            "source_organization_name": urlsplit(settings.SITE_URL).netloc,
            "source_organization_url": settings.SITE_URL,
            "evaluator_relationship": RELATIONSHIPS[run.played],
            "additional_details": _texts(
                run=absolute(run.get_absolute_url()),
                played=run.played,
                contributed_by=run.contributed_by,
                not_ranked=run.unranked_reason,
            ),
        },
        "model_info": _model(run),
        "eval_library": {"name": "convergebench", "version": code.get("version") or __version__},
        "evaluation_results": [_result(run, row) for row in standings.values()],
    }
    return record | ({"evaluation_timestamp": ended.isoformat()} if ended else {})


def hugging_face(run: Run, dataset: str) -> str:
    """Return the run as a `.eval_results` file; `dataset` is the suite's dataset on the Hub."""
    standings = standings_of(run)
    name, standing = next(iter(standings.items()))
    return eval_results(
        run.suite.core,
        run.editing_model.name,
        standing.usable_trips,
        standing.half_life,
        formatting.metric_label(name),
        dataset,
        date=f"{run.finished_at:%Y-%m-%d}" if run.finished_at else None,
        url=absolute(run.get_absolute_url()),
    )


def _model_id(model: EditingModel) -> str:
    """Return the model's id as "maker/name"; local weights already have such an id."""
    if model.access == EditingModel.Access.LOCAL and "/" in model.options.get("checkpoint", ""):
        return str(model.options["checkpoint"])
    maker = (model.organisation or model.provider or "unknown").lower().replace(" ", "-")
    return f"{maker}/{model.options.get('model') or model.slug}"


def _model(run: Run) -> dict[str, Any]:
    model, played_model = run.editing_model, run.provenance.get("model") or {}
    info: dict[str, Any] = {"name": model.name, "id": _model_id(model)}
    if model.organisation:
        info["developer"] = model.organisation
    if model.access == EditingModel.Access.LOCAL:
        version = (run.provenance.get("packages") or {}).get("diffusers", "unknown")
        info["inference_engine"] = {"name": "diffusers", "version": version}
    elif model.provider:
        info["inference_platform"] = model.provider
    return info | {
        "additional_details": _texts(
            access=model.get_access_display(),
            contract=played_model.get("contract") or model.editor,
            checkpoint=played_model.get("revision"),
            size_sent=run.suite.size,
            size_returned=(run.provenance.get("answers") or {}).get("returned"),
            licence=model.licence,
            price_per_edit_usd=model.price_per_edit,
        )
    }


def _result(run: Run, standing: Standing) -> dict[str, Any]:
    suite, metric = run.suite, standing.metric
    label = formatting.metric_label(metric.name)
    cases = standing.counts.get("cases") or suite.cases.count()
    uncertainty: dict[str, Any] = {"num_samples": cases}
    if standing.usable_trips_low is not None and standing.usable_trips_high is not None:
        uncertainty["confidence_interval"] = {
            "lower": standing.usable_trips_low,
            "upper": standing.usable_trips_high,
            "confidence_level": 0.95,
            "method": "over images and edit pairs; /methodology/ has the formula",
        }
    file = reverse("suite_file", args=[suite.slug, suite.version])
    return {
        "evaluation_name": f"ConvergeBench {suite}: usable trips by {label}",
        "source_data": {
            "dataset_name": f"ConvergeBench {suite}",
            "source_type": "url",
            "url": [absolute(file)],
            "additional_details": _texts(content_hash=suite.content_hash, cases=cases),
        },
        "metric_config": {
            "evaluation_description": "Round trips of an edit and its inverse until less than "
            f"{standing.threshold:.0%} of the image is left, measured by {label}; mean over cases.",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": suite.trips,
            "additional_details": _texts(
                metric=metric.name,
                metric_version=metric.version,
                headline=metric.name == HEADLINE,
                threshold=standing.threshold,
                method_version=standing.method_version,
            ),
        },
        "score_details": {
            "score": standing.usable_trips,
            "details": _texts(
                half_life_measure=life(standing.threshold),
                half_life=shown_half_life(standing.half_life, suite.trips),
                change_seen=standing.counts.get("change_seen"),
                rank=standing.rank,
            ),
            "uncertainty": uncertainty,
        },
        "generation_config": {
            "additional_details": _texts(
                trips=suite.trips, working_size=suite.size, stop_after=run.stop_after
            )
        },
    }


def _texts(**values: Any) -> dict[str, str]:
    """Return the values as strings, without None and empty strings."""
    return {name: str(value) for name, value in values.items() if value not in (None, "")}
