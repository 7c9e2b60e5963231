"""Rules for the addresses that an untrusted URL may lead to.

`Rules.parse` reads a URL strictly and without the network. `Rules.resolve` looks up its host once,
checks that every address is public, and returns the addresses to dial. Nothing else in the project
resolves a submitted name.

ssrfguard supplies the table of special networks (IANA's registries with additions) and judges IPv6
wrappers by the IPv4 address in them. It permits some special addresses that we deny: anycast
helpers, deprecated tunnels and unallocated IPv6.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field, replace
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from ssrfguard import (
    DEFAULT_DENIED,
    Address,
    AddressTable,
    Block,
    BlockedAddressError,
    Policy,
    Reach,
    Resolver,
    SSRFGuardError,
    Target,
    resolve,
)

from evaluation.errors import EditorError, Fault

MAX_URL_LENGTH = 2048
HTTPS_PORT = 443

# Some networks write an ordinary IPv4 host as an IPv4-mapped or NAT64 address, so these are judged
# by the IPv4 address in them. All other networks in the registries are denied, even those listed as
# reachable: 192.0.0.9 controls the local router's ports, 2002::/16 and 2001::/32 are dead tunnels.
_NAT64 = IPv6Network("64:ff9b::/96")
_WRAPPERS = frozenset({IPv6Network("::ffff:0:0/96"), _NAT64})
_EXTRA_BLOCKS = (
    Block(ip_network("::/0"), "Not global unicast", "RFC4291", Reach.DENIED),
    Block(ip_network("2000::/3"), "Global unicast", "RFC4291", Reach.PERMITTED),
    # A public address, which inside Azure is the host's control service.
    Block(ip_network("168.63.129.16/32"), "Cloud metadata (Azure)", "-", Reach.DENIED),
)
PUBLIC_ONLY = AddressTable(
    tuple(
        block if block.network in _WRAPPERS else replace(block, reach=Reach.DENIED)
        for block in DEFAULT_DENIED.blocks
    )
    + _EXTRA_BLOCKS
)
# Allowed by the development switch: this machine and the local network. Link-local addresses stay
# denied, because clouds serve their metadata there.
LOCAL_NETWORKS = tuple(
    ip_network(text)
    for text in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",
    )
)

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# The last label of a host that URL parsers and inet_aton read as an IPv4 address.
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
# Printable ASCII without the space.
_ALLOWED = re.compile(r"[!-~]+")
_ENCODED_CONTROL = re.compile(r"%(0[0-9a-f]|1[0-9a-f]|7f)", re.IGNORECASE)
NO_PUBLIC_ADDRESS = "the host name has no public address"
_PRIVATE_NAMES = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa")


class AddressRefused(EditorError):
    """A URL that must not be called; `kind` names the rule that it breaks.

    The message never contains the address that a name resolves to, which would reveal this server's
    network. Only `detail` contains that address, for the log of security events.
    """

    def __init__(
        self, kind: str, message: str, *, fault: Fault = Fault.CONFIGURATION, detail: str = ""
    ) -> None:
        super().__init__(message, fault=fault, permanent=True)
        self.kind = kind
        self.detail = detail or message
        #: True if the refusal follows from a DNS lookup, not from the text of the URL.
        self.looked_up = False


class Unresolved(EditorError):
    """A host name that does not resolve."""


def public_error(error: EditorError) -> EditorError:
    """Return the error to show to the public.

    A name that is unknown and a name that resolves into our network give the same error. Otherwise
    submissions could find out the names of our internal hosts.
    """
    if isinstance(error, Unresolved) or (
        isinstance(error, AddressRefused) and error.fault is Fault.BLOCKED and error.looked_up
    ):
        return EditorError(NO_PUBLIC_ADDRESS, fault=Fault.UNREACHABLE, permanent=True)
    return error


def _not_public(detail: str, hint: str = "") -> AddressRefused:
    message = f"address not public: we can call only addresses on the internet{hint}"
    return AddressRefused("not_public", message, fault=Fault.BLOCKED, detail=detail)


@dataclass(frozen=True)
class Url:
    """A parsed URL. Its parts are dialled and sent unchanged; the text is not parsed again."""

    scheme: str
    host: str  # lower case, without brackets
    port: int
    target: str  # path and query as sent

    @property
    def literal(self) -> IPv4Address | IPv6Address | None:
        """The IP address, if the host is one; None for a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        standard = {"https": HTTPS_PORT, "http": 80}[self.scheme]
        return host if self.port == standard else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    def __str__(self) -> str:
        return self.origin + self.target


