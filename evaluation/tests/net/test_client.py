"""The HTTP client against a hostile server and a hostile resolver (faults.md 1-12, 19-24, 47)."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from evaluation.editors import load_editor
from evaluation.errors import EditorError, Fault
from evaluation.images import EncodedImage
from evaluation.net import backend
from evaluation.net import client as client_module
from evaluation.net.addresses import AddressRefused, Rules
from evaluation.net.client import HttpClient
from evaluation.testing.certificates import Authority
from evaluation.testing.hostile_server import HEAD, HostileServer, Received, failure, response
from evaluation.testing.resolvers import PUBLIC, resolver
from evaluation.testing.waiting import wait_until


def test_a_reply_has_status_headers_and_body(client: HttpClient, server: HostileServer) -> None:
    url = server.answers("/ok", response(201, b"body", "Image/PNG; x=1", X_Some="thing"))
    reply = client.send("POST", url + "?a=b", headers={"X-Mine": "1"}, content=b"hi", timeout=10)
    assert (reply.status, reply.body, reply.media_type) == (201, b"body", "image/png")
    assert reply.headers["x-some"] == "thing"
    (received,) = server.received
    assert (received.method, received.path, received.body) == ("POST", "/ok?a=b", b"hi")
    assert received.headers["host"] == f"127.0.0.1:{server.port}"
    assert received.headers["accept-encoding"] == "identity"
    assert received.headers["x-mine"] == "1"
    assert "body" not in repr(reply)


def test_connections_are_kept_and_shared_by_threads(
    client: HttpClient, server: HostileServer
) -> None:
    url = server.answers("/ok", response(200, b"x" * 1000))
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: client.send("GET", url, timeout=5), range(80)))
    assert {len(reply.body) for reply in replies} == {1000}
    assert server.connections <= 8


def test_idle_connections_are_closed(
    client: HttpClient, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that always answers with addresses on new hosts must not exhaust our sockets."""
    monkeypatch.setattr(client_module, "KEEPALIVE_SECONDS", 0.05)
    url = server.answers("/ok", response(200, b"x"))
    together = threading.Barrier(8)

    def answer(connection: socket.socket, _: Received) -> None:
        together.wait(timeout=5)
        connection.sendall(response(200, b"x"))

    at_once = server.does("/at-once", answer)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.send("GET", at_once, timeout=5), range(8)))
    assert server.connections == 8
    time.sleep(0.1)
    client.send("GET", url, timeout=5)
    assert len(client._backend._sockets) == 1


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (response(200, b"hello"), 1),
        (response(200, b"", Connection="close"), 3),
        (response(200, b"").replace(b"HTTP/1.1", b"HTTP/1.0"), 3),
    ],
)
def test_a_connection_is_kept_when_the_server_keeps_it(
    client: HttpClient, server: HostileServer, answer: bytes, connections: int
) -> None:
    url = server.answers("/", answer)
    for _ in range(3):
        client.send("GET", url, timeout=5)
    assert server.connections == connections


def test_an_idle_connection_is_dropped_when_the_server_sends_data(
    client: HttpClient, server: HostileServer
) -> None:
    def speak_on(connection: socket.socket, _: Any) -> None:
        connection.sendall(response(200, b"x"))
        time.sleep(0.1)
        connection.sendall(response(408))

    url = server.does("/", speak_on)
    assert client.send("GET", url, timeout=5).status == 200
    time.sleep(0.3)
    assert client.send("GET", url, timeout=5).status == 200
    assert server.connections == 2


