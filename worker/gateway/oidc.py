"""Checks the OIDC tokens of CI jobs, which the gateway exchanges for keys.

Verification keys come from the configured issuer's discovery document, never from the token (`jku`, `jwk`, `x5u`).
Claims of a token are used only after its signature is verified.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import jwt
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import ExpiredSignatureError, ImmatureSignatureError, InvalidAudienceError, PyJWTError

from tasks.base.errors import PlannerError
from tasks.text.patterns import matches
from worker.settings.oidc_file import ONLY_NAMED, Issuer, is_safe_url

ALGORITHMS = ["RS256", "ES256"]
LEEWAY_S = 60
REQUIRED = ["iss", "aud", "exp", "iat"]
FRESH_S = 600.0  # age after which keys are fetched again
STALE_S = 3600.0  # maximum age of keys while the issuer does not answer
PAUSE_S = 30.0  # between two requests for an unknown key
TIMEOUT_S = 5.0  # of one request in total
WAIT_S = 1.0  # for another thread that fetches the keys
MAX_BYTES = 512 * 1024  # of an answer
MOST_CHARS = 200  # of a repository's name, as in a goal
HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
DISCOVERY = "/.well-known/openid-configuration"
UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError)  # errors of hostile JSON, next to PyJWT's


class WrongToken(PlannerError):
    """The gateway does not accept a token: no configured issuer signed it, it expired, or its audience is another."""


class NotAllowed(PlannerError):
    """A token is valid, but its job may not have a key."""


class IssuerAway(PlannerError):
    """The public keys of the issuer cannot be fetched now."""


@dataclass(frozen=True, slots=True)
class Job:
    """A CI job that receives a key."""

    issuer: Issuer
    repository: str  # as goals name it
    repository_id: str
    subject: str


class KeySet:
    """The public keys of one issuer, fetched seldom and by one thread at a time."""

    def __init__(self, iss: str) -> None:
        self._iss = iss
        self._lock = threading.Lock()
        self._keys: dict[str, PyJWK] = {}
        self._since = self._asked = float("-inf")

    def find(self, kid: str) -> PyJWK | None:
        """Return the key with that id; None if the issuer has none. Raises IssuerAway."""
        now = time.monotonic()
        if kid in self._keys and now - self._since < FRESH_S:
            return self._keys[kid]
        if now - self._asked >= PAUSE_S:
            self._renew()
        elif now - self._since >= STALE_S:
            raise IssuerAway(f"The keys of {self._iss} could not be had.")
        return self._keys.get(kid)

    def _renew(self) -> None:
        if not self._lock.acquire(timeout=WAIT_S):
            raise IssuerAway(f"{self._iss} is being asked for its keys.")
        try:
            if time.monotonic() - self._asked < PAUSE_S:  # another thread fetched them
                return
            self._asked = time.monotonic()
            self._keys = {key.key_id: key for key in self._fetch() if key.key_id and _signs(key)}
            self._since = time.monotonic()
        except (httpx.HTTPError, httpx.InvalidURL, PyJWTError, *UNREADABLE) as error:
            if time.monotonic() - self._since >= STALE_S:
                raise IssuerAway(f"The keys of {self._iss} could not be had: {type(error).__name__}.") from error
        finally:
            self._lock.release()

    def _fetch(self) -> Sequence[PyJWK]:
        with httpx.Client(timeout=TIMEOUT_S / 2, follow_redirects=False) as client:
            about = _get(client, self._iss.rstrip("/") + DISCOVERY)
            place = about.get("jwks_uri")
            if about.get("issuer") != self._iss or not isinstance(place, str) or not is_safe_url(place, self._iss):
                raise ValueError("the discovery document is of another issuer, or names no place for keys")
            return PyJWKSet.from_dict(_get(client, place)).keys


def _signs(key: PyJWK) -> bool:
    return key.algorithm_name in ALGORITHMS and key.public_key_use in (None, "sig")


def _get(client: httpx.Client, url: str) -> dict[str, Any]:
    """Return a JSON object from a URL, within limits of size and time."""
    end, body = time.monotonic() + TIMEOUT_S, bytearray()
    with client.stream("GET", url, headers=HEADERS) as answer:
        if answer.status_code != httpx.codes.OK:
            raise ValueError(f"status {answer.status_code}")
        for piece in answer.iter_raw(16 * 1024):
            body += piece
            if len(body) > MAX_BYTES or time.monotonic() > end:
                raise ValueError("the answer is too large or too slow")
    found = json.loads(body)
    if not isinstance(found, dict):
        raise ValueError("the answer is no JSON object")
    return found


class Verifier:
    """The configured issuers and their public keys."""

    def __init__(self, issuers: Sequence[Issuer]) -> None:
        self.issuers = issuers
        self._keys = {each.iss: KeySet(each.iss) for each in issuers}

    def verify(self, token: str) -> Job:
        """Return the job of a token. Raises WrongToken, NotAllowed or IssuerAway."""
        issuer, claims = self._verified(token)
        same = [each for each in self.issuers if (each.iss, each.aud) == (issuer.iss, issuer.aud)]
        refusals = []
        for each in same:
            if why := _refusal(each, claims):
                refusals.append(why)
                continue
            names = ("repository", "repository_id") if each.kind == "github" else ("project_path", "project_id")
            repository, number = (_text(claims, name) for name in names)
            return Job(each, repository, number, _text(claims, "sub")[:MOST_CHARS])
        raise NotAllowed(refusals[0])

    def _verified(self, token: str) -> tuple[Issuer, dict[str, Any]]:
        """Return the issuer and the claims of a token, after its signature and audience are verified."""
        try:
            said = jwt.decode(token, options={"verify_signature": False})
            header = jwt.get_unverified_header(token)
        except (PyJWTError, *UNREADABLE) as error:
            raise WrongToken("This is no signed token.") from error
        own = [each for each in self.issuers if each.iss == said.get("iss")]
        if not own:
            raise WrongToken("The issuer of this token is not configured here.")
        kid = header.get("kid")
        key = self._keys[own[0].iss].find(kid) if isinstance(kid, str) else None
        if key is None:
            raise WrongToken("The issuer has no such key as signed this token.")
        issuer = next((each for each in own if each.aud == said.get("aud")), own[0])
        return issuer, _claims(token, key, issuer)


def _claims(token: str, key: PyJWK, issuer: Issuer) -> dict[str, Any]:
    try:
        return jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            audience=issuer.aud,
            issuer=issuer.iss,
            leeway=LEEWAY_S,
            options={"require": REQUIRED, "strict_aud": True, "enforce_minimum_key_length": True},
        )
    except ExpiredSignatureError as error:
        raise WrongToken("This token is over: ask for a new one.") from error
    except ImmatureSignatureError as error:
        raise WrongToken("This token is of the future: see that the clocks agree.") from error
    except InvalidAudienceError as error:
        raise WrongToken("This token is for another audience: ask for one with the gateway's.") from error
    except (PyJWTError, *UNREADABLE) as error:
        raise WrongToken("This token does not verify.") from error


def _refusal(issuer: Issuer, claims: Mapping[str, Any]) -> str | None:
    """Return why the job of a token may not have a key; None if it may.

    Repositories and owners are compared by their ids, because another one can get the same name later.
    """
    github = issuer.kind == "github"
    ids = ("repository_id", "repository_owner_id") if github else ("project_id", "namespace_id")
    repository, owner = (_text(claims, name) for name in ids)
    if not (repository and 0 < len(_text(claims, "repository" if github else "project_path")) <= MOST_CHARS):
        return "The token names no repository."
    if issuer.repositories and repository not in issuer.repositories:
        return f"The repository {repository} is not among those of this issuer."
    if issuer.owner_id and owner != issuer.owner_id:
        return f"The owner {owner} is not the one of this issuer."
    if why := _refusal_of_event(issuer, _text(claims, "event_name" if github else "pipeline_source")):
        return why
    if not github and _text(claims, "ref_protected") != "true":
        return "Jobs of protected branches and tags get keys, and this ref is not protected."
    ref = _text(claims, "ref") if github else _gitlab_ref(claims)
    if issuer.refs and not any(matches(allowed, ref) for allowed in issuer.refs):
        return f"Jobs of {', '.join(issuer.refs)} get keys, and this is one of {ref or 'no ref'}."
    return None


def _refusal_of_event(issuer: Issuer, event: str) -> str | None:
    """Return the reason why a job of this event receives no key. Older GitLab servers do not name the event."""
    if issuer.events and event not in issuer.events:
        return f"Jobs of {', '.join(issuer.events)} get keys, and this is one of {event or 'no event'}."
    if issuer.kind == "github" and not event:
        return "The token does not name the event that started the job."
    if event in ONLY_NAMED and event not in issuer.events:
        return f"A job of {event} gets no key unless `events` names {event}: such a job may run code of strangers."
    return None


def _gitlab_ref(claims: Mapping[str, Any]) -> str:
    """Return a GitLab ref as git spells it: its token has only the bare name and the type."""
    ref, kind = _text(claims, "ref"), _text(claims, "ref_type")
    return ref if ref.startswith("refs/") else f"refs/{'tags' if kind == 'tag' else 'heads'}/{ref}"


def _text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim as text; empty if it is missing or no text."""
    value = claims.get(name)
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, int) else ""
