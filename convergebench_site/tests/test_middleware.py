"""Requests that are too long, too slow or contain zero bytes cost almost nothing."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from convergebench_site.middleware import RequestLimits, WithoutInlineBlocks
from convergebench_site.tests.conftest import WebServer

MB = 2**20


def answer(method: str, path: str, **environment: str) -> HttpResponse:
    request = RequestFactory().generic(method, path, **environment)
    return RequestLimits(lambda _: HttpResponse("taken"))(request)


@pytest.mark.parametrize(
    ("method", "path", "length", "status"),
    [
        ("GET", "/livez", "1", 413),
        ("GET", "/livez", "0", 200),
        ("POST", "/livez", str(600 * MB), 413),
        ("POST", "/submit/", str(5 * MB), 413),
        ("POST", "/submit/", "100", 200),
        ("POST", "/upload/", str(121 * MB), 200),
        ("POST", "/upload/", str(200 * MB), 413),
        ("POST", "/upload/", "9" * 5_000, 411),
        ("POST", "/upload/", "-1", 411),
        ("POST", "/upload/", "1_0", 411),
        ("PUT", "/api/v1/submissions", str(5 * MB), 413),
    ],
)
def test_the_length_of_a_body_is_checked_before_it_is_read(method, path, length, status):
    assert answer(method, path, CONTENT_LENGTH=length).status_code == status


def test_a_body_of_unknown_length_is_not_read():
    assert answer("POST", "/upload/", HTTP_TRANSFER_ENCODING="chunked").status_code == 411


def test_long_bodies_do_not_occupy_all_threads(settings):
    settings.LONG_BODIES_AT_ONCE = 1
    inside, go_on = threading.Event(), threading.Event()

    def view(request) -> HttpResponse:
        inside.set()
        go_on.wait(10)
        return HttpResponse("read")

    limits = RequestLimits(view)
    long = RequestFactory().post("/upload/", CONTENT_LENGTH=str(50 * MB))
    first = threading.Thread(target=limits, args=(long,))
    first.start()
    assert inside.wait(10)
    refused = limits(RequestFactory().post("/upload/", CONTENT_LENGTH=str(50 * MB)))
    go_on.set()
    first.join()
    assert refused.status_code == 503
    assert refused["Retry-After"]
    assert limits(RequestFactory().post("/upload/", CONTENT_LENGTH=str(50 * MB))).status_code == 200


def test_a_queue_page_has_the_length_of_its_header():
    page = b'<style>a { color: red }</style><p style="margin: 0">jobs</p>'

    def view(request) -> HttpResponse:
        return HttpResponse(page, headers={"Content-Length": str(len(page))})

    response = WithoutInlineBlocks(view)(RequestFactory().get("/admin/queues/"))
    assert response.content == b"<p>jobs</p>"
    assert int(response["Content-Length"]) == len(response.content)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "/submissions/%00/",
            "/submissions/%00/state.json",
            "/upload/%00/",
            "/upload/a%00/state.json",
        ),
        *("/api/v1/submissions/%00", "/api/v1/runs?model=%00", "/?sort=a%00b"),
        *("/api/v1/published-figures?metric=%00", "/models/%00/", "/admin/login/?next=%00"),
    ],
)
def test_a_zero_byte_in_a_url_is_refused_before_any_query(client, address):
    # This test may not use the database, so a query would make it fail.
    assert client.get(address).status_code == 404


def test_a_zero_byte_in_a_cookie_is_refused(client):
    client.cookies["sessionid"] = "a\0b"
    assert client.get("/livez").status_code == 404


# A real server.


@pytest.mark.slow
def test_unfinished_requests_are_dropped(server: WebServer):
    beginnings = (
        b"GET /livez HT",
        b"POST /submit/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx",
    )
    held = []
    for number in range(40):
        sock = socket.create_connection(("127.0.0.1", server.port))
        sock.sendall(beginnings[number % 2])
        held.append(sock)
    try:
        assert server.get("/livez", timeout=60) == 200  # late, but it answers
    finally:
        for sock in held:
            sock.close()


@pytest.mark.slow
def test_600_megabytes_do_not_reach_the_disk(server: WebServer):
    before = shutil.disk_usage(tempfile.gettempdir()).free
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        head = f"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: {600 * MB}\r\n"
        sock.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n")
        sent, piece = 0, b"x" * MB
        try:
            while sent < 600:
                sock.sendall(piece)
                sent += 1
        except OSError:
            pass  # the server closed the connection, as it may
    assert before - shutil.disk_usage(tempfile.gettempdir()).free < 100 * MB
    assert server.get("/livez") == 200
