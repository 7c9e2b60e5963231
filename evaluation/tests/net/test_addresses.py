from __future__ import annotations

import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.errors import EditorError, Fault
from evaluation.net.addresses import MAX_URL_LENGTH, AddressRefused, Rules
from evaluation.testing.resolvers import PUBLIC, resolver


def refusal(url: str, **rules: Any) -> AddressRefused:
    """Parse and resolve a URL; return the refusal."""
    checked = Rules(resolver=resolver(PUBLIC), **rules)
    with pytest.raises(AddressRefused) as caught:
        checked.resolve(checked.parse(url))
    return caught.value


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        # odd spellings of 127.0.0.1
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "127.000.000.001",
        "0",
        "0x",
        "4294967295",
        "256.256.256.256",
        "1.2.3.4.5",
        # names of this machine and its network
        "localhost",
        "localhost.",
        "LOCALHOST",
        "evil.localhost",
        "host.docker.internal",
        "metadata.google.internal",
        "printer.local",
        "redis",
        "db.lan",
        "4.3.2.1.in-addr.arpa",
        # networks
        "0.0.0.0",
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.254",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "192.0.0.9",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[::169.254.169.254]",
        "[::8.8.8.8]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:808:808::]",
        "[2001:0:7f00:1::]",
        "[2001:1::1]",
        "[2001:db8::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[3fff::1]",
        "[5f00::1]",
        "[4000::1]",
    ],
)
def test_an_address_that_is_not_public_is_refused_in_every_spelling(host: str) -> None:
    error = refusal(f"https://{host}/v1")
    assert error.kind == "not_public"
    assert error.fault is Fault.BLOCKED
    assert error.permanent
    assert error.message.startswith("address not public")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "192.0.0.192",
        "100.100.100.200",
        "::1",
        "::169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "fec0::1",
        "fe80::1%eth0",
    ],
)
def test_a_name_with_any_private_address_is_refused(address: str) -> None:
    rules = Rules(resolver=resolver([PUBLIC, address]))
    url = rules.parse("https://model.example.com/v1")
    with pytest.raises(AddressRefused) as caught:
        rules.resolve(url)
    assert caught.value.kind == "not_public"
    # Only the log may contain the address that a name resolves to.
    assert caught.value.message.startswith("address not public:")
    assert address.partition("%")[0] in caught.value.detail or ":" in address


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("gopher://example.com/", "scheme"),
        ("data:text/html,x", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("//example.com/", "scheme"),
        ("example.com", "scheme"),
        ("", "scheme"),
        ("https:/example.com", "scheme"),
        ("https:example.com", "scheme"),
        (" https://example.com", "scheme"),
        ("https://user:pw@example.com/", "credentials"),
        ("https://good.com@evil.com", "credentials"),
        ("https://@example.com", "credentials"),
        ("https://example.com:22/", "port"),
        ("https://example.com:6379/", "port"),
        ("https://example.com:5432/", "port"),
        ("https://example.com:80/", "port"),
        ("https://example.com:0/", "port"),
        ("https://example.com:/", "port"),
        ("https://example.com:99999/", "malformed"),
        ("https://example.com:4a3/", "malformed"),
        ("https://example.com\\@evil.com/", "malformed"),
        ("https://example.com/\\..", "malformed"),
        ("https://example.com/\r\nX-Injected: 1", "malformed"),
        ("https://exa\tmple.com/", "malformed"),
        ("https://example.com/a b", "malformed"),
        ("https://example.com/%00", "malformed"),
        ("https://example.com/%0d%0aX:1", "malformed"),
        ("https://example%2ecom/", "malformed"),
        ("https://[fe80::1%25eth0]/", "malformed"),
        ("https://[::1%eth0]/", "malformed"),
        ("https://[v1.x]/", "malformed"),
        ("https://[::1/", "malformed"),
        ("https://[1.2.3.4]/", "malformed"),
        ("https://exa[mple.com/", "malformed"),
        ("https:///path", "malformed"),
        ("https://./", "malformed"),
        ("https://a..b.com/", "malformed"),
        ("https://-a.com/", "malformed"),
        ("https://a_b.com/", "malformed"),
        ("https://example.com/#@evil.com", "malformed"),
        ("https://bücher.example/", "malformed"),
        ("https://①②⑦.0.0.1/", "malformed"),
        ("https://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "malformed"),
        (f"https://{'a' * 64}.com/", "malformed"),
        (f"https://{'a.' * 130}com/", "malformed"),
        ("https://example.com/" + "a" * 10_000, "too_long"),
    ],
)
def test_a_url_that_parsers_could_read_in_two_ways_is_refused_before_any_lookup(
    url: str, kind: str
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("looked up")

    with pytest.raises(AddressRefused) as caught:
        Rules(resolver=never).parse(url)
    assert caught.value.kind == kind
    assert caught.value.permanent
    assert len(caught.value.message) < 200


def test_the_message_about_credentials_does_not_repeat_them() -> None:
    assert "hunter2" not in refusal("https://user:hunter2@example.com/").message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://Example.COM", ("https", "example.com", 443, "/")),
        ("HTTPS://example.com:443/v1?x=1", ("https", "example.com", 443, "/v1?x=1")),
        ("https://example.com./v1", ("https", "example.com", 443, "/v1")),
        ("https://93.184.216.34/", ("https", "93.184.216.34", 443, "/")),
        ("https://[2606:4700::1111]/a", ("https", "2606:4700::1111", 443, "/a")),
        ("https://xn--bcher-kva.example/", ("https", "xn--bcher-kva.example", 443, "/")),
        ("https://a-b.c--d.example/%20", ("https", "a-b.c--d.example", 443, "/%20")),
    ],
)
def test_ordinary_addresses_are_read_into_the_parts_that_are_dialled(
    text: str, parts: tuple[str, str, int, str]
) -> None:
    rules = Rules(resolver=resolver(PUBLIC))
    url = rules.parse(text)
    assert (url.scheme, url.host, url.port, url.target) == parts
    assert rules.resolve(url)