@dataclass(frozen=True)
class Rules:
    """Rules for the URLs that may be called.

    `allow_local` is the development switch: it allows http, any port, this machine and the local
    network. Without the switch, only `ports` are allowed. `deny` lists this server's own host
    names, addresses and networks; ".example.org" means a domain with its subdomains. `resolver` has
    the signature of socket.getaddrinfo.
    """

    allow_local: bool = False
    ports: frozenset[int] = frozenset({HTTPS_PORT})
    deny: tuple[str, ...] = ()
    resolver: Resolver = field(default=socket.getaddrinfo, repr=False)

    @cached_property
    def policy(self) -> Policy:
        return Policy(
            allowed_schemes=frozenset({"https", "http"} if self.allow_local else {"https"}),
            allowed_ports=frozenset(range(1, 65536)) if self.allow_local else self.ports,
            allowed_networks=LOCAL_NETWORKS if self.allow_local else (),
            denied_networks=PUBLIC_ONLY,
            max_url_length=MAX_URL_LENGTH,
        )

    @cached_property
    def _denied_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        return tuple(network for entry in self.deny if (network := _as_network(entry)))

    @cached_property
    def _denied_names(self) -> tuple[str, ...]:
        # In Django's ALLOWED_HOSTS "*" means any host, so it names none of our hosts.
        names = (e.strip().lower().rstrip(".") for e in self.deny if not _as_network(e))
        return tuple(name for name in names if name and name != "*")

    def parse(self, text: str) -> Url:
        """Parse a URL strictly. Raises AddressRefused if the URL is ambiguous or not allowed."""
        if len(text) > MAX_URL_LENGTH:
            raise AddressRefused(
                "too_long",
                f"the address has {len(text):,} characters; at most {MAX_URL_LENGTH:,} are allowed",
            )
        scheme, separator, _ = text.partition("://")
        if scheme.lower() not in self.policy.allowed_schemes:
            schemes = "https:// or http://" if self.allow_local else "https://"
            raise AddressRefused("scheme", f"the address must begin with {schemes}")
        if not separator or not _ALLOWED.fullmatch(text) or _ENCODED_CONTROL.search(text):
            raise AddressRefused(
                "malformed",
                "the address contains a space, a control or a non-ASCII character "
                "(write a non-ASCII host name as xn--…)",
            )
        if "\\" in text or "#" in text:
            raise AddressRefused("malformed", "the address must not contain a backslash or a '#'")
        try:
            split = urlsplit(text)
            port = split.port
        except ValueError:
            raise AddressRefused("malformed", "the address cannot be read as a URL") from None
        if "@" in split.netloc:
            raise AddressRefused(
                "credentials",
                "the address must not contain a user name or password: the key has its own field",
            )
        host = self._check_host(split.hostname or "", bracketed="[" in split.netloc)
        self._check_port(split.netloc, port)
        self._compare_parsers(text, host)
        target = (split.path or "/") + (f"?{split.query}" if split.query else "")
        default = HTTPS_PORT if split.scheme == "https" else 80
        return Url(split.scheme, host, default if port is None else port, target)

    def _check_host(self, host: str, *, bracketed: bool) -> str:
        host = host.lower()
        if not host or "%" in host:
            raise AddressRefused("malformed", "the address has no valid host name")
        if bracketed:
            try:
                self._check_address(IPv6Address(host))
            except ipaddress.AddressValueError:
                raise AddressRefused("malformed", "the address has no valid host name") from None
            return str(IPv6Address(host))
        name = host.removesuffix(".")
        labels = name.split(".")
        if len(name) > 253 or any(len(label) > 63 for label in labels):
            raise AddressRefused(
                "malformed", "a host name may have at most 253 characters, and 63 between two dots"
            )
        if _NUMBER.fullmatch(labels[-1]):
            try:
                self._check_address(IPv4Address(name))
            except ipaddress.AddressValueError:
                # 2130706433, 0x7f000001, 017700000001, 127.1, 127.000.000.001, ...
                raise _not_public(
                    f"{host} is an unusual spelling of an IPv4 address",
                    "; write an IPv4 address as four decimal numbers",
                ) from None
            return name
        if not all(_LABEL.fullmatch(label) for label in labels):
            raise AddressRefused("malformed", "the address has no valid host name")
        if not self.allow_local and (len(labels) == 1 or labels[-1] in _PRIVATE_NAMES):
            raise _not_public(f"{host} is a name of the local network")
        if any(_matches(entry, name) for entry in self._denied_names):
            raise self._own_server(host)
        return name

    def _check_port(self, netloc: str, port: int | None) -> None:
        if netloc.endswith(":") or port == 0:
            raise AddressRefused("port", "the address has no valid port")
        if port is not None and port not in self.policy.allowed_ports:
            allowed = " or ".join(str(p) for p in sorted(self.ports))
            raise AddressRefused("port", f"port {port} is not allowed, only {allowed}")

    def _compare_parsers(self, text: str, host: str) -> None:
        """Raise AddressRefused if ssrfguard reads another host in the URL."""
        try:
            target = self.policy.check_url(text)
        except SSRFGuardError as error:
            raise AddressRefused("malformed", "URL parsers disagree about the address") from error
        other_host = str(target.address) if target.address else target.host.removesuffix(".")
        if other_host != host:
            raise AddressRefused("malformed", "URL parsers disagree about the address")

    def _own_server(self, detail: str) -> AddressRefused:
        return AddressRefused(
            "own_server", "cannot benchmark this server", fault=Fault.BLOCKED, detail=detail
        )

    def _check_address(self, address: IPv4Address | IPv6Address) -> None:
        try:
            self.policy.check_address(address)
        except BlockedAddressError as error:
            raise _not_public(str(error)) from None
        for spelling in _with_wrapped_ipv4(address):
            if any(spelling in network for network in self._denied_networks):
                raise self._own_server(f"{address} is an address of this server")

    def resolve(self, url: Url) -> tuple[Address, ...]:
        """Look up the host once. Raises AddressRefused unless all its addresses are public."""
        try:
            return self._resolve(url)
        except AddressRefused as refused:
            refused.looked_up = not url.literal
            raise

    def _resolve(self, url: Url) -> tuple[Address, ...]:
        target = Target(url.scheme, url.host, url.port, url.host, url.literal)
        try:
            addresses = resolve(target, policy=self.policy, resolver=self.resolver)
        except BlockedAddressError as error:
            raise _not_public(f"{url.host}: {error}") from None
        except (OSError, UnicodeError, ValueError) as error:
            raise Unresolved(
                f"cannot resolve the host name {url.host}", fault=Fault.UNREACHABLE
            ) from error
        for address in addresses:
            self._check_address(address.ip)
        return addresses


def _matches(entry: str, host: str) -> bool:
    """Return True if a deny entry matches this host; ".example.org" covers subdomains."""
    bare = entry.removeprefix(".")
    return host == bare or (entry.startswith(".") and host.endswith(entry))


def _as_network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry.strip().strip("[]"), strict=False)
    except ValueError:
        return None


def _with_wrapped_ipv4(address: IPv4Address | IPv6Address) -> tuple[IPv4Address | IPv6Address, ...]:
    """Return the address, and for a wrapper also the IPv4 address in it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped:
            return address, address.ipv4_mapped
        if address in _NAT64:
            return address, IPv4Address(int(address) & 0xFFFFFFFF)
    return (address,)


def is_private(url: str) -> bool:
    """Return True if the host in the URL is not public, judged without a lookup."""
    try:
        Rules().parse(url)
    except AddressRefused as error:
        return error.fault is Fault.BLOCKED
    return False
