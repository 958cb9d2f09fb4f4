"""The limits of a step at each risk level, and the assessment of its risk by the files that it may touch.

A signal is a kind of file, recognized by its path alone. It has the lowest risk level that a step with such a file may
have. Documents and tests with such a path are harmless, except files that run in CI or instruct agents. The assessment
can only raise a declared level.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from schemas.base import Mode, RiskLevel
from schemas.step import StepEstimate
from tasks.toolchain.files import Role, role_of


@dataclass(frozen=True, slots=True)
class RiskLimits:
    """The limits of steps at one risk level."""

    max_files: int
    tests_required: bool
    two_phase: bool  # scaffold, then fill
    rollback_hint: bool


RISK: Mapping[RiskLevel, RiskLimits] = MappingProxyType(
    {
        RiskLevel.LOW: RiskLimits(10, tests_required=False, two_phase=False, rollback_hint=False),
        RiskLevel.MED: RiskLimits(5, tests_required=True, two_phase=False, rollback_hint=True),
        RiskLevel.HIGH: RiskLimits(2, tests_required=True, two_phase=True, rollback_hint=True),
    }
)

ROLLBACK = "Restore the files of this step from the commit that the attempt started from."

_ORDER = tuple(RISK)

_ESTIMATES: Mapping[Mode, StepEstimate] = MappingProxyType(
    {
        Mode.PATCH: StepEstimate(tokens=60_000, patch_cycles=1),
        Mode.READ_ONLY: StepEstimate(tokens=20_000, patch_cycles=0),
        Mode.TEST: StepEstimate(tokens=500, patch_cycles=0),
    }
)


def estimate(mode: Mode) -> StepEstimate:
    """Return the default reservation of an attempt in this mode."""
    return _ESTIMATES[mode]


def is_below(level: RiskLevel, other: RiskLevel) -> bool:
    """Return whether `level` is a lower risk than `other`."""
    return level is not other and _ORDER.index(level) < _ORDER.index(other)


LOW, MED, HIGH = RiskLevel


@dataclass(frozen=True, slots=True)
class Signal:
    """A kind of file: a step that may touch such a file has at least the risk `level`.

    The file's path matches `pattern`, and the file's role is one of `roles`.
    """

    level: RiskLevel
    why: str
    pattern: re.Pattern[str]
    roles: tuple[Role, ...] = (Role.SOURCE, Role.MANIFEST)


def _paths(*patterns: str) -> re.Pattern[str]:
    """Return a pattern for paths whose last components match one of `patterns`."""
    return re.compile(rf"(?:^|/)(?:{'|'.join(patterns)})$", re.IGNORECASE)


_WORDS = r"auth|authn|authz|authentication|authorization|oauth2?|saml|sso|jwt|login|passwords?|permissions?|acls?|rbac"
_SECRETS = r"crypto|cryptography|encryption|cipher|keyring|signing|sudoers|csrf|cors"

# The first row that matches a file gives the reason.
SIGNALS = (
    Signal(
        HIGH,
        "configures CI",
        _paths(
            r"\.(?:github|gitlab|circleci|buildkite)/.*",
            r"\.gitlab-ci\.yml|\.travis\.yml|appveyor\.yml|bitbucket-pipelines\.yml|azure-pipelines[\w.-]*\.ya?ml",
            r"Jenkinsfile(?:[.-][\w.-]*)?|\.drone\.yml|cloudbuild\.ya?ml|\.pre-commit-config\.yaml",
        ),
        (Role.SOURCE, Role.MANIFEST, Role.TEST),
    ),
    Signal(
        HIGH,
        "instructs agents",
        _paths(r"(?:AGENTS|CLAUDE)(?:\.[\w-]+)?\.md", r"\.mcp\.json", r"\.(?:claude|codex)/.*"),
        tuple(Role),
    ),
    Signal(HIGH, "migrates data", _paths(r"(?:migrations?|migrate|alembic)/.*", r"flyway/.*", r"V\d+__\w+\.sql")),
    Signal(
        HIGH,
        "is part of a deployment",
        _paths(
            r"(?:[\w-]+\.)?Dockerfile(?:[.-][\w.-]*)?|Containerfile|(?:docker-)?compose(?:[.-][\w.-]*)?\.ya?ml|Procfile|fly\.toml",
            r".*\.(?:tf|tfvars|hcl)|Chart\.ya?ml|skaffold\.ya?ml|serverless\.ya?ml",
            r"(?:deploy|deployments?|k8s|kubernetes|helm|terraform|ansible)/.*",
        ),
    ),
    Signal(
        MED,
        "names dependencies",
        _paths(
            r"pyproject\.toml|setup\.(?:py|cfg)|requirements[\w.-]*\.(?:txt|in)|Pipfile(?:\.lock)?|(?:poetry|uv)\.lock",
            r"package(?:-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|go\.(?:mod|sum|work)",
            r"Cargo\.(?:toml|lock)|Gemfile(?:\.lock)?|composer\.(?:json|lock)|pom\.xml|build\.gradle(?:\.kts)?",
            r"conanfile\.(?:txt|py)|vcpkg\.json",
        ),
    ),
    Signal(
        MED,
        "guards access or secrets",
        re.compile(rf"(?:^|[/._-])(?:{_WORDS}|{_SECRETS}|security)(?=[/._-])", re.IGNORECASE),
    ),
)


@dataclass(frozen=True, slots=True)
class Assessment:
    """The lowest risk level that a step may have, and the reason if it is above LOW."""

    level: RiskLevel = LOW
    why: str = ""


@lru_cache(maxsize=16384)
def _of_file(path: str) -> Assessment:
    role = role_of(path)
    for signal in SIGNALS:
        if role in signal.roles and signal.pattern.search(path):
            return Assessment(signal.level, f"{path} {signal.why}")
    return Assessment()


_DECLARED = {level: Assessment(level) for level in RISK}


def assess(files: Iterable[str]) -> Assessment:
    """Return the risk of a step that may touch `files`; the first of the riskiest files is the reason."""
    worst = _DECLARED[LOW]
    for path in files:
        found = _of_file(path)
        if is_below(worst.level, found.level):
            worst = found
    return worst


def assess_declared(declared: RiskLevel, files: Iterable[str]) -> Assessment:
    """Return the risk of a step with a declared level; `why` is empty if the files do not raise this level."""
    found = assess(files)
    return found if is_below(declared, found.level) else _DECLARED[declared]


def explain_raise(found: Assessment, guidance: str | None) -> str | None:
    """Return the guidance of a step with the reason for a raised level in front; None if both are empty."""
    reason = f"Risk {found.level}: {found.why}." if found.why else ""
    return " ".join(filter(None, (reason, guidance))) or None
