"""Checks the URLs and addresses of callbacks; pure.

An operator sets an endpoint's URL, but anyone may control its DNS name. So the name is resolved once, each address is
checked here, and the connection goes to exactly one checked address. Addresses that are not public are refused unless
the operator allows them (PLANNER_CALLBACK_ALLOW).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from httpx import URL, InvalidURL

from tasks.base.errors import PlannerError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000
MAX_PORT = 65_535
LAST_LABEL_IS_A_NUMBER = re.compile(r"(?:.*\.)?(?:\d+|0[xX][0-9a-fA-F]*)\.?")
GLOBAL_6 = ip_network("2000::/3")  # all other IPv6 addresses are not public
REFUSED = tuple(
    map(
        ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            "168.63.129.16/32",  # answers from inside of every machine of Azure
            *("2001::/23", "2001:db8::/32", "3fff::/20"),  # Teredo, benchmarks, documentation
        ),
    )
)
NAT64 = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))
COMPATIBLE = ip_network("::/96")


class BadUrl(PlannerError):
    """This URL cannot be an endpoint's."""


def parse_url(text: str) -> URL:
    """Return the URL of an endpoint. Raises BadUrl with a sentence.

    A numeric host in any form but four decimal parts is refused: programs disagree about its meaning.
    """
    try:
        url = URL(text)
        host = url.raw_host.decode("ascii")
    except (InvalidURL, UnicodeError, ValueError) as error:
        raise BadUrl(f"The URL cannot be read: {error}.") from None
    if len(text) > MAX_URL or any(letter <= " " or letter == "\\" for letter in text):
        raise BadUrl(f"A URL has at most {MAX_URL} characters, no blanks and no backslash.")
    if url.scheme not in ("http", "https") or not host:
        raise BadUrl("A URL begins with https:// and the name of a host; http:// goes to allowed addresses alone.")
    if url.userinfo or url.fragment or "@" in text.partition("://")[2].partition("/")[0]:
        raise BadUrl("A URL has no user, no password and no fragment.")
    if (url.port or 0) > MAX_PORT:
        raise BadUrl(f"A port is a number from 1 to {MAX_PORT}.")
    if "%" in host or (literal(host) is None and LAST_LABEL_IS_A_NUMBER.fullmatch(host)):
        raise BadUrl("A host is a name, or an address such as 192.0.2.1 or [2001:db8::1] in its usual form.")
    return url


def literal(host: str) -> Address | None:
    """Return the IP address that a host is, or None if the host is a DNS name."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_named(address: Address, allowed: Iterable[Network]) -> bool:
    """Return whether the operator allows this address, or an IPv4 address that is embedded in it."""
    forms = {address, *_embedded(address)}
    return any(form.version == network.version and form in network for network in allowed for form in forms)


def is_public(address: Address) -> bool:
    """Return whether an address, and each IPv4 address embedded in it, is public on the internet."""
    if isinstance(address, IPv6Address):
        if address.scope_id or address in COMPATIBLE or address in NAT64[1]:
            return False
        inner = _embedded(address)
        if not inner and address not in GLOBAL_6:
            return False
        return not _is_refused(address) and all(map(is_public, inner))
    return not _is_refused(address) and address.is_global and not address.is_multicast


def may_call(address: Address, allowed: Iterable[Network], scheme: str) -> bool:
    """Return whether a callback may go to this address.

    An address that is not public, or a URL without TLS, requires that the operator allows the address.
    """
    return is_named(address, allowed) or (scheme == "https" and is_public(address))


def _is_refused(address: Address) -> bool:
    return any(address.version == network.version and address in network for network in REFUSED)


def _embedded(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 address in an IPv6 address: mapped, compatible, 6to4 or NAT64."""
    if isinstance(address, IPv4Address):
        return ()
    if found := address.ipv4_mapped or address.sixtofour:
        return (found,)
    if address in NAT64[0] or (address in COMPATIBLE and int(address) > 1):
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    return ()
