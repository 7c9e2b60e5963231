"""Ten blind questions: asked fairly, answered once, without revealing the model."""

from __future__ import annotations

import io
import re

import pytest
from django.test import Client
from django.utils import timezone
from PIL import Image

from leaderboard.models import EditingModel, Question, Run, StoredImage, Suite, Use, Vote, Voter
from leaderboard.models.votes import TICKET_LIFE
from leaderboard.people import ballots, questions
from leaderboard.tests.people.conftest import Browser, best

pytestmark = pytest.mark.django_db


def votes_of(session):
    return list(Vote.objects.filter(ticket__in=[q["ticket"] for q in session["questions"]]))


def test_a_session_has_ten_questions_including_a_gold_one_and_a_repeat(board, browser):
    session = browser.begin().json()
    made = votes_of(session)
    assert len(made) == session["total"] == 10
    roles = [vote.role for vote in made]
    assert roles.count("gold") == roles.count("repeat") == 1
    again = next(vote for vote in made if vote.role == "repeat")
    own = next(v for v in made if v.question_id == again.question_id and v.role == "")
    assert again.first_left is not own.first_left
    assert again.place >= own.place + ballots.REPEAT_DISTANCE
    gold = next(vote for vote in made if vote.role == "gold").question
    assert gold.gold == Question.Gold.FIRST
    assert gold.first.chain.retention("overall")[gold.first.number - 1] >= 0.9
    assert gold.second.chain.retention("overall")[gold.second.number - 1] <= 0.1


def test_a_voter_gets_the_rest_of_a_session_before_a_new_one_and_no_question_twice(board, browser):
    first = browser.begin().json()
    browser.answer(first["questions"][0]["ticket"], "left")
    rest = browser.begin().json()
    assert [q["ticket"] for q in rest["questions"]] == [q["ticket"] for q in first["questions"][1:]]
    assert (rest["before"], rest["total"]) == (1, 10)
    for question in rest["questions"]:
        browser.answer(question["ticket"], "neither")
    second = browser.begin().json()
    before = {vote.question_id for vote in votes_of(first)}
    assert not before & {vote.question_id for vote in votes_of(second)}
    assert Voter.objects.count() == 1


@pytest.mark.both_databases
def test_an_answer_is_accepted_once_and_only_from_its_voter(board, browser):
    question = browser.begin().json()["questions"][0]
    ticket = question["ticket"]
    stranger = Browser()
    assert stranger.answer(ticket, "left").status_code == 404
    stranger.begin()
    assert stranger.answer(ticket, "left").status_code == 404
    forged = Browser()
    forged.client.cookies["voter"] = f"{Vote.objects.get(ticket=ticket).voter.key}:x:y"
    assert forged.answer(ticket, "left").status_code == 404
    for wrong in ("up", "yes", "3", "", "left right", "1"):
        assert browser.answer(ticket, wrong).status_code == 422, wrong
    assert browser.answer(ticket, "left", seconds=2.5).status_code == 200
    assert browser.answer(ticket, "right").status_code == 409
    vote = Vote.objects.get(ticket=ticket)
    assert vote.left == 1
    assert vote.seconds == 2.5
    assert browser.answer("A" * 22, "left").status_code == 404


def test_sides_are_stored_as_first_and_second(board, browser):
    for question in browser.begin().json()["questions"]:
        vote = Vote.objects.get(ticket=question["ticket"])
        browser.answer(question["ticket"], "right")
        vote.refresh_from_db()
        assert vote.answer == (-1 if vote.first_left else 1)
        assert vote.left == -1


