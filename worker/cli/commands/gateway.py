"""`planner gateway`: the planner's doors over HTTP."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import (
    FAILED,
    OK,
    USAGE,
    Failure,
    SecretsFd,
    check_redis,
    command,
    needs_extra,
    read_settings,
    refuse_server,
)
from worker.settings import credentials

if TYPE_CHECKING:
    from worker.settings.settings import Settings

OPEN = (
    "callers' keys would cross the network in the clear. Give it a certificate (--certfile, --keyfile), or use"
    " --behind-proxy if a proxy has one and only the proxy reaches this port."
)


@command
def gateway(
    host: Annotated[
        str | None, typer.Option(help="The address to listen at; PLANNER_GATEWAY_HOST, 127.0.0.1 unless set.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Its port; PLANNER_GATEWAY_PORT, 8484 unless set.")
    ] = None,
    certfile: Annotated[Path | None, typer.Option(help="The certificate, with its chain, for HTTPS (PEM).")] = None,
    keyfile: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="A proxy ends TLS, and only it reaches this port: trust its headers."),
    ] = False,
    listener_fd: Annotated[int | None, typer.Option("--listener", min=3, hidden=True)] = None,
    secrets_fd: SecretsFd = None,
) -> int:
    """Serve the planner over HTTP: goals, reads, steps for controllers, events, webhooks.

    [b]planner gateway[/b]

    [b]planner gateway --host 0.0.0.0 --certfile cert.pem --keyfile key.pem[/b]

    Any number of gateways may run on one Redis. Callers send keys, which `planner keys add` makes. The gateway
    refuses requests for hosts other than the names of this machine and the names in PLANNER_GATEWAY_HOSTS.

    Ends on SIGTERM and Ctrl-C with 0 after all waiting callers have an answer, within PLANNER_STOP_S. Exit code 1 if it
    could not start, 2 for a wrong option or setting, or a missing extra.
    """
    given = {"gateway_host": host, "gateway_port": port}
    settings = read_settings(secrets_fd)
    check_redis(settings)
    settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
    certificate = _certificate(certfile, keyfile)
    with needs_extra("gateway", "The gateway"):
        from worker.gateway.app import create_app
        from worker.gateway.serving import serve, server_of
        from worker.telemetry import errors, logs, tracing
        from worker.webhooks.sources_file import WrongSources
    is_private = bool(certificate or behind_proxy)
    with socket.socket(fileno=listener_fd) if listener_fd else _listener(settings, is_private=is_private) as listener:
        refuse_server(settings)
        credentials.protect()
        logs.set_up_logs(settings.log_level)
        try:
            errors.start(settings)
            tracing.start(settings, "planner-gateway")
            app = create_app(settings)
        except (errors.CannotReport, tracing.CannotTrace) as error:
            raise Failure.of("wrong_settings", str(error), USAGE) from error
        except WrongSources as error:
            raise Failure.of("wrong_settings", f"PLANNER_WEBHOOKS_FILE: {error}", USAGE) from error
        serve(server_of(app, settings, certificate, behind_proxy=behind_proxy), listener)
        tracing.stop()
    return OK


def _certificate(certfile: Path | None, keyfile: Path | None) -> tuple[Path, Path] | None:
    """Return the files of a certificate that can be used; raises Failure for others."""
    import ssl

    if certfile is None and keyfile is None:
        return None
    if certfile is None or keyfile is None:
        raise Failure.of("wrong_certificate", "--certfile and --keyfile go together.", USAGE)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certfile, keyfile, password=_no_password)
    except (OSError, ValueError) as error:  # whose texts name no file, and nothing of the key
        why = getattr(error, "strerror", None) or error
        raise Failure.of("wrong_certificate", f"{certfile} and {keyfile} cannot be used: {why}.", USAGE) from error
    return certfile, keyfile


def _no_password() -> str:
    raise ValueError("the key is encrypted, and the gateway cannot ask for its password")


def _listener(settings: Settings, *, is_private: bool) -> socket.socket:
    """Listen at the address; raises Failure where that cannot be, or should not."""
    host, port = settings.gateway_host, settings.gateway_port
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise Failure.of("no_such_address", f"{host} is no address of this machine: {error}.", USAGE) from error
    if not (is_private or ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback):
        raise Failure.of("not_private", f"{host} is reached from other machines, and {OPEN}", USAGE)
    try:
        return socket.create_server(address, family=family, backlog=2048)
    except OSError as error:
        why = error.strerror or error
        raise Failure.of("cannot_listen", f"Cannot listen at {host}, port {port}: {why}.", FAILED) from error
