"""Admin of staff accounts, and of API tokens, which are shown once and revoked."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.widgets import AdminSplitDateTime
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import Count, DateTimeField, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from leaderboard.models import ApiToken

admin.site.unregister(User)
admin.site.unregister(Group)


@admin.register(User)
class StaffAdmin(UserAdmin):
    """Django's form without the parts that a screen reader cannot read."""

    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")


@admin.register(Group)
class RoleAdmin(GroupAdmin):
    filter_horizontal = ()


class LabelledDateTime(AdminSplitDateTime):
    """Django's two inputs, each with its own label."""

    def __init__(self, attrs: Any = None) -> None:
        super().__init__(attrs)
        for part, name in zip(self.widgets, ("Date", "Time"), strict=True):
            part.attrs["aria-label"] = name


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    list_display = (
        *("holder", "email", "start", "valid", "submission_count", "last_used_at", "created_at"),
    )
    search_fields = ("holder", "email", "start")
    date_hierarchy = "created_at"
    actions = ("revoke",)
    fields = ("holder", "email", "expires_at")
    formfield_overrides = {DateTimeField: {"widget": LabelledDateTime}}

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(n_submissions=Count("submissions"))

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        issued = ("start", "issued_by", "created_at", "last_used_at", "revoked_at")
        return (*self.fields, *issued) if obj else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return [name for name in self.get_fields(request, obj) if name not in self.fields]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a token is revoked: its submissions still refer to it

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        if not change:
            obj.issued_by_id = request.user.pk
            request.new_secret = obj.draw()  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: ApiToken, *args: Any) -> HttpResponse:
        """Show the secret once; not as a message, which would stay in a cookie."""
        context = {
            **self.admin_site.each_context(request),
            "token": obj,
            "secret": request.new_secret,  # type: ignore[attr-defined]
            "title": f"A token for {obj.holder}",
            "opts": self.opts,
        }
        return never_cache(render)(request, "admin/leaderboard/apitoken/issued.html", context)

    @admin.display(description="valid", boolean=True)
    def valid(self, token: ApiToken) -> bool:
        over = token.expires_at is not None and token.expires_at <= timezone.now()
        return token.revoked_at is None and not over

    @admin.display(description="submissions", ordering="n_submissions")
    def submission_count(self, token: Any) -> int:
        return token.n_submissions

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        tokens = list(queryset.filter(revoked_at=None))
        for token in tokens:
            ApiToken.objects.filter(pk=token.pk).update(revoked_at=timezone.now())
            self.log_change(request, token, "Revoked.")
        messages.success(request, f"{len(tokens)} token(s) revoked; they are refused from now on.")
