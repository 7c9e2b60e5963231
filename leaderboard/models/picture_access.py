"""Who may see a stored picture: whoever may see something that shows it, while it does."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from leaderboard.models.audits import Audit
from leaderboard.models.chains import Trip, TripStep
from leaderboard.models.pictures import StoredImage
from leaderboard.models.runs import Run, RunState
from leaderboard.models.suites import Curation, SourceImage, SuitePicture
from leaderboard.models.uploads import UploadedChain, UploadedPicture


def visible_pictures(user: Any) -> QuerySet[StoredImage]:
    """The pictures this visitor may see; asked for one, it is a few lookups by index.

    Pictures of a suite, of runs that the visitor may look at, and of chains that were brought
    in the last day: of those only their own pages tell the hashes.
    """
    if user.is_staff:
        return StoredImage.objects.all()
    this = OuterRef("pk")
    runs = Run.objects.visible_to(user)
    trips = Trip.objects.filter(chain__run__in=runs)
    # Before the end nobody may know what is audited.
    audits = Audit.objects.filter(chain__run__in=runs.filter(state=RunState.FINISHED))
    return StoredImage.objects.filter(
        Q(Exists(SuitePicture.objects.filter(stored=this, suite__sealed=False)))
        | Q(Exists(SourceImage.objects.filter(stored=this).exclude(status=Curation.DRAFT)))
        | Q(Exists(trips.filter(edited=this)))
        | Q(Exists(trips.filter(restored=this)))
        | Q(Exists(TripStep.objects.filter(chain__run__in=runs, picture=this)))
        | Q(Exists(audits.filter(sent=this)))
        | Q(Exists(audits.filter(answer=this)))
        | Q(
            Exists(
                UploadedPicture.objects.filter(stored=this, chain__in=UploadedChain.objects.kept())
            )
        )
    )
