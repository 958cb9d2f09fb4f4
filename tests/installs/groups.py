"""Which module of ours belongs to which extra, and what a module imports.

A module belongs to the group whose prefix is the longest that fits: a new package has to be named here.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RINGS = ("schemas", "tasks", "worker")
BARE = "bare"  # the wheel without an extra

GROUPS: Mapping[str, tuple[str, ...]] = {
    BARE: (
        "schemas",
        "tasks",
        "worker.agents",
        "worker.callbacks",
        "worker.celery",
        "worker.cli",
        "worker.client",
        "worker.controller",
        "worker.doctor",
        "worker.drafters",
        "worker.delivered",
        "worker.engine",
        "worker.host",
        "worker.process",
        "worker.record",
        "worker.render",
        "worker.sandbox",
        "worker.settings",
        "worker.sources",
        "worker.start",
        "worker.store",
        "worker.streams",
        "worker.telemetry",
        "worker.webhooks",
    ),
    "gateway": (
        "worker.cli.webhook_samples",
        "worker.gateway",
        "worker.webhooks.checking",
        "worker.webhooks.expressions",
        "worker.webhooks.intake",
        "worker.webhooks.rules",
    ),
    "mcp": ("worker.gateway.mcp_stdio", "worker.mcp"),
    "local": ("worker.host.embedded_server",),
    "demo": ("worker.demo",),
    "otel": ("worker.telemetry.spans",),
    "sentry": ("worker.telemetry.sentry",),
    "sign": ("worker.record.signing",),
    "llm": ("worker.drafters.http",),
}
LATE = frozenset(  # what a module imports once it knows that it is there
    {
        ("worker.callbacks.sealing", "cryptography.fernet"),
        ("worker.gateway.app", "mcp.server.transport_security"),
    }
)
ROOTS = frozenset({"worker"})  # a package that is more than one group; its `__init__` belongs to all


@dataclass(frozen=True)
class Import:
    """A module that another one imports, anywhere in it."""

    importer: str
    name: str
    is_guarded: bool  # by a `try` or `needs_extra`, which have an answer where it is missing


def extras() -> dict[str, frozenset[str]]:
    """Return each extra with the groups of modules that it brings: its own, the bare wheel's, those of extras in it."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def groups(extra: str) -> frozenset[str]:
        inner = [each.partition("[")[2].rstrip("]") for each in table[extra] if each.startswith("planner-worker[")]
        named = [name.strip() for names in inner for name in names.split(",")]
        return frozenset({BARE, extra}).union(*map(groups, named))

    return {extra: groups(extra) for extra in table}


def modules() -> list[str]:
    """Name all modules of ours; a `__main__` is a program, and reporters are copied to the tools that use them."""
    found = (path.relative_to(ROOT) for ring in RINGS for path in (ROOT / ring).rglob("*.py"))
    paths = sorted(path for path in found if path.parent.name != "reporters")
    return [_module_name(path) for path in paths if path.name != "__main__.py"]


def group_of(module: str) -> str:
    """Return the group of a module; raises LookupError for one that has none."""
    if module in ROOTS:
        return BARE
    fitting = [
        (len(prefix), group)
        for group, prefixes in GROUPS.items()
        for prefix in prefixes
        if f"{module}.".startswith(f"{prefix}.")
    ]
    if not fitting:
        raise LookupError(f"{module} is in no group of tests/installs/groups.py")
    return max(fitting)[1]


def modules_of(groups: frozenset[str]) -> list[str]:
    """Name the modules of some groups."""
    return [module for module in modules() if group_of(module) in groups]


def imports_of(module: str) -> Iterator[Import]:
    """Find what a module imports, late imports in functions included, those for types alone left out."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    yield from _imports(ast.parse(file.read_text()), module, is_guarded=False)


def _imports(node: ast.AST, module: str, *, is_guarded: bool) -> Iterator[Import]:
    match node:
        case ast.Import():
            yield from (Import(module, alias.name, is_guarded) for alias in node.names)
        case ast.ImportFrom(module=str(source), level=0):
            yield from (Import(module, f"{source}.{alias.name}", is_guarded) for alias in node.names)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Try():
            answers = ast.unparse(ast.Tuple(elts=[each.type for each in node.handlers if each.type]))
            inner = is_guarded or "ImportError" in answers or "ModuleNotFoundError" in answers
            for tried in node.body:
                yield from _imports(tried, module, is_guarded=inner)
            for after in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _imports(after, module, is_guarded=is_guarded)
        case ast.With(items=[ast.withitem(context_expr=ast.Call(func=ast.Name(id="needs_extra")))]):
            for tried in node.body:
                yield from _imports(tried, module, is_guarded=True)
        case _:
            for inner_node in ast.iter_child_nodes(node):
                yield from _imports(inner_node, module, is_guarded=is_guarded)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