def test_nothing_is_taken_from_the_environment(
    client: HttpClient, server: HostileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret")
    monkeypatch.setenv("HOME", str(tmp_path))
    url = server.answers("/ok", response(200, b"direct", Set_Cookie="a=b"))
    assert client.send("GET", url, timeout=10).body == b"direct"
    client.send("GET", url, timeout=10)
    assert not {"authorization", "cookie", "proxy-authorization"} & set(server.received[1].headers)


def test_a_refused_connection_can_be_retried(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = failure(client, f"http://127.0.0.1:{port}/")
    assert (error.fault, error.permanent, error.billed) == (Fault.UNREACHABLE, False, False)


# --- names and addresses -----------------------------------------------------------------


def test_a_private_address_is_blocked_and_reported(events: list[tuple[str, str]]) -> None:
    client = HttpClient(Rules(), on_security_event=lambda *event: events.append(event))
    for call in (client.check, client.parse, lambda url: failure(client, url)):
        events.clear()
        try:
            error = call("https://169.254.169.254/latest/meta-data")
        except AddressRefused as refused:
            error = refused
        assert error.fault is Fault.BLOCKED
        assert [kind for kind, _ in events] == ["address"]
        assert "169.254.169.254" in events[0][1]


def test_a_typing_error_is_no_security_event(events: list[tuple[str, str]]) -> None:
    client = HttpClient(Rules(), on_security_event=lambda *event: events.append(event))
    with pytest.raises(AddressRefused):
        client.check("htps://example.com")
    assert events == []


def test_a_name_that_turns_private_after_the_check_is_blocked_at_connect(
    server: HostileServer, events: list[tuple[str, str]]
) -> None:
    """DNS rebinding: public at submission, loopback at the call. The server must get nothing."""
    rules = Rules(resolver=resolver(PUBLIC, "127.0.0.1"), ports=frozenset({server.port}))
    client = HttpClient(rules, on_security_event=lambda *event: events.append(event))
    url = f"https://rebind.example:{server.port}/"
    assert client.check(url).host == "rebind.example"
    error = failure(client, url)
    assert (error.fault, error.permanent) == (Fault.BLOCKED, True)
    assert events == [("address", events[0][1])]
    assert "127.0.0.1" in events[0][1]
    assert server.connections == 0


def test_the_socket_is_opened_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is not looked up again, since the second answer may differ."""
    dialled: list[Any] = []

    def connect(_: socket.socket, address: Any) -> None:
        dialled.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(backend.socket.socket, "connect", connect)
    client = HttpClient(Rules(resolver=resolver([PUBLIC, "93.184.216.35"], "127.0.0.1")))
    assert failure(client, "https://rebind.example/").fault is Fault.UNREACHABLE
    assert dialled == [(PUBLIC, 443), ("93.184.216.35", 443)]


def test_a_name_with_hundreds_of_addresses_costs_four_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[Any] = []

    def connect(_: socket.socket, address: Any) -> None:
        attempts.append(address)
        raise TimeoutError

    monkeypatch.setattr(backend.socket.socket, "connect", connect)
    many = [f"93.184.{n}.1" for n in range(200)]
    client = HttpClient(Rules(resolver=resolver(many)))
    assert failure(client, "https://many.example/").fault is Fault.TIMEOUT
    assert len(attempts) == 4


def test_our_own_address_is_recognised_by_the_source_of_the_connection(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public address of this machine that is not on the deny list."""
    real = socket.socket.connect
    monkeypatch.setattr(
        backend.socket.socket,
        "connect",
        lambda sock, _: real(sock, ("127.0.0.1", server.port)),
    )
    client = HttpClient(Rules(resolver=resolver(PUBLIC)))
    error = failure(client, "https://own.example/")
    assert (error.fault, error.message) == (Fault.BLOCKED, "cannot benchmark this server")
    assert server.received == []


def test_a_stalling_name_server_does_not_block_the_call() -> None:
    release = threading.Event()

    def stalls(*_: Any) -> Any:
        release.wait(5)
        raise socket.gaierror

    client = HttpClient(Rules(resolver=stalls))
    start = time.monotonic()
    error = failure(client, "https://slow.example/", timeout=0.2)
    assert time.monotonic() - start < 2.5
    release.set()
    assert (error.fault, error.permanent) == (Fault.UNREACHABLE, False)
    assert "cannot resolve" in error.message


# --- TLS ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def test_tls_verifies_the_name_and_not_the_address(authority: Authority) -> None:
    with HostileServer(authority.server_context()) as server:
        url = server.answers("/ok", response(200, b"secure"))
        client = HttpClient(Rules(allow_local=True), ssl_context=authority.client_context())
        assert client.send("GET", url, timeout=10).body == b"secure"
        assert client.send("GET", url, timeout=10).body == b"secure"
        assert server.connections == 1
        client.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"days": -5}, "expired"),
        ({"host": "other.example"}, "not valid for 'localhost'"),
        ({"self_signed": True}, "self-signed"),
    ],
)
def test_a_bad_certificate_is_a_permanent_error_with_its_reason(
    authority: Authority, options: dict[str, Any], reason: str
) -> None:
    with HostileServer(authority.server_context(**options)) as server:
        url = server.answers("/ok", response(200, b"secret"))
        client = HttpClient(Rules(allow_local=True), ssl_context=authority.client_context())
        error = failure(client, url)
    assert (error.fault, error.permanent) == (Fault.TLS, True)
    assert reason in error.message
    assert server.received == []


def test_an_unknown_authority_is_not_trusted(authority: Authority) -> None:
    with HostileServer(authority.server_context()) as server:
        error = failure(HttpClient(Rules(allow_local=True)), server.url("/"))
    assert (error.fault, error.permanent) == (Fault.TLS, True)