def test_an_old_ticket_is_rejected(board, browser):
    ticket = browser.begin().json()["questions"][0]["ticket"]
    Vote.objects.update(asked_at=timezone.now() - TICKET_LIFE)
    assert browser.answer(ticket, "left").status_code == 410
    assert browser.client.get(f"/vote/images/{ticket}/left").status_code == 404
    assert not Vote.objects.answered().exists()
    Vote.objects.update(asked_at=timezone.now() - 3 * TICKET_LIFE)
    assert Vote.objects.expired().count() == 10


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{", '"x"', '{"kind": "rating"}', '{"kind": ["pair"]}', "[" * 5000, "x" * 9000],
)
def test_nonsense_is_refused_in_words(board, browser, body):
    answer = browser.post("/vote/session", body)
    assert answer.status_code == 422
    assert "kind" in answer.json()["detail"]
    assert browser.post("/vote/answer", body).status_code == 404
    assert not Vote.objects.exists()


def test_reported_viewing_data_is_bounded(board, browser):
    questions = browser.begin().json()["questions"]
    odd = [
        (True, None),
        ("5", None),
        (1e400, ballots.LONGEST_SECONDS),
        (-3, None),
        (1e9, ballots.LONGEST_SECONDS),
        (10**400, ballots.LONGEST_SECONDS),
    ]
    for (given, kept), question in zip(odd, questions, strict=False):
        looked = {"zoom": 1, "width": 10**9, "name": "x" * 50}
        browser.answer(question["ticket"], "left", seconds=given, looked=looked)
        vote = Vote.objects.get(ticket=question["ticket"])
        assert vote.seconds == kept
        assert vote.looked == {"zoom": False, "flicker": False}


def test_votes_need_the_forms_token_and_post(board):
    strict = Client(enforce_csrf_checks=True)
    for address in ("/vote/session", "/vote/answer"):
        sent = strict.post(address, '{"kind": "pair"}', content_type="application/json")
        assert sent.status_code == 403
        assert strict.get(address).status_code == 405
    assert not Vote.objects.exists()


def test_sessions_per_day_are_limited_by_network_and_voter(board, browser, settings):
    settings.VOTE_SESSIONS_PER_DAY = 2
    browser.vote_all()
    browser.vote_all()
    assert browser.begin().status_code == 429
    assert Browser().begin().status_code == 429  # the same network with another cookie
    assert Browser(REMOTE_ADDR="192.0.2.7").begin().status_code == 200
    kept = set(Use.objects.filter(kind="vote").values_list("subject", flat=True))
    assert not any("127.0.0.1" in subject or "192.0.2.7" in subject for subject in kept)
    fields = {field.name for model in (Vote, Voter) for field in model._meta.get_fields()}
    assert not {name for name in fields if "address" in name or "ip" in name.split("_")}


def test_visitors_who_do_not_vote_are_not_stored(board, client):
    assert client.get("/vote/").status_code == 200
    assert client.get("/vote/?mode=usable").status_code == 200
    assert not Voter.objects.exists()
    assert "voter" not in client.cookies


def test_the_cookie_is_signed_limited_to_votes_and_hidden_from_scripts(board, browser):
    browser.begin()
    cookie = browser.client.cookies["voter"]
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["path"] == "/vote/"
    (voter,) = Voter.objects.all()
    assert cookie.value.startswith(voter.key)
    assert len(cookie.value) > len(voter.key) + 20


def test_without_questions_no_session_starts_and_nothing_is_stored(board, browser):
    Question.objects.update(due=None)
    answer = browser.begin()
    assert answer.status_code == 404
    assert "come back" in answer.json()["detail"]
    assert not Voter.objects.exists()
    assert "Questions appear here some minutes" in browser.client.get("/vote/").content.decode()


# Nothing that is sent tells which model made an image.


def everything_sent(browser, question):
    """Status, headers and bytes of all that belongs to a question."""
    found = {}
    for side, address in question["images"].items():
        answer = browser.client.get(address)
        assert answer.status_code == 200
        headers = {k: v for k, v in answer.items() if k != "Content-Security-Policy"}
        found[side] = (headers, answer.content, address)
    return found


def test_voters_receive_the_same_for_every_model_except_the_pixels(board, browser):
    session = browser.begin().json()
    names = [*EditingModel.objects.values_list("name", "slug", "provider")]
    hashes = list(StoredImage.objects.values_list("pk", flat=True))
    seen_text = str(session) + browser.client.get("/vote/").content.decode()
    seen_models, heads, lengths = set(), set(), set()
    public = {}
    for stored in StoredImage.objects.all():
        for form in ("copy", "thumbnail"):
            sent = browser.client.get(f"/images/{form}/{stored.pk}")
            public[b"".join(sent.streaming_content)] = stored.pk
    for question in session["questions"]:
        vote = Vote.objects.get(ticket=question["ticket"])
        pair = (vote.question.first, vote.question.second)
        seen_models |= {trip.chain.run.editing_model.slug for trip in pair}
        source = vote.question.case.image.stored
        sent = everything_sent(browser, question)
        first, second = (trip.restored for trip in pair)
        left, right = (first, second) if vote.first_left else (second, first)
        stored_by_side = {"source": source, "left": left, "right": right}
        assert set(sent) == set(stored_by_side)
        for side, (_, data, _) in sent.items():
            size = (source.width, source.height)
            assert data == ballots.read_image(stored_by_side[side], size), side
        for headers, data, address in sent.values():
            seen_text += f"{headers} {address}"
            heads.add(str(sorted((k, v) for k, v in headers.items() if k != "Content-Length")))
            lengths.add(len(data) % ballots.PADDED_TO)
            image = Image.open(io.BytesIO(data))
            # One size and one form, whatever size and form the model answers in.
            assert (image.format, image.size) == ("WEBP", (source.width, source.height))
            assert not image.getexif()
            assert not set(image.info) & {"exif", "xmp", "icc_profile", "comment"}
            # Not the bytes of any public page, so no hash, no length and no ETag leads there.
            assert data not in public
            assert not any(pk.encode() in data for pk in hashes)
            assert re.fullmatch(r"/vote/images/[\w-]{22}/(source|left|right)", address)
    assert len(seen_models) >= 3
    assert len(heads) == 1
    assert lengths == {0}
    head = next(iter(heads))
    assert "no-store" in head
    for tell in ("ETag", "Last-Modified", "Age", "X-Cache"):
        assert tell not in head
    for name, slug, _ in names:
        assert name not in seen_text.replace("Noise", "") or name == "Noise"
        assert f'"{slug}"' not in seen_text
    assert not any(pk in seen_text for pk in hashes)
    keys = {key for question in session["questions"] for key in question}
    assert keys == {"ticket", "width", "height", "images"}


def test_sides_and_order_are_random(board):
    """Over many voters no model has a fixed side and gold questions have no fixed place."""
    left = [0, 0]
    places = set()
    for number in range(30):
        browser = Browser(REMOTE_ADDR=f"192.0.2.{number}")
        for vote in votes_of(browser.begin().json()):
            if vote.role == "gold":
                places.add(vote.place)
                left[0] += vote.first_left
                left[1] += 1
    assert 5 <= left[0] <= 25
    assert left[1] == 30
    assert len(places) >= 5


def test_an_image_is_served_to_its_voter_until_the_answer_and_never_after(board, browser):
    question = browser.begin().json()["questions"][0]
    address = question["images"]["left"]
    assert Browser().client.get(address).status_code == 404
    assert browser.client.get(address).status_code == 200
    browser.answer(question["ticket"], "left")
    assert browser.client.get(address).status_code == 404


def test_names_are_revealed_only_after_the_session(board, browser):
    session = browser.begin().json()
    again = {vote.question_id for vote in votes_of(session) if vote.role}
    last = next(vote for vote in votes_of(session) if vote.question_id not in again).ticket
    most = [question for question in session["questions"] if question["ticket"] != last]
    for question in most:
        browser.answer(question["ticket"], best(question["ticket"]))
    assert browser.client.get(session["done"]).status_code == 302
    browser.answer(last, "neither")
    assert Browser().client.get(session["done"]).status_code == 302  # another voter's session
    page = browser.client.get(session["done"]).content.decode()
    assert "Beech" in page or "Cedar" in page or "Alder" in page
    assert "You could not say." in page
    assert "This question was a test with a known answer" in page
    assert "You were asked twice" in page
    assert "Thank you: 10 questions answered, one of them twice" in page
    assert "You are the first to answer this question." in page
    assert page.count("<li>") >= 9


def test_withdrawn_and_sealed_runs_are_never_asked_about_or_shown(board, browser):
    question = browser.begin().json()["questions"][0]
    ticket, address = question["ticket"], question["images"]["left"]
    vote = Vote.objects.get(ticket=ticket)
    run = vote.question.first.chain.run
    Run.objects.filter(pk=run.pk).update(published=False)
    assert browser.client.get(address).status_code == 404
    other = Browser()
    for asked in votes_of(other.begin().json()):
        pair = (asked.question.first, asked.question.second)
        assert run.pk not in {trip.chain.run_id for trip in pair}
    questions.refresh()
    hidden = Question.objects.open().filter(first__chain__run=run)
    assert not hidden.exists()
    Run.objects.filter(pk=run.pk).update(published=True)
    Suite.objects.filter(pk=board.pk).update(sealed=True)
    assert Browser().begin().status_code == 404
    assert browser.client.get(address).status_code == 404
    questions.refresh()
    assert not Question.objects.open().exists()


def test_single_images_are_asked_about_too(board, browser):
    session = browser.vote_all("usable")
    made = votes_of(session)
    assert {vote.kind for vote in made} == {"usable"}
    assert {vote.answer for vote in made} <= {0, 1}
    assert all(set(q["images"]) == {"source", "left"} for q in session["questions"])
    page = browser.client.get(session["done"]).content.decode()
    assert "You could still use it." in page or "You could no longer use it." in page


def test_most_pairs_differ_visibly_and_some_are_hard(board, browser):
    Question.objects.open().filter(gold="").update(ease=0.5)
    hard = list(Question.objects.open().filter(kind="pair", gold="").order_by("due")[:30])
    # The most informative pairs are those that no one can distinguish.
    Question.objects.filter(pk__in=[question.pk for question in hard]).update(ease=0.02)
    made = votes_of(browser.begin().json())
    eases = [vote.question.ease for vote in made if not vote.role]
    assert len(eases) == 8
    assert sum(ease < questions.VISIBLE for ease in eases) == round(8 * questions.HARD)


def test_no_question_is_about_two_images_that_look_the_same(board):
    rows = Question.objects.open().filter(kind="pair", gold="")
    assert all(row.ease >= questions.SAME for row in rows)


def test_equal_numbers_are_never_a_disagreement(board, browser):
    session = browser.vote_all()
    page = browser.client.get(session["done"]).content.decode()
    rows = re.findall(
        r'<td class="num">([^<]*)</td>\s*<td class="num">([^<]*)</td>\s*<td>([^<]*)</td>', page
    )
    assert rows
    for left, right, word in rows:
        assert (word == "no difference") == (left == right)
