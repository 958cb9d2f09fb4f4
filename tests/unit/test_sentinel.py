"""URLs of servers that Sentinel watches over."""

from __future__ import annotations

import pytest
from redis.connection import SSLConnection

from worker.celery import celery_settings
from worker.settings import redis_tls, sentinel
from worker.settings.sentinel import SentinelUrl, broker_options, broker_url, parse


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis+sentinel://a:1,b:2/mymaster", SentinelUrl((("a", 1), ("b", 2)), "mymaster", 0, None, None)),
        ("redis+sentinel://a/m/3", SentinelUrl((("a", 26379),), "m", 3, None, None)),
        ("redis+sentinel://planner:p%40ss@a:1/m", SentinelUrl((("a", 1),), "m", 0, "planner", "p@ss")),
        (
            "redis+sentinel://:secret@[::1]:1,10.0.0.1/m/0",
            SentinelUrl((("::1", 1), ("10.0.0.1", 26379)), "m", 0, None, "secret"),
        ),
    ],
)
def test_what_a_url_says(url: str, place: SentinelUrl) -> None:
    assert sentinel.is_watched(url)
    assert parse(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://a:1",
        "redis+sentinel:///m",
        "redis+sentinel://a:1,/m",
        "redis+sentinel://a:port/m",
        "redis+sentinel://a:1/m/first",
        "redis+sentinel://a:1/m?x=1",
    ],
)
def test_a_url_that_cannot_be_read_is_told_in_a_sentence(url: str) -> None:
    with pytest.raises(ValueError, match="a URL of sentinels reads redis"):
        parse(url)


def test_the_broker_is_told_in_the_words_of_kombu() -> None:
    url = "redis+sentinel://planner:p%40ss@a:1,[::1]:2/mymaster/3"

    assert broker_url(url) == "sentinel://planner:p%40ss@a:1/3;sentinel://planner:p%40ss@[::1]:2/3"
    assert broker_options(url)["master_name"] == "mymaster"
    assert broker_url("unix:///run/redis.sock") == "redis+socket:///run/redis.sock?virtual_host=0"
    assert broker_url("unix://u:p%40ss@/a%20b?db=2") == "redis+socket://u:p%40ss@/a%20b?virtual_host=2"


def test_any_other_url_stays_as_it_is() -> None:
    assert broker_url("redis://a:1/0") == "redis://a:1/0"
    assert broker_options("redis://a:1/0") == {}


def test_sentinels_with_tls_are_asked_and_followed_with_it() -> None:
    url = redis_tls.with_tls("rediss+sentinel://a:1/m/3", None, None, None)

    assert parse(url).master == "m"
    assert broker_options(url)["sentinel_kwargs"]["ssl"] is True
    assert broker_options(url)["sentinel_kwargs"]["ssl_cert_reqs"] == "required"
    assert celery_settings(url)["broker_use_ssl"] == {"ssl_cert_reqs": "required"}
    with sentinel.connect(url) as client:
        assert issubclass(client.connection_pool.connection_class, SSLConnection)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("ssl_cert_reqs=optional", "ssl_cert_reqs is `required`, or `none`"),
        ("ssl_ciphers=NULL", "ssl_ciphers is none of"),
        ("ssl_ca_certs=/nowhere/ca.pem", "holds no certificates of authorities"),
        ("ssl_keyfile=/nowhere/key.pem", "needs its certificate"),
    ],
)
def test_options_of_tls_that_cannot_be_used_are_refused_in_a_sentence(query: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        redis_tls.with_tls(f"rediss://a/0?{query}", None, None, None)
