"""Admins see who is told of what and whether it arrives, but no address and no secret."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from leaderboard.models import Delivery, Subscription
from leaderboard.testing.boards import make_model, make_suite

pytestmark = pytest.mark.django_db
ADDRESS = "https://hooks.example.org/canary-41c"
LIST = "/admin/leaderboard/subscription/"


@pytest.fixture
def subscription():
    made = Subscription.objects.create(
        way=Subscription.Way.WEBHOOK,
        address=ADDRESS,
        editing_model=make_model("Alpha"),
        confirmed_at=timezone.now(),
    )
    Delivery.objects.create(subscription=made, key="a", title="Alpha is new", url="/")
    Delivery.objects.create(
        subscription=made, key="b", title="Alpha fell", url="/", error="it answered 500"
    )
    Subscription.objects.create(way="email", address="ada@example.org", suite=make_suite())
    return made


@pytest.fixture
def operator(client):
    user = User.objects.create_user("grace", password="a long password", is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
    client.force_login(user)
    return client


def test_the_list_and_the_page_tell_how_it_goes_and_hide_the_address(operator, subscription):
    page = f"{LIST}{subscription.pk}/change/"
    for address in (LIST, page):
        html = operator.get(address).content.decode()
        assert "Alpha" in html
        assert "Messages do not arrive" in html
        for secret in (ADDRESS, "canary", "ada@", subscription.token):
            assert secret not in html
        assert subscription.secret.reveal() not in html
    assert "it answered 500" in html
    assert "Not confirmed" in operator.get(LIST).content.decode()


def test_an_operator_ends_one_and_can_make_change_or_delete_none(operator, subscription):
    answer = operator.post(
        LIST, {"action": "end", "_selected_action": [subscription.pk]}, follow=True
    )
    assert "1 subscription(s) ended" in answer.content.decode()
    subscription.refresh_from_db()
    assert subscription.ended_at
    assert operator.get(f"{LIST}add/").status_code == 403
    assert operator.get(f"{LIST}{subscription.pk}/delete/").status_code == 403
    operator.post(f"{LIST}{subscription.pk}/change/", {"address": "https://evil.example"})
    subscription.refresh_from_db()
    assert subscription.address.reveal() == ADDRESS


def test_a_curator_sees_none_of_it(client, subscription):
    user = User.objects.create_user("ada", password="a long password", is_staff=True)
    user.groups.add(Group.objects.get(name="curator"))
    client.force_login(user)
    assert client.get(LIST).status_code == 403


def test_the_list_takes_the_same_queries_for_any_number(
    operator, subscription, django_assert_max_num_queries
):
    for number in range(5):
        Subscription.objects.create(
            way="webhook", address=ADDRESS, editing_model=make_model(f"Model {number}")
        )
    with django_assert_max_num_queries(12):
        operator.get(LIST)
