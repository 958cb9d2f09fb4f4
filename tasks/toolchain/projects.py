"""Finds the projects of a repository: folders with a manifest, each verified in its folder."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from schemas.step import ROOT
from tasks.text.folders import nearest
from tasks.text.paths import clean
from tasks.toolchain.files import is_for_tests, name_of
from tasks.toolchain.languages import LANGUAGES, MANIFESTS

_MAKING: Mapping[str, str] = MappingProxyType(
    {name: sign for each in LANGUAGES.values() for name, sign in each.projects}
)
_JOINING: Mapping[str, str] = MappingProxyType(
    {name: sign for each in LANGUAGES.values() for name, sign in each.workspaces}
)
_FOREIGN = frozenset({"node_modules", "vendor", "third_party", "testdata", "fixtures", "__fixtures__", "samples"})


def project_folders(manifests: Mapping[str, str], files: Iterable[str] = ()) -> frozenset[str]:
    """Return the folders of a repository's projects; `manifests` has the texts, and `files` may have more manifests.

    Some manifests make a project even below another one, others only if no project is above. Members of a workspace are
    part of its project if their tool, such as Cargo, treats them so.
    """
    texts = {clean(path): text for path, text in manifests.items()}
    paths = {*texts, *(path for path in map(clean, files) if name_of(path) in MANIFESTS)}
    found: set[str] = set()
    workspaces: dict[str, set[str]] = defaultdict(set)
    for path in sorted(paths, key=lambda path: (path.count("/"), name_of(path) not in _MAKING, path)):
        folder, name = path.rpartition("/")[0] or ROOT, name_of(path)
        *above, last = folder.split("/")
        if name not in MANIFESTS or not _FOREIGN.isdisjoint((*above, last)) or any(map(is_for_tests, above)):
            continue  # fixtures of tests, or files of other projects
        text = texts.get(path, "")
        is_member = folder != ROOT and bool(workspaces[name]) and _lies_in(path, workspaces[name])
        if name in _JOINING and re.search(_JOINING[name], text):
            workspaces[name].add(folder)
        makes = name in _MAKING and (not text or re.search(_MAKING[name], text))
        if not is_member and (makes or not _lies_in(path, found)):
            found.add(folder)
    return frozenset(found)


def _lies_in(path: str, folders: set[str]) -> bool:
    return ROOT in folders or nearest(path, folders) != ROOT
