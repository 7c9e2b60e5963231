"""Under which model a brought run stands: never under one that is somebody else's."""

from __future__ import annotations

from django.utils.text import slugify

from evaluation.bundle.format import BundleError
from leaderboard.models import BroughtRun, EditingModel
from leaderboard.text import skeleton

#: Of a model whose runs are brought: there is nothing here to play it with.
EDITOR = "elsewhere"


def taken_name(name: str) -> str | None:
    """The model on the site whose name looks the same; None where there is none."""
    wanted = skeleton(name)
    names = EditingModel.objects.values_list("name", flat=True)
    return next((known for known in names if skeleton(known) == wanted), None)


def free_slug(name: str) -> str:
    """An address of its own for a new model."""
    base = slugify(name)[:70] or "model"
    taken = set(EditingModel.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    return next(s for s in (base, *(f"{base}-{n}" for n in range(2, 10_000))) if s not in taken)


def model_of(brought: BroughtRun) -> EditingModel:
    """The model of a run that was checked: a new one, or one that the same person brought."""
    known = brought.editing_model
    if known is not None:
        if known.status != EditingModel.Status.PUBLISHED:  # an admin hid it, or it was withdrawn
            raise BundleError(f"“{known.name}” is no longer on the site: please write to us")
        return known
    if taken := taken_name(brought.name):
        raise BundleError(f"“{taken}” is on the site by now: bring it under another name")
    return EditingModel.objects.create(
        slug=free_slug(brought.name),
        name=brought.name,
        provider=brought.brought_by[:80],
        organisation=brought.brought_by,
        editor=EDITOR,
        access=EditingModel.Access.ELSEWHERE,
        paper_url=brought.paper_url,
        code_url=brought.code_url,
        notes="Brought as a bundle of a run that was played elsewhere; it cannot be played here.",
    )
