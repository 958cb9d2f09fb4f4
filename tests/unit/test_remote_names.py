"""Names of repositories, as URLs of remotes, CI and goals have them."""

from __future__ import annotations

import pytest

from worker.host.remote_names import is_of, name_of

SHOP = "https://git.example/acme/shop.git"


@pytest.mark.parametrize(
    ("wanted", "remote", "is_it"),
    [
        ("acme/shop", SHOP, True),
        ("Acme/Shop", "git@git.example:acme/shop.git", True),
        ("https://user@git.example/acme/shop", "ssh://git@git.example:22/acme/shop.git", True),
        ("shop", SHOP, True),
        ("acme/shop", "/srv/git/shop.git", True),
        ("acme/shop", "https://git.example/other/shop.git", False),
        ("me/shop", SHOP, False),
        ("hop", SHOP, False),
        ("acme/till", "/srv/git/shop.git", False),
        ("https://elsewhere.example/acme/shop", SHOP, False),
    ],
)
def test_a_repository_is_the_same_however_it_is_named(wanted: str, remote: str, is_it: bool) -> None:
    assert is_of(wanted, ["https://git.example/acme/other", remote]) is is_it


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (SHOP, "acme/shop"),
        ("https://me:secret@git.example:8443/group/sub/Shop.git/", "group/sub/Shop"),
        ("ssh://git@git.example:22/acme/shop.git", "acme/shop"),
        ("git@git.example:acme/shop.git", "acme/shop"),
        ("/srv/git/shop.git", None),
        ("../shop.git", None),
        ("https://me:sec/ret@git.example/acme/shop", None),
        ("file:///srv/git/shop.git", None),
        ("https://git.example/", None),
        ("https://git.example/acme/a b", None),
        ("", None),
    ],
)
def test_a_url_gives_its_repository_a_name_without_host_and_password(url: str, name: str | None) -> None:
    assert name_of(url) == name