def test_wrapped_public_ipv4_addresses_are_reached_through_nat64_and_mapping() -> None:
    rules = Rules(resolver=resolver(["64:ff9b::808:808", "::ffff:8.8.8.8"]))
    assert len(rules.resolve(rules.parse("https://example.com"))) == 2


def test_port_80_is_open_by_switch_only() -> None:
    assert Rules(ports=frozenset({443, 80})).parse("https://example.com:80/").port == 80


@pytest.mark.parametrize(
    "url",
    [
        "https://board.example.org/",
        "https://BOARD.example.org./",
        "https://a.b.example.net/",
        "https://example.net/",
        "https://93.184.216.34/",
        "https://[64:ff9b::5db8:d822]/",
        "https://[::ffff:93.184.216.34]/",
        "https://elsewhere.example.com/",  # resolves to our address
    ],
)
def test_our_own_names_and_addresses_are_refused(url: str) -> None:
    deny = ("board.example.org", ".example.net", "93.184.216.34", "*", "")
    error = refusal(url, deny=deny)
    assert error.kind == "own_server"
    assert error.message == "cannot benchmark this server"


def test_the_deny_list_blocks_nothing_else() -> None:
    rules = Rules(deny=("example.org", ".example.net", "*"), resolver=resolver(PUBLIC))
    for host in ("a.example.org", "notexample.org", "notexample.net", "example.net.evil.com"):
        assert rules.resolve(rules.parse(f"https://{host}/")), host


def test_the_development_switch_opens_this_machine_and_its_network_only() -> None:
    rules = Rules(allow_local=True, resolver=resolver("127.0.0.1"))
    for url in (
        "http://localhost:8000/v1",
        "http://127.0.0.1:5000",
        "http://[::1]:1",
        "http://gpu",
    ):
        assert rules.resolve(rules.parse(url))
    assert rules.parse("http://192.168.1.7:8000/")
    for url in ("http://169.254.169.254/", "http://[fe80::1]/", "http://100.100.100.200/"):
        with pytest.raises(AddressRefused) as caught:
            rules.parse(url)
        assert caught.value.kind == "not_public"
    with pytest.raises(AddressRefused):
        rules.parse("http://2130706433/")


@pytest.mark.parametrize(
    "failure",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
        UnicodeError("label too long"),
    ],
)
def test_a_name_that_does_not_resolve_can_be_retried(failure: Exception) -> None:
    def fails(*_: Any) -> Any:
        raise failure

    rules = Rules(resolver=fails)
    with pytest.raises(EditorError, match=r"cannot resolve .* gone\.example") as caught:
        rules.resolve(rules.parse("https://gone.example/"))
    assert caught.value.fault is Fault.UNREACHABLE
    assert not caught.value.permanent


URL_LIKE = st.text(
    st.sampled_from("htps:/@\\#?%.[]0127fx-aé\r\n\t \x00localhost:443①"), max_size=60
)


@given(st.one_of(st.text(max_size=80), URL_LIKE, URL_LIKE.map(lambda s: "https://" + s)))
def test_every_input_is_either_refused_or_safe_to_dial(text: str) -> None:
    rules = Rules(resolver=resolver(PUBLIC))
    try:
        url = rules.parse(text)
        addresses = rules.resolve(url)
    except AddressRefused:
        return
    assert url.scheme == "https"
    assert url.port == 443
    assert str(url).isascii()
    assert len(str(url)) <= MAX_URL_LENGTH + 1
    assert not set(url.host + url.target) & set("\r\n\t \x00\\#@") - {"@"}
    assert "@" not in url.host
    assert all(a.ip.is_global for a in addresses)


@given(st.ip_addresses())
def test_no_address_we_dial_is_one_the_standard_library_calls_special(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)
    try:
        Rules().parse(f"https://{host}/")
    except AddressRefused:
        return
    assert address.is_global
    assert not address.is_multicast


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "::", "2002::", "fec0::"]))
def test_a_wrapper_is_never_more_public_than_the_address_in_it(
    inner: ipaddress.IPv4Address, prefix: str
) -> None:
    shift = 80 if prefix == "2002::" else 0
    outer = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(inner) << shift)

    def allowed(host: str) -> bool:
        try:
            return bool(Rules().parse(f"https://{host}/"))
        except AddressRefused:
            return False

    assert allowed(str(inner)) or not allowed(f"[{outer}]")
