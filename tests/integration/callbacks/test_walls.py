"""Callbacks go where they may and nowhere else: real sockets on this machine count who is called."""

from __future__ import annotations

import asyncio
import ssl
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.receiver import Receiver, receiving
from worker.callbacks import sender
from worker.callbacks.addresses import Address, Network
from worker.callbacks.message import Post
from worker.callbacks.schedule import Answer

LOOPBACK = (ip_network("127.0.0.1"),)
HERE = ip_address("127.0.0.1")


class Names:
    """A name server that gives another answer each time; the last one for ever."""

    def __init__(self, *answers: str | Sequence[str]) -> None:
        self._answers = [[each] if isinstance(each, str) else each for each in answers]
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        """Answer."""
        self.asked.append((host, port))
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [ip_address(each) for each in found]


def send(url: str, allowed: Sequence[Network] = (), names: Names | None = None) -> Answer:
    post = Post(url, {"content-type": "application/json"}, b"{}")
    return asyncio.run(sender.send(post, allowed, names or sender.resolve))


@pytest.fixture(scope="module")
def inside() -> Iterator[tuple[int, list[Receiver]]]:
    """Servers of the inside on one port: on each loopback address, of IPv4 and, where there is any, of IPv6."""
    with ExitStack() as stack:
        first = stack.enter_context(receiving("127.0.0.1"))
        found = [first, stack.enter_context(receiving("127.0.0.2", first.port))]
        with suppress(OSError):  # this machine may have no IPv6
            found.append(stack.enter_context(receiving("::1", first.port)))
        yield first.port, found


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost", "LOCALHOST", "localhost.", "127.0.0.1.", "0"),
        *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[0:0:0:0:0:0:0:1]"),
        *("[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[fe80::1%25lo]", "[::1%25lo]"),
        *("2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "0x7f.1"),
        *("user@127.0.0.1", "user:pw@127.0.0.1", "a.example@127.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127%2e0%2e0%2e1"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nothing_of_the_inside_is_called_in_whatever_form(
    inside: tuple[int, list[Receiver]], scheme: str, host: str
) -> None:
    port, receivers = inside

    answer = send(f"{scheme}://{host}:{port}/")

    assert (answer.status, bool(answer.error)) == (0, True)
    assert sum(each.connections for each in receivers) == 0


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fd00:ec2::254",
        "10.0.0.1",
        "0.0.0.0",
        "64:ff9b::7f00:1",
    ],
)
def test_a_name_of_the_outside_that_leads_inside_is_not_called(
    inside: tuple[int, list[Receiver]], address: str
) -> None:
    port, receivers = inside

    answer = send(f"https://ci.example:{port}/", names=Names(address))

    assert "has no address for callbacks" in answer.error
    assert sum(each.connections for each in receivers) == 0


def test_a_name_that_changes_between_check_and_use_is_asked_once(inside: tuple[int, list[Receiver]]) -> None:
    port, receivers = inside
    names = Names("127.0.0.9", "127.0.0.1")

    with receiving("127.0.0.9", port) as meant:
        answer = send(f"http://ci.example:{port}/", (ip_network("127.0.0.9"),), names)

    assert (answer.status, len(meant.calls), names.asked) == (204, 1, [("ci.example", port)])
    assert meant.calls[0].headers["host"] == f"ci.example:{port}"
    assert sum(each.connections for each in receivers) == 0


def test_of_several_addresses_only_those_are_tried_that_may_be(inside: tuple[int, list[Receiver]]) -> None:
    port, receivers = inside
    names = Names(["127.0.0.1", "127.0.0.8", "127.0.0.9", "::1"])  # nobody listens on the second one

    with receiving("127.0.0.9", port) as meant:
        answer = send(f"http://ci.example:{port}/", (ip_network("127.0.0.8/31"),), names)

    assert (answer.status, len(meant.calls)) == (204, 1)
    assert sum(each.connections for each in receivers) == 0


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_nobody_follows_it(inside: tuple[int, list[Receiver]], status: int) -> None:
    port, receivers = inside

    with receiving() as meant:
        meant.answers = [(status, {"Location": f"http://127.0.0.2:{port}/secret"})]
        answer = send(f"{meant.url}/hook", LOOPBACK)

    assert (answer.status, len(meant.calls)) == (status, 1)
    assert sum(each.connections for each in receivers) == 0


def test_no_proxy_of_the_environment_is_asked(
    inside: tuple[int, list[Receiver]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, receivers = inside
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.2:{port}")

    with receiving() as meant:
        answer = send(f"{meant.url}/hook", LOOPBACK)

    assert (answer.status, len(meant.calls)) == (204, 1)
    assert sum(each.connections for each in receivers) == 0


def test_what_is_allowed_is_called_and_its_neighbours_are_not(inside: tuple[int, list[Receiver]]) -> None:
    port, _ = inside

    with receiving("127.0.0.9", port) as meant:
        assert send(f"http://127.0.0.9:{port}/a?b=c", (ip_network("127.0.0.9"),)).status == 204
        assert send(f"http://127.0.0.1:{port}/", (ip_network("127.0.0.9"),)).status == 0

    assert [call.path for call in meant.calls] == ["/a?b=c"]


# --- receivers that mean no good ---


def endless_head() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"x-more: " + b"x" * 100 + b"\r\n"
        time.sleep(0.01)


def slow_head() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"x"
        time.sleep(0.1)


def endless_body() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while True:
        yield b"x" * 65_536


@cache
def packed_zeros() -> bytes:
    packed = zlib.compressobj(9, wbits=31)
    return packed.compress(b"\0" * 50_000_000) + packed.flush()


def bomb() -> Iterator[bytes]:
    body = packed_zeros()
    yield b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def no_http() -> Iterator[bytes]:
    yield b"SSH-2.0-OpenSSH_9.2\r\n" * 100


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        pytest.param(endless_head, 0, marks=pytest.mark.outages),  # the clock cuts it, as it does slow_head
        (slow_head, 0),
        (no_http, 0),
        (endless_body, 200),
        (bomb, 200),
    ],
)
def test_an_answer_that_does_not_end_is_cut_at_its_head_or_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, raw: object, status: int
) -> None:
    packed_zeros()  # takes longer than the answer may
    monkeypatch.setattr(sender, "TIMEOUT_S", 10.0 if status else 0.5)
    with receiving() as meant:
        meant.raw = raw  # type: ignore[assignment]
        began = time.monotonic()
        answer = send(meant.url, LOOPBACK)

    assert answer.status == status
    assert status or time.monotonic() - began < 3


# --- TLS ---


def certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate of an authority of its own for `name`: the file of the authority, and the server's side."""
    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(whose, whose, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "public.pem", folder / "private.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context


def test_the_certificate_has_to_be_the_names_though_the_address_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted, tls = certificate(tmp_path, "ci.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setattr(sender, "_trust", ssl.create_default_context)

    with receiving(tls=tls) as meant:
        good = send(f"https://ci.example:{meant.port}/", LOOPBACK, Names("127.0.0.1"))
        other = send(f"https://other.example:{meant.port}/", LOOPBACK, Names("127.0.0.1"))
        bare = send(f"https://127.0.0.1:{meant.port}/", LOOPBACK)
        monkeypatch.delenv("SSL_CERT_FILE")
        unknown = send(f"https://ci.example:{meant.port}/", LOOPBACK, Names("127.0.0.1"))

    assert (good.status, len(meant.calls)) == (204, 1)
    for refused in (other, bare, unknown):
        assert "CERTIFICATE_VERIFY_FAILED" in refused.error
