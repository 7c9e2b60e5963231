"""A model: how long it keeps a picture, where it fails, and how that was measured."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from leaderboard.models import EditingModel, Run


@require_safe
def detail(request: HttpRequest, slug: str) -> HttpResponse:
    published = EditingModel.objects.filter(status=EditingModel.Status.PUBLISHED)
    model = get_object_or_404(
        EditingModel.objects if request.user.is_staff else published, slug=slug
    )
    runs = Run.objects.visible_to(request.user).filter(editing_model=model)
    context = {"model": model, "runs": runs.select_related("suite")}
    return render(request, "leaderboard/model.html", context)
