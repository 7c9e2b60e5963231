"""Read the public results of a site over HTTP, from saved answers, or from a run bundle."""

from __future__ import annotations

import csv
import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from evaluation.analysis.thresholds import DEFAULT_THRESHOLD
from evaluation.bundle import document as bundles
from evaluation.content.suites import suite_key
from evaluation.errors import UserFacingError
from evaluation.metrics import HEADLINE

#: The API returns at most this many items at a time.
PAGE = 200
TIMEOUT_SECONDS = 60
HTTP_NOT_FOUND = 404

#: Returns the text at a path, or None if the path does not exist.
Fetch = Callable[[str], str | None]
Json = dict[str, Any]


class SourceError(UserFacingError):
    """Results cannot be read."""


class Source:
    """A site's public results: answers of `/api/v1/` and CSV exports."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    @classmethod
    def open(cls, name: str, save: Path | None = None) -> Self:
        """Open a site's address, a folder of saved answers, or a bundle."""
        if name.startswith(("http://", "https://")):
            fetch = _site(name.rstrip("/"))
            return cls(_saving(fetch, save) if save else fetch)
        path = Path(name)
        if path.is_dir():
            return cls(lambda url_path: _read(path / _file_name(url_path)))
        return cls(_bundle(path).get)

    @cached_property
    def suites(self) -> list[Json]:
        return self._all("suites")

    def suite(self, name: str) -> Json:
        """Return a suite by key, or the newest version of a slug. Raises SourceError."""
        suites = [
            suite
            for suite in self.suites
            if name in (suite["slug"], suite_key(suite["slug"], suite["version"]))
        ]
        if not suites:
            keys = ", ".join(suite_key(row["slug"], row["version"]) for row in self.suites)
            raise SourceError(f"there is no suite {name!r}; there are {keys or 'none'}")
        suite = max(suites, key=lambda suite: int(suite["version"]))
        return suite | {"key": suite_key(suite["slug"], suite["version"])}

    def definition(self, key: str) -> Json:
        """Return the suite file: images, pairs and cases."""
        return dict(self._one(f"suites/{key}") or {})

    def board(self, key: str) -> Json:
        return dict(self._one(f"leaderboard?suite={key}") or {"rows": []})

    def model(self, slug: str) -> Json | None:
        return self._one(f"models/{slug}")

    def runs(self, model: str, suite: str) -> list[Json]:
        return self._all("runs", model=model, suite=suite)

    def run(self, number: int) -> Json:
        return dict(self._one(f"runs/{number}") or {})

    def standings(self, run: int, threshold: float = DEFAULT_THRESHOLD) -> list[Json]:
        """Return a run's standings, by every metric and scope."""
        return self._all(f"runs/{run}/standings", threshold=threshold)

    def scores(self, run: int) -> list[dict[str, str]]:
        return self._table(f"runs/{run}/scores.csv")

    def no_reference(self, run: int) -> list[dict[str, str]]:
        """Return the values of no-reference metrics for each image of a run."""
        return self._table(f"runs/{run}/no-reference.csv")

    def published_figures(self) -> list[Json]:
        return self._all("published-figures")

    def agreement(self) -> Json:
        return dict(self._one("agreement") or {})

    def _one(self, path: str) -> Any:
        text = self._fetch(f"api/v1/{path}")
        return None if text is None else json.loads(text)

    def _all(self, path: str, **query: Any) -> list[Json]:
        """Return all items of a paginated list."""
        items: list[Json] = []
        while True:
            parameters = urlencode(query | {"limit": PAGE, "offset": len(items)})
            page = self._one(f"{path}?{parameters}") or {"items": [], "count": 0}
            items += page["items"]
            if not page["items"] or len(items) >= page["count"]:
                return items

    def _table(self, path: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self._fetch(path) or "", newline="")))


def _site(address: str) -> Fetch:
    def fetch(path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"{address}/{path}", timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 (http or https, checked by the caller)
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            if error.code == HTTP_NOT_FOUND:
                return None
            raise SourceError(f"{address}/{path}: {error}") from None
        except OSError as error:
            raise SourceError(f"{address} does not answer: {error}") from None

    return fetch


def _saving(fetch: Fetch, folder: Path) -> Fetch:
    def fetch_and_save(path: str) -> str | None:
        text = fetch(path)
        if text is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _file_name(path)).write_text(text, encoding="utf-8", newline="")
        return text

    return fetch_and_save


def _file_name(path: str) -> str:
    return quote(path, safe="")


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _bundle(path: Path) -> Mapping[str, str]:
    """Return the answers, by path, of an imaginary site that has only the bundle's run."""
    with bundles.read(path) as bundle:
        document = bundle.document.model_dump()
        suite = bundle.suite
    run, model = document["run"], document["model"]
    standings = [_standing(row, run) for row in document["standings"]]
    metrics = {row["metric"] for row in standings}
    metric = HEADLINE if HEADLINE in metrics else min(metrics, default=HEADLINE)
    headline = next(
        (
            row
            for row in standings
            if (row["metric"], row["threshold"], row["scope"]) == (metric, DEFAULT_THRESHOLD, "all")
        ),
        None,
    )
    board = {
        "page": "",
        "threshold": DEFAULT_THRESHOLD,
        "metric": metric,
        "rows": [
            {
                "model": model,
                "standing": headline,
                "group": "reference" if model["is_reference"] else "unranked",
                "change_seen": headline and headline["counts"].get("change_seen"),
                "refusals": None,
                "usd_per_edit": model["price_per_edit"] and float(model["price_per_edit"]),
                "date": run["finished_at"],
                "run": 1,
                "reason": "" if model["is_reference"] else "Single run from a bundle",
                "people_prefer": None,
            }
        ],
    }
    public_run = run | {"id": 1, "held_because": run["flags"], "ranked": False, "current": True}
    first = {"limit": PAGE, "offset": 0}
    answers = {
        f"suites?{urlencode(first)}": _page([suite.to_dict()]),
        f"suites/{suite.key}": suite.to_dict(),
        f"leaderboard?suite={suite.key}": board,
        f"models/{model['slug']}": model,
        "runs/1": public_run,
        f"runs?{urlencode({'model': model['slug'], 'suite': suite.key} | first)}": _page(
            [public_run]
        ),
    }
    for threshold in {row["threshold"] for row in standings}:
        rows = [row for row in standings if row["threshold"] == threshold]
        # All standings are on one page.
        answers[f"runs/1/standings?{urlencode({'threshold': threshold} | first)}"] = _page(rows)
    texts = {f"api/v1/{path}": json.dumps(answer) for path, answer in answers.items()}
    return texts | {"runs/1/scores.csv": _scores(document["chains"])}


def _page(items: list[Json]) -> Json:
    return {"items": items, "count": len(items)}


def _standing(row: Json, run: Json) -> Json:
    unranked = dict.fromkeys(("rank", "rank_low", "rank_high", "tier", "p_first"))
    return row | unranked | {"method_version": run["method_version"]}


def _scores(chains: list[Json]) -> str:
    """Return the distances of a bundle's chains in the format of the site's export."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("case", "image", "pair", "repeat", "trip", "metric", "distance"))
    for chain in chains:
        image, _, pair = chain["case"].partition("--")
        for trip in chain["trips"]:
            for metric, distance in trip["scores"].items():
                place = (chain["case"], image, pair, chain["repeat"], trip["number"])
                writer.writerow((*place, metric, distance))
    return text.getvalue()