def test_plain_http_behind_an_https_address_is_a_tls_error(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, ThreadPoolExecutor(1) as pool:
        url = f"https://127.0.0.1:{plain.getsockname()[1]}/"
        call = pool.submit(failure, client, url)
        connection, _ = plain.accept()
        connection.sendall(response(400, b"speak HTTP"))
        error = call.result()
        connection.close()
    assert (error.fault, error.permanent) == (Fault.TLS, True)
    assert "wrong version number" in error.message


def test_a_tls_handshake_that_never_ends_meets_the_deadline(authority: Authority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = HttpClient(Rules(allow_local=True), ssl_context=authority.client_context())
        start = time.monotonic()
        error = failure(client, f"https://localhost:{silent.getsockname()[1]}/", timeout=0.3)
    assert error.fault is Fault.TIMEOUT
    assert time.monotonic() - start < 2.5


# --- redirects ---------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_fault_and_is_not_followed(
    client: HttpClient, server: HostileServer, events: list[tuple[str, str]], status: int
) -> None:
    server.answers("/there", response(200, b"followed"))
    error = failure(client, server.answers("/", response(status, Location="/there")))
    assert (error.fault, error.permanent) == (Fault.CONFIGURATION, True)
    assert server.url("").rstrip("/") in error.message
    assert [r.path for r in server.received] == ["/"]
    assert events == []


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://0xa9fea9fe/",
        "http://[::ffff:169.254.169.254]/",
    ],
)
def test_a_redirect_to_a_private_host_is_a_security_event(
    client: HttpClient, server: HostileServer, events: list[tuple[str, str]], location: str
) -> None:
    error = failure(client, server.answers("/", response(302, Location=location)))
    assert (error.fault, error.permanent) == (Fault.BLOCKED, True)
    assert [kind for kind, _ in events] == ["redirect"]


@pytest.mark.parametrize("location", ["", "file:///etc/passwd", "http://[", "javascript:1", "\x01"])
def test_a_redirect_to_nowhere_is_a_fault(
    client: HttpClient, server: HostileServer, location: str
) -> None:
    error = failure(client, server.answers("/", response(302, Location=location)))
    assert error.permanent
    assert not error.fault.breaks_chain


# --- deadlines ---------------------------------------------------------------------------

SLOW: dict[str, Callable[[HostileServer], str]] = {
    "silence": lambda s: s.does("/", lambda c, _: s.stop.wait(5) and None),
    "a head that never ends": lambda s: s.drips("/", HEAD, b"X-A: b\r\n", 0.02),
    "a head that drips": lambda s: s.drips("/", b"HTTP/1.1 200 ", b"O", 0.02),
    "a body that drips": lambda s: s.drips(
        "/", HEAD + b"Content-Length: 100000\r\n\r\n", b".", 0.02
    ),
    "chunks that drip": lambda s: s.drips(
        "/", HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n.\r\n", 0.02
    ),
    "endless 100 Continue": lambda s: s.drips("/", b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.02),
}


@pytest.mark.parametrize("how", SLOW)
def test_the_deadline_is_wall_time_for_the_whole_call(
    client: HttpClient, server: HostileServer, how: str
) -> None:
    start = time.monotonic()
    error = failure(client, SLOW[how](server), timeout=0.3)
    assert time.monotonic() - start < 2.5
    assert (error.fault, error.permanent) == (Fault.TIMEOUT, False)
    assert "0.3 s" in error.message


def test_a_server_that_does_not_read_meets_the_deadline(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        start = time.monotonic()
        with pytest.raises(EditorError) as caught:
            client.send("POST", url, content=b"x" * 20_000_000, timeout=0.3)
    assert caught.value.fault is Fault.TIMEOUT
    assert time.monotonic() - start < 2.5


def test_closing_ends_the_calls_in_flight_at_once(
    client: HttpClient, server: HostileServer, authority: Authority
) -> None:
    url = server.does("/", lambda *_: server.stop.wait(5) and None)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(failure, client, url, timeout=30) for _ in range(4)]
        wait_until(lambda: server.connections == 4)
        start = time.monotonic()
        client.close()
        errors = [call.result(timeout=10) for call in calls]
    assert time.monotonic() - start < 2
    assert {error.fault for error in errors} == {Fault.UNREACHABLE}
    assert all(error.permanent for error in errors)
    assert "we cancelled" in failure(client, url).message


