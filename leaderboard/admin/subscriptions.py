"""Who follows what, and whether the messages arrive. Addresses stay hidden, also from admins."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from leaderboard.models import Delivery, Subscription


class DeliveryInline(admin.TabularInline):
    model = Delivery
    fields = readonly_fields = ("title", "created_at", "sent_at", "attempts", "next_at", "error")
    extra = 0
    can_delete = False
    ordering = ("-pk",)
    verbose_name_plural = "messages"

    def has_add_permission(self, *args: Any) -> bool:
        return False

    def has_change_permission(self, *args: Any) -> bool:
        return False


@admin.register(Subscription)
class SubscriptionAdmin(admin.ModelAdmin):
    """Made and confirmed by subscribers alone; an admin can see how it goes, and end it."""

    list_display = ("about", "way", "state", "arrived", "waiting", "last_arrived", "created_at")
    list_filter = ("way", ("ended_at", admin.EmptyFieldListFilter))
    list_select_related = ("editing_model", "suite", "submission")
    search_fields = ("editing_model__name", "suite__title", "submission__name")
    date_hierarchy = "created_at"
    fields = readonly_fields = ("about", "way", "state", "created_at", "confirmed_at", "ended_at")
    inlines = (DeliveryInline,)
    actions = ("end",)

    def get_queryset(self, request: HttpRequest) -> Any:
        sent = Q(deliveries__sent_at__isnull=False)
        return (
            super()
            .get_queryset(request)
            .annotate(
                n_arrived=Count("deliveries", filter=sent),
                n_waiting=Count("deliveries", filter=~sent),
                n_failing=Count("deliveries", filter=~sent & ~Q(deliveries__error="")),
                arrived_at=Max("deliveries__sent_at"),
            )
        )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # what has ended is deleted with its address within two days

    @admin.display(description="about")
    def about(self, subscription: Subscription) -> str:
        return subscription.subject

    @admin.display(description="state")
    def state(self, subscription: Any) -> str:
        if subscription.ended_at:
            return "Ended"
        if subscription.confirmed_at is None:
            return "Not confirmed"
        return "Messages do not arrive" if subscription.n_failing else "Active"

    @admin.display(description="arrived", ordering="n_arrived")
    def arrived(self, subscription: Any) -> int:
        return subscription.n_arrived

    @admin.display(description="on the way", ordering="n_waiting")
    def waiting(self, subscription: Any) -> int:
        return subscription.n_waiting

    @admin.display(description="last arrived", ordering="arrived_at")
    def last_arrived(self, subscription: Any) -> Any:
        return subscription.arrived_at

    @admin.action(description="End: nothing more is sent", permissions=["change"])
    def end(self, request: HttpRequest, queryset: QuerySet[Subscription]) -> None:
        going = list(queryset.filter(ended_at=None))
        for subscription in going:
            Subscription.objects.filter(pk=subscription.pk).update(ended_at=timezone.now())
            self.log_change(request, subscription, "Ended.")
        messages.success(request, f"{len(going)} subscription(s) ended; nothing more is sent.")
