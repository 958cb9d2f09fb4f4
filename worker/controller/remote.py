"""A remote repository: read and written by git with our settings and with the credentials for it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from worker.controller.readiness import RemoteTrouble, UnknownCommit
from worker.host.git import UPLOAD_PACK, Git, GitError

PROTOCOLS = "file:https:http:ssh"
SSH = shlex.split("ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4")
CERTIFICATES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}  # ours, as git calls them
ASKED = "terminal prompts disabled"  # message of git if a server wants a login
PASSED_ON = (
    *CERTIFICATES.values(),
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
)
SLOW = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
ABSENT = ("couldn't find remote ref", "not our ref")  # messages of git if the remote does not have it
FULL_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
MAX_TOKEN_BYTES = 64 * 1024
HTTP = ("https://", "http://")
_USER = re.compile(r"(?<=://)[^/\s]*@")


@dataclass(frozen=True, slots=True)
class Remote:
    """The repository at `url`; a token is read from its file for each HTTPS call, and `ssh_key` is for SSH."""

    url: str
    user: str = "x-access-token"
    token_file: Path | None = None
    ssh_key: Path | None = None
    known_hosts: Path | None = None

    def __call__(self, directory: Path | None, *args: str) -> str:
        """Run a git command that may contact the remote, with the git directory `directory` if one is given.

        Raises RemoteTrouble.
        """
        options = (f"--git-dir={directory}", *SLOW) if directory else SLOW
        try:
            return Git(directory or Path("/"), *options, environment=self._environment()).line(*args)
        except (GitError, OSError, subprocess.TimeoutExpired) as error:
            why = f"{error} (the server takes no login, or not this one)" if ASKED in str(error) else error
            raise RemoteTrouble(without_users(f"{self.url}: {why}")) from error

    def fetch(self, directory: Path, *wanted: str, depth: int = 0, options: Sequence[str] = ()) -> None:
        """Fetch commits or branches into `directory`, without an upstream setting.

        Raises UnknownCommit if the remote does not have them, else RemoteTrouble.
        """
        words = ["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force", *options]
        words += [f"--depth={depth}"] if depth else []
        # A repository of this machine is read with our settings too.
        words += [] if self._is_elsewhere else [f"--upload-pack={UPLOAD_PACK}"]
        try:
            self(directory, "fetch", *words, "--", self._address, *wanted)
        except RemoteTrouble as error:
            if any(said in str(error) for said in ABSENT):
                raise UnknownCommit(str(error)) from error
            raise

    @property
    def _address(self) -> str:
        """The URL as others may see it: a password for HTTP is passed in the environment instead."""
        return without_users(self.url) if self.url.startswith(HTTP) else self.url

    @property
    def _is_elsewhere(self) -> bool:
        return not self.url.startswith(("/", "file:"))

    def _environment(self) -> dict[str, str]:
        given = {git: os.environ[name] for name, git in CERTIFICATES.items() if name in os.environ}
        given |= {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        given |= {"GIT_ALLOW_PROTOCOL": PROTOCOLS, "GIT_SSH_COMMAND": shlex.join(self._ssh())}
        if credentials := self._credentials():
            parts = urlsplit(self._address)
            # Not among the words, which every process of this machine can read; and for this server alone.
            given |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"http.{parts.scheme}://{parts.netloc}/.extraHeader"}
            given["GIT_CONFIG_VALUE_0"] = f"Authorization: Basic {b64encode(credentials).decode()}"
        return given

    def _ssh(self) -> Iterator[str]:
        yield from SSH
        if self.ssh_key:
            yield from ("-i", str(self.ssh_key), "-o", "IdentitiesOnly=yes")
        if self.known_hosts:  # ssh takes quotes around a path with blanks off
            yield from ("-o", f'UserKnownHostsFile="{self.known_hosts}" ~/.ssh/known_hosts')

    def _credentials(self) -> bytes:
        """The user and password for HTTP, from the token's file or the URL; empty if there are none."""
        if self.token_file and self.url.startswith("https://"):
            return self.user.encode() + b":" + self.token_file.read_bytes()[:MAX_TOKEN_BYTES].strip()
        user = urlsplit(self.url).netloc.rpartition("@")[0] if self.url.startswith(HTTP) else ""
        return unquote_to_bytes(user if ":" in user or not user else f"{user}:")


def without_users(text: str) -> str:
    """Return `text` without users and passwords in its URLs."""
    return _USER.sub("", text)
