"""An OIDC issuer on this machine: discovery document, keys, and tokens that it signs as GitHub and GitLab do."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "https://planner.acme.example"
GITHUB = {
    "sub": "repo:acme/shop:ref:refs/heads/main",
    "repository": "acme/shop",
    "repository_id": "11",
    "repository_owner_id": "7",
    "event_name": "push",
    "ref": "refs/heads/main",
}
GITLAB = {
    "sub": "project_path:acme/shop:ref_type:branch:ref:main",
    "project_path": "acme/shop",
    "project_id": "11",
    "namespace_id": "7",
    "ref": "main",
    "ref_type": "branch",
    "ref_protected": "true",
}


class Issuer:
    """An OIDC issuer: `documents` are the documents that it serves by path, `asked` counts the requests by path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        public = [
            RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True) | {"kid": "r", "use": "sig"},
            ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True) | {"kid": "e"},
        ]
        self.discovery = "/.well-known/openid-configuration"
        self.documents: dict[str, bytes] = {"/keys": json.dumps({"keys": public}).encode()}
        self.documents[self.discovery] = json.dumps({"issuer": url, "jwks_uri": f"{url}/keys"}).encode()
        self.redirects: dict[str, str] = {}
        self.asked: list[str] = []

    def token(self, kid: str = "r", header: Any = None, **claims: Any) -> str:
        """Sign a token of a GitHub job: `claims` override the usual ones, and a claim that is None is left out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "iat": now, "exp": now + 300, **GITHUB, **claims}
        key, algorithm = (self.ec, "ES256") if kid == "e" else (self.rsa, "RS256")
        payload = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(payload, key, algorithm, headers={"kid": kid, **(header or {})})


@contextmanager
def running_issuer() -> Iterator[Issuer]:
    """Run an issuer on a free port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            body = issuer.documents.get(self.path)
            place = issuer.redirects.get(self.path)
            self.send_response(302 if place else 200 if body is not None else 404)
            if place:
                self.send_header("Location", place)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="issuer", daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