def test_closing_ends_a_tls_handshake(authority: Authority) -> None:
    client = HttpClient(Rules(allow_local=True), ssl_context=authority.client_context())
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        ThreadPoolExecutor(1) as pool,
    ):
        url = f"https://localhost:{silent.getsockname()[1]}/"
        call = pool.submit(failure, client, url, timeout=30)
        connection, _ = silent.accept()
        connection.recv(1)  # the handshake has begun
        start = time.monotonic()
        client.close()
        assert call.result(timeout=10).fault is Fault.UNREACHABLE
        assert time.monotonic() - start < 2
        connection.close()


def test_an_address_stays_blocked_when_the_event_cannot_be_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: str) -> None:
        raise RuntimeError("database is locked")

    client = HttpClient(Rules(), on_security_event=broken)
    assert failure(client, "https://10.0.0.1/").fault is Fault.BLOCKED
    assert "not recorded" in caplog.text


def test_tls_contexts_verify_by_default() -> None:
    context = backend.trusted_authorities()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


# --- addresses of the operator -----------------------------------------------------------


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpClient]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    client = HttpClient(None, name="The provider")
    yield client
    client.close()


def test_one_deadline_covers_all_requests_of_a_call(
    trusted: HttpClient, server: HostileServer
) -> None:
    def slowly(connection: socket.socket, _: Any) -> None:
        time.sleep(0.4)
        connection.sendall(response(200, b"{}"))

    url = server.does("/", slowly)
    with trusted.call(1.1) as budget:
        assert trusted.send("GET", url).body == b"{}"
        assert trusted.send("GET", url).body == b"{}"
        with pytest.raises(EditorError, match=r"The provider: no complete answer within 1\.1 s"):
            trusted.send("GET", url)
    assert budget.sent


def test_sleep_ends_with_the_call_and_with_the_client(trusted: HttpClient) -> None:
    started = time.monotonic()
    with trusted.call(0.1), pytest.raises(EditorError) as late:
        trusted.sleep(30)
    assert late.value.fault is Fault.TIMEOUT
    threading.Timer(0.1, trusted.close).start()
    with trusted.call(30), pytest.raises(EditorError, match="we cancelled"):
        trusted.sleep(30)
    assert time.monotonic() - started < 2


def test_a_proxy_of_the_environment_is_used_within_the_deadline(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url(""))
    server.answers("http://api.example.org:80/x", response(200, b"{}"))
    server.does("http://api.example.org:80/slow", lambda *_: server.stop.wait(5) and None)
    client = HttpClient(None)
    assert client.send("GET", "http://api.example.org/x", timeout=5).body == b"{}"
    assert server.received[0].headers["host"] == "api.example.org"
    with pytest.raises(EditorError) as caught:
        client.send("GET", "http://api.example.org/slow", timeout=0.2)
    assert caught.value.fault is Fault.TIMEOUT
    client.close()


@pytest.mark.parametrize("url", ["ftp://example.org/", "http://[::1", "/path", "https://"])
def test_an_address_that_is_no_http_url_is_a_configuration_fault(
    trusted: HttpClient, url: str
) -> None:
    with pytest.raises(EditorError) as caught:
        trusted.send("GET", url, timeout=1)
    assert caught.value.fault is Fault.CONFIGURATION


def test_close_ends_a_call_inside_tls(authority: Authority) -> None:
    client = HttpClient(None, ssl_context=authority.client_context())
    with HostileServer(authority.server_context()) as server, ThreadPoolExecutor(1) as pool:
        url = server.does("/", lambda *_: server.stop.wait(5) and None)
        call = pool.submit(failure, client, url, timeout=30)
        wait_until(lambda: len(server.received) == 1)
        start = time.monotonic()
        client.close()
        error = call.result(timeout=10)
    assert time.monotonic() - start < 2
    assert (error.fault, error.billed) == (Fault.UNREACHABLE, True)


@pytest.mark.parametrize("name", ["gemini", "openai-images", "bfl"])
def test_an_unknown_authority_is_not_trusted_with_a_key(
    name: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GOOGLE_API_KEY", "OPENAI_API_KEY", "BFL_API_KEY"):
        monkeypatch.setenv(variable, "a-key")
    monkeypatch.setenv("NO_PROXY", "localhost")
    with HostileServer(authority.server_context()) as server:
        editor = load_editor(name, model="m", base_url=server.url("").rstrip("/"))
        with pytest.raises(EditorError, match="certificate") as caught:
            editor.edit(EncodedImage.from_image(Image.new("RGB", (64, 64))), "x")
        editor.close()
    assert (caught.value.fault, caught.value.permanent) == (Fault.TLS, True)
    assert not caught.value.billed
    assert server.received == [], "the key was not sent"
