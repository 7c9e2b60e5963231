"""Small public runs with real images to vote on, created without playing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from django.utils import timezone
from PIL import Image

from evaluation.images import EncodedImage
from leaderboard.models import (
    EditingModel,
    Question,
    Run,
    StoredImage,
    Suite,
    Trip,
    Vote,
    Voter,
)
from leaderboard.testing.boards import make_model, make_run, played_chains
from leaderboard.testing.factories import drawn_image, tiny_suite

#: How much each model loses in a round trip. The first loses nothing.
MODELS = {"Oracle": 0.0, "Alder": 0.06, "Beech": 0.12, "Cedar": 0.2, "Noise": 0.45}
#: Each model answers in another size. Voters must not recognise a model by it.
SIZES = (64, 96, 48, 80, 64)


def votable_board(
    models: Mapping[str, float] = MODELS, *, images: int = 6, trips: int = 3, side: int = 64
) -> Suite:
    """Create a suite of two pairs with every image, and a finished public run of each model."""
    suite = tiny_suite(images, trips=trips, size=side)
    for place, (name, loss) in enumerate(models.items()):
        votable_run(name, suite, loss, size=SIZES[place % len(SIZES)] * side // 64)
    return suite


def votable_run(
    name: str, suite: Suite, loss: float, *, size: int = 64, model: EditingModel | None = None
) -> Run:
    """Create a run whose images lose `loss` each trip, in their pixels and by two metrics."""
    model = model or make_model(name, is_reference=name in ("Oracle", "Noise"))
    run = make_run(model, suite, 0.5 / loss if loss else 800, metrics=("overall", "lpips"))
    # Seeded by the name, because primary keys differ between tests on PostgreSQL.
    random = np.random.default_rng(list(name.encode()))
    retention = {}
    for case in suite.cases.select_related("image"):
        case_loss = loss * random.uniform(0.8, 1.2)
        retention[case] = [
            round(max(-0.1, 1 - case_loss * n), 4) for n in range(1, suite.trips + 1)
        ]
    now, trips = timezone.now(), []
    for chain in played_chains(run, retention, ("overall", "lpips")):
        source = drawn_image(int(chain.case.image.slug.rsplit("-", 1)[-1]), suite.size)
        for number, share in enumerate(retention[chain.case], start=1):
            stored = _stored(_worn(source, 1 - share, random), size)
            trips.append(
                Trip(chain=chain, number=number, restored=stored, scored_at=now, change_seen=True)
            )
    Trip.objects.bulk_create(trips)
    return run


def _worn(source: Image.Image, lost: float, random: np.random.Generator) -> Image.Image:
    pixels = np.asarray(source, dtype=float)
    noise = random.normal(0, 120 * lost, pixels.shape) if lost > 0 else 0
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


def _stored(image: Image.Image, size: int) -> StoredImage:
    return StoredImage.objects.get_or_store(EncodedImage.from_image(image.resize((size, size))))


def cast_votes(
    kind: str = "pair",
    *,
    voters: int = 8,
    each: int = 20,
    clickers: int = 0,
    threshold: float = 0.5,
    seed: int = 0,
) -> list[Voter]:
    """Cast votes that agree with the metrics more often the larger the difference is.

    The last `clickers` voters answer at random. Some questions are gold: their answer is known.
    """
    random = np.random.default_rng(seed)
    questions = Question.objects.open().filter(kind=kind).order_by("pk")
    questions = questions.select_related("first__chain", "second__chain")
    ordinary, golds = list(questions.filter(gold="")), list(questions.exclude(gold=""))
    made, crowd = [], [Voter.objects.create() for _ in range(voters)]
    for place, voter in enumerate(crowd):
        is_clicker = place >= voters - clickers
        chosen = random.choice(len(ordinary), min(each, len(ordinary)), replace=False)
        ballot = [(ordinary[n], "") for n in chosen]
        ballot += [(question, "gold") for question in golds[: each // 4]]
        # Some questions are repeated with their sides exchanged.
        ballot += [(ordinary[n], "repeat") for n in chosen[: each // 5]]
        session = f"session-{seed}-{voter.pk}"
        sides: dict[int, bool] = {}
        for number, (question, role) in enumerate(ballot):
            first_left = not sides.get(question.pk, bool(random.random() < 0.5))
            sides[question.pk] = first_left
            made.append(
                Vote(
                    session=session,
                    place=number,
                    question=question,
                    kind=kind,
                    voter=voter,
                    role=role,
                    first_left=first_left,
                    answer=_random_answer(kind, random)
                    if is_clicker
                    else _honest_answer(question, kind, threshold, random),
                    seconds=3.0,
                    answered_at=timezone.now(),
                )
            )
    Vote.objects.bulk_create(made)
    return crowd


def _honest_answer(
    question: Question, kind: str, threshold: float, random: np.random.Generator
) -> int:
    retention = [
        trip.chain.retention("overall")[trip.number - 1]
        for trip in (question.first, question.second)
        if trip
    ]
    gap = retention[0] - (threshold if kind == "usable" else retention[1])
    yes = random.random() < 1 / (1 + np.exp(-12 * gap))
    return int(yes) if kind == "usable" else (1 if yes else -1)


def _random_answer(kind: str, random: np.random.Generator) -> int:
    return int(random.integers(2)) if kind == "usable" else int(random.choice((1, -1)))
