"""Builds the manifests of docs/kubernetes as `kubectl kustomize` does, as far as these use it.

Names of ConfigMaps get no digest. A test compares the result with that of kubectl, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]
KEYS = ("mountPath", "name", "containerPort")  # by which elements of two lists are the same, the first that there is


def build(folder: Path, below: list[Document] | None = None) -> list[Document]:
    """Return the resources of a folder with a kustomization.yaml; a component gets those that it is added to."""
    asked = yaml.safe_load((folder / "kustomization.yaml").read_text())
    made = list(below or ())
    for name in asked.get("resources", ()):
        made += build(folder / name) if (folder / name).is_dir() else documents(folder / name)
    for generated in asked.get("configMapGenerator", ()):
        _generate(folder, generated, made)
    for name in asked.get("components", ()):
        made = build(folder / name, made)
    for patch in asked.get("patches", ()):
        (change,) = documents(folder / patch["path"])
        for document in _meant(made, patch["target"]):
            document["spec"] = merge(document["spec"], change["spec"])
    for image in asked.get("images", ()):
        _rename(made, image)
    for document in made:
        if "namespace" in asked and document["kind"] != "Namespace":
            document["metadata"]["namespace"] = asked["namespace"]
    return made


def documents(path: Path) -> list[Document]:
    """Read the documents of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def merge(old: Any, new: Any) -> Any:
    """Return `old` with what `new` adds and replaces, by the rules of a strategic merge."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: merge(old[name], value) if name in old else value for name, value in new.items()}}
    if not (isinstance(old, list) and old and isinstance(old[0], dict)):
        return new
    key = next(key for key in KEYS if key in old[0])
    known = {each[key]: each for each in old}
    return list({**known, **{each[key]: merge(known.get(each[key], {}), each) for each in new}}.values())


def _meant(made: list[Document], target: dict[str, str]) -> list[Document]:
    label, _, value = target["labelSelector"].partition("=")
    labelled = [each for each in made if each["metadata"].get("labels", {}).get(label) == value]
    return [each for each in labelled if re.fullmatch(target["kind"], each["kind"])]


def _generate(folder: Path, asked: Document, made: list[Document]) -> None:
    texts = [(folder / name).read_text() for name in asked.get("envs", ())]
    lines = [line for text in (*texts, *asked.get("literals", ())) for line in text.splitlines()]
    data = {name: value for name, _, value in (line.partition("=") for line in lines)}
    data |= {name: (folder / name).read_text() for name in asked.get("files", ())}
    if asked.get("behavior") == "merge":
        (old,) = (each for each in made if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", asked["name"]))
        old["data"] |= data
    else:
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": asked["name"]}, "data": data})


def _rename(made: list[Document], image: dict[str, str]) -> None:
    for pod in pods(made):
        for container in pod["containers"]:
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"


def pods(made: list[Document]) -> Iterator[Document]:
    """Yield the pod's part of every workload."""
    yield from (each["spec"]["template"]["spec"] for each in made if "template" in each.get("spec", {}))
