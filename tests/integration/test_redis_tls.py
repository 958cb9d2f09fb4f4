"""TLS to the store and to the broker: both are verified by the same options, from one place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from celery import Celery
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from tests.conftest import running_worker
from tests.support.certificate import write_certificate
from tests.support.programs import needs
from tests.support.secure_redis import Secure, end_of_tls, secure_server
from tests.support.servers import Fleet, all_done, publish
from worker import celery
from worker.settings.settings import Settings
from worker.store import clients


@pytest.fixture
def secure(redis_url: str, tmp_path: Path) -> Iterator[Secure]:
    with end_of_tls(redis_url, tmp_path) as made:
        yield made


def ask_store(settings: Settings) -> bool:
    with clients.connect(settings.redis_url, patience_s=5) as client:
        return bool(client.ping())


def ask_broker(settings: Settings) -> bool:
    app = Celery("test")
    app.conf.update(celery.celery_settings(settings.broker))
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0.01)
        return bool(connection.connected)


def test_store_and_broker_refuse_a_server_of_an_unknown_authority(secure: Secure) -> None:
    for settings in (Settings(redis_url=secure.url), Settings(redis_url=secure.url, broker_url=secure.url)):
        with pytest.raises(RedisError) as raised:
            ask_store(settings)
        assert clients.refusal(raised.value, settings.redis_url).code == "no_tls"  # type: ignore[union-attr]
        with pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
            ask_broker(settings)
        with pytest.raises(clients.RefusedRedis, match="agree on no TLS"):
            clients.check_broker(settings.broker)


@pytest.mark.parametrize("scheme", ["REDISS", "Rediss", "amqps", "rediss+socket"])
def test_a_broker_of_celerys_own_option_is_one_that_is_verified(scheme: str) -> None:
    with pytest.raises(ValueError, match="is none of redis://, rediss://"):
        Settings().with_tls(f"{scheme}://localhost:6380/0")  # of which kombu would take any certificate


def test_store_and_broker_know_a_server_by_the_authority_of_the_settings(secure: Secure) -> None:
    settings = Settings(redis_url=secure.url, broker_url=secure.url, redis_ca_file=secure.ca)

    assert ask_store(settings)
    assert ask_broker(settings)


def test_a_certificate_of_another_name_is_refused(secure: Secure) -> None:
    url = secure.url.replace("localhost", "127.0.0.2")  # the same machine, by a name that the certificate lacks
    with pytest.raises(RedisError, match="IP address mismatch"):
        ask_store(Settings(redis_url=url, redis_ca_file=secure.ca))
    with pytest.raises(OperationalError, match="IP address mismatch"):
        ask_broker(Settings(redis_url=url, redis_ca_file=secure.ca))


def test_who_wants_no_verification_gets_it_with_a_warning(secure: Secure, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(redis_url=f"{secure.url}?ssl_cert_reqs=none")

    assert ask_store(settings)
    assert ask_broker(settings)

    assert "certificate of Redis not verified" in caplog.text


def test_a_server_that_asks_for_certificates_is_shown_one(redis_url: str, tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    certificate, key = write_certificate(tmp_path / "client")
    with end_of_tls(redis_url, tmp_path, clients=certificate) as secure:
        known = Settings(redis_url=secure.url, redis_ca_file=secure.ca, redis_cert_file=certificate, redis_key_file=key)
        assert ask_store(known)
        assert ask_broker(known)

        unknown = Settings(redis_url=secure.url, redis_ca_file=secure.ca)
        with pytest.raises(RedisError):
            ask_store(unknown)


@pytest.mark.outages
def test_a_worker_ends_with_a_sentence_where_its_broker_alone_is_not_known(
    redis_url: str, secure: Secure, redis: Redis
) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "planner", "worker", "--pool", "solo"],
        env={**os.environ, "PLANNER_REDIS_URL": redis_url, "PLANNER_BROKER_URL": secure.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "agree on no TLS (docs/redis.md, TLS)" in done.stderr


@pytest.mark.outages
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("redis-server", marks=needs("redis-server")),
        pytest.param("valkey-server", marks=pytest.mark.skipif(not which("valkey-server"), reason="no valkey-server")),
    ],
)
def test_a_planner_works_on_a_server_that_speaks_tls_alone(program: str, tmp_path: Path) -> None:
    with secure_server(program, tmp_path) as server:
        settings = Settings(redis_url=server.url, redis_ca_file=server.ca)
        with (
            Fleet(settings.redis_url),
            running_worker(
                settings.redis_url,
                tmp_path / "worker.log",
                "prefork",
                PLANNER_REDIS_URL=server.url,
                PLANNER_REDIS_CA_FILE=str(server.ca),
            ) as worker,
        ):
            publish(worker.redis, 0, 2)
            all_done(worker.redis, 2)
            assert not worker.logged("broker away")
