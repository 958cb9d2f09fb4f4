"""The manifests of docs/kubernetes: Kubernetes takes them, and all that they name is there in the planner.

No cluster runs here; docs/kubernetes.md lists what this cannot show.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate
from typer.main import get_command

from tasks.routes import ROUTES
from tests.support.kustomize import Document, build
from tests.support.programs import needs
from worker.callbacks.sealing import SecretBox
from worker.cli.commands.app import app
from worker.gateway import error_responses
from worker.settings.settings import load
from worker.store.keys import GOALS, Partition
from worker.telemetry import metrics_server
from worker.telemetry.metrics import TABLE, Teller
from worker.telemetry.shared_state import INBOXES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/kubernetes"
PAGE = (ROOT / "docs/kubernetes.md").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
BUILT = build(FOLDER / "overlays/example")
OF_KEDA = ("ScaledObject", "TriggerAuthentication")
APP, PART = "app.kubernetes.io/name", "app.kubernetes.io/part-of"
ROLES = ("planner", "controller", "producer", "operator", "scaler")
PROGRAMS = {  # that write down their words, or do with coreutils what the page asks of them
    "kubectl": 'printf "%s\\n" "$*" >> kubectl-words',
    "openssl": """case $2 in
        -hex) od -An -tx1 -v -N "$3" /dev/urandom | tr -d ' ';;
        *) head -c "$3" /dev/urandom | base64;;
    esac""",
}


def of_kind(*kinds: str) -> dict[str, Document]:
    return {each["metadata"]["name"]: each for each in BUILT if each["kind"] in kinds}


WORKLOADS = of_kind("Deployment", "StatefulSet")
OURS = {name: each for name, each in WORKLOADS.items() if name != "valkey"}
SETTINGS = of_kind("ConfigMap")["planner"]["data"]


def pod_of(workload: Document) -> Document:
    return dict(workload["spec"]["template"]["spec"])


def container_of(workload: Document) -> Document:
    (container,) = pod_of(workload)["containers"]
    return dict(container)


def variables_of(workload: Document) -> dict[str, str]:
    return dict(SETTINGS) | {each["name"]: each["value"] for each in container_of(workload).get("env", ())}


def ports_of(workload: Document) -> dict[str, int]:
    return {each["name"]: each["containerPort"] for each in container_of(workload)["ports"]}


def labels_of(workload: Document) -> dict[str, str]:
    return dict(workload["spec"]["template"]["metadata"]["labels"])


def selected(labels: dict[str, str]) -> list[str]:
    return [name for name, each in WORKLOADS.items() if labels.items() <= labels_of(each).items()]


# --- Kubernetes takes them ---


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_kubernetes_knows_every_field(version: str) -> None:
    for document in BUILT:
        if document["kind"] not in OF_KEDA:
            assert validate(document, version, strict=True)


@pytest.mark.outages
@pytest.mark.long
@needs("kubectl")
def test_kubectl_builds_the_same() -> None:
    command = ["kubectl", "kustomize", str(FOLDER / "overlays/example")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    theirs = yaml.safe_load_all(re.sub(r"\b(planner|valkey)-[a-z0-9]{10}\b", r"\1", said))

    assert _sorted(list(theirs)) == _sorted(BUILT)


def _sorted(value: Any) -> Any:
    """Return the value with lists of mappings in an order of their own, as far as that means nothing."""
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(map(_sorted, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def test_every_file_is_used() -> None:
    named = {"users.acl"}
    for file in FOLDER.rglob("kustomization.yaml"):
        asked = yaml.safe_load(file.read_text())
        named |= {"kustomization.yaml", *asked["resources"], *(each["path"] for each in asked.get("patches", ()))}
        for each in asked.get("configMapGenerator", ()):
            named |= {*each.get("envs", ()), *each.get("files", ())}

    assert {file.name for file in FOLDER.rglob("*") if file.is_file()} <= named


# --- what they name is there ---


@pytest.mark.parametrize("name", OURS)
def test_a_process_starts_with_its_variables_and_files(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounts = container_of(OURS[name])["volumeMounts"]
    for variable, value in variables_of(OURS[name]).items():
        if variable.endswith("_FILE"):
            assert any(value.startswith(f"{mount['mountPath']}/") for mount in mounts), variable
            value = str(tmp_path / "url")
        monkeypatch.setenv(variable, value)
    (tmp_path / "url").write_text("redis://planner:secret@valkey:6379/0\n")

    settings = load()  # raises for a name that is no setting

    assert settings.redis_url == "redis://planner:secret@valkey:6379/0"
    if settings.metrics_port is not None:
        assert ports_of(OURS[name])["metrics"] == settings.metrics_port
        assert str(settings.state) in {mount["mountPath"] for mount in mounts}


@pytest.mark.parametrize("name", OURS)
def test_the_command_of_a_process_and_its_options_are_there(name: str) -> None:
    command, *words = container_of(OURS[name])["args"]
    parsed: Any = get_command(app).commands[command].make_context(command, words)  # type: ignore[attr-defined]

    if port := parsed.params.get("port"):
        assert port in ports_of(OURS[name]).values()


def test_every_queue_has_a_worker() -> None:
    commands = [container_of(each)["args"] for each in OURS.values() if "--queues" in container_of(each)["args"]]
    consumed = [queue for words in commands for queue in words[words.index("--queues") + 1].split(",")]

    assert sorted(consumed) == sorted(route.task for route in ROUTES)


def test_probes_ask_what_a_process_answers() -> None:
    answered = {"worker": set(metrics_server.HEALTH), "gateway": set(error_responses.HEALTH), "exporter": {"/metrics"}}
    for name, workload in OURS.items():
        probes = [probe for field, probe in container_of(workload).items() if field.endswith("Probe")]
        assert len(probes) >= 2, name
        for probe in probes:
            asked = probe["httpGet"]
            assert asked["path"] in answered[container_of(workload)["args"][0]], name
            assert asked["port"] in ports_of(workload), name


def test_services_disruption_budgets_and_policies_lead_to_pods_and_ports() -> None:
    for each in of_kind("Service").values():
        found = selected(each["spec"]["selector"])
        assert found
        for port in each["spec"]["ports"]:
            assert {ports_of(WORKLOADS[name])[port["targetPort"]] for name in found} == {port["port"]}
    for each in of_kind("PodDisruptionBudget").values():
        assert selected(each["spec"]["selector"]["matchLabels"]) == [each["metadata"]["name"]]
    for each in of_kind("NetworkPolicy").values():
        found = selected(each["spec"]["podSelector"].get("matchLabels", {}))
        assert found
        if "matchExpressions" not in each["spec"]["podSelector"]:
            named = {port["port"] for rule in each["spec"].get("ingress", ()) for port in rule["ports"]}
            assert all(named <= ports_of(WORKLOADS[name]).keys() for name in found if named)
    (rule,) = of_kind("Ingress")["gateway"]["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "gateway", "port": {"name": "http"}}
    assert rule["host"] in SETTINGS["PLANNER_GATEWAY_HOSTS"].split(",")


def test_a_stateful_set_has_a_service_of_its_name() -> None:
    for name, each in of_kind("StatefulSet").items():
        assert name in selected(of_kind("Service")[each["spec"]["serviceName"]]["spec"]["selector"])


def triggers(kind: str) -> Iterator[tuple[str, Document]]:
    for name, each in of_kind("ScaledObject").items():
        assert each["spec"]["scaleTargetRef"]["name"] == name
        assert name in OURS
        yield from ((name, trigger) for trigger in each["spec"]["triggers"] if trigger["type"] == kind)


def test_scaling_asks_lengths_of_streams_that_are_there_and_no_lag() -> None:
    count = int(SETTINGS["PLANNER_PARTITIONS"])
    outcomes = [Partition(number).outcomes for number in range(count)]
    asked: dict[str, list[str]] = {}
    for name, trigger in triggers("redis-streams"):
        assert trigger["metadata"].keys() == {"address", "stream", "streamLength"}
        assert trigger["metadata"]["address"] == "valkey:6379"
        assert trigger["authenticationRef"]["name"] in of_kind("TriggerAuthentication")
        asked.setdefault(name, []).append(trigger["metadata"]["stream"])

    assert asked == {"goals": [GOALS], "outcomes": outcomes}
    assert of_kind("ScaledObject")["outcomes"]["spec"]["maxReplicaCount"] == count
    assert all("replicas" not in WORKLOADS[name]["spec"] for name in of_kind("ScaledObject"))


def test_scaling_asks_metrics_that_the_exporter_has() -> None:
    exported = {metric.name for metric in TABLE if metric.teller is Teller.STATE}
    asked = [(name, trigger["metadata"]["query"]) for name, trigger in triggers("prometheus")]

    assert [name for name, _ in asked] == ["goals", "outcomes"]
    for name, query in asked:
        metric, stream = re.fullmatch(r'max\((\w+)\{stream="(\w+)"\}\)', query).groups()  # type: ignore[union-attr]
        assert metric in exported
        assert stream == name
        assert stream in INBOXES


# --- as the page states ---


@pytest.mark.parametrize("name", OURS)
def test_a_pod_has_longer_to_end_than_its_process_takes(name: str) -> None:
    before = container_of(OURS[name]).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [0])
    grace = pod_of(OURS[name])["terminationGracePeriodSeconds"]

    assert grace >= int(SETTINGS["PLANNER_STOP_S"]) + int(before[-1]) + 10


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_pod_is_an_ordinary_user_without_capabilities_and_writes_to_its_volumes_alone(name: str) -> None:
    pod, container = pod_of(WORKLOADS[name]), container_of(WORKLOADS[name])

    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is pod["enableServiceLinks"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"].keys() == {"memory"}


def test_the_users_of_the_pods_are_those_of_the_image() -> None:
    inline = COMPOSE["services"]["outcomes"]["build"]["dockerfile_inline"]

    assert {pod_of(each)["securityContext"]["runAsUser"] for each in OURS.values()} == {10001}
    assert "--uid 10001" in inline
    assert f"--mode 700 {variables_of(OURS['outcomes'])['PLANNER_STATE_DIR']}" in inline


def test_what_workers_of_outcomes_know_outlives_them_and_is_in_no_backup() -> None:
    (claim,) = OURS["outcomes"]["spec"]["volumeClaimTemplates"]

    assert claim["metadata"]["labels"] == {"velero.io/exclude-from-backup": "true"}
    assert claim["metadata"]["name"] not in {each["name"] for each in pod_of(OURS["outcomes"])["volumes"]}


def test_nothing_reaches_a_pod_that_no_policy_names() -> None:
    deny = of_kind("NetworkPolicy")["deny-all"]["spec"]
    server = of_kind("NetworkPolicy")["valkey"]["spec"]["ingress"]

    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert server[0]["from"] == [{"podSelector": {"matchLabels": {PART: "planner"}}}]
    assert {name for name, each in WORKLOADS.items() if labels_of(each).get(PART) == "planner"} == OURS.keys()


def test_the_server_is_set_up_and_guarded_as_in_compose() -> None:
    ours = (FOLDER / "valkey/valkey.conf").read_text()
    theirs = COMPOSE["configs"]["valkey.conf"]["content"].replace("${VALKEY_MAXMEMORY:-2gb}", "2gb")
    users = (FOLDER / "users.acl").read_text().splitlines()
    role = re.compile(r"\$\{VALKEY_(\w+)_PASSWORD:\?[^}]*\}")
    content = COMPOSE["configs"]["users.acl"]["content"]

    comment = re.compile("^#.*\n", re.MULTILINE)
    assert comment.sub("", ours) == comment.sub("", theirs).replace("/etc/valkey/", "/etc/valkey-users/")
    assert users[:-1] == role.sub(lambda found: f"@{found[1].lower()}@", content).splitlines()
    assert users[-1].startswith(
        "user scaler on >@scaler@ resetchannels -@all +@connection -@dangerous (%R~planner:goals"
    )
    assert users[-1].endswith(" +xlen)")


def test_the_server_has_twice_the_memory_that_it_may_fill() -> None:
    maxmemory = re.search(r"^maxmemory (\d+)gb$", of_kind("ConfigMap")["valkey"]["data"]["valkey.conf"], re.MULTILINE)

    assert maxmemory
    assert container_of(WORKLOADS["valkey"])["resources"]["limits"]["memory"] == f"{2 * int(maxmemory[1])}Gi"


# --- the page ---


def test_the_commands_of_the_page_make_every_secret_that_is_mounted(tmp_path: Path) -> None:
    (block,) = (each for each in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "create secret" in each)
    for name, script in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "docs/kubernetes").mkdir(parents=True)
    (tmp_path / "docs/kubernetes/users.acl").write_text((FOLDER / "users.acl").read_text())
    subprocess.run(["sh", "-e", "-c", f'PATH="{tmp_path}:$PATH"\n{block}'], cwd=tmp_path, check=True, timeout=60)

    folder = tmp_path / "docs/kubernetes"
    made = dict(_made(folder))
    for workload in WORKLOADS.values():
        for volume in pod_of(workload)["volumes"]:
            if "secret" in volume:
                assert made[volume["secret"]["secretName"]]
    for each in of_kind("TriggerAuthentication")["scaler"]["spec"]["secretTargetRef"]:
        assert each["key"] in made[each["name"]]
    assert made["planner-url"].keys() == {Path(SETTINGS["PLANNER_REDIS_URL_FILE"]).name}
    assert made["callback-keys"].keys() == {Path(variables_of(OURS["callbacks"])["PLANNER_SECRET_FILE"]).name}
    assert f"/{next(iter(made['valkey-users']))}\n" in of_kind("ConfigMap")["valkey"]["data"]["valkey.conf"]
    SecretBox.open(folder / "secrets/callback_keys")
    users = (folder / "secrets/users.acl").read_text()
    for role in ROLES:
        password = (folder / f"secrets/{role}_password").read_text()
        assert f"user {role} on >{password} " in users
        assert (folder / f"secrets/{role}_url").read_text() == f"redis://{role}:{password}@valkey:6379/0\n"
    assert (folder / "secrets").stat().st_mode & 0o777 == 0o700
    assert not [word for word in users.split() if word.startswith(">@")]


def _made(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Read the Secrets that were made, with their keys, from the words that kubectl got."""
    for line in (folder / "kubectl-words").read_text().splitlines():
        if found := re.match(r"-n planner create secret generic (\S+) (.*)", line):
            yield found[1], dict(re.findall(r"--from-(?:file|literal)=(\w[\w.]*)=(\S+)", found[2]))


def test_the_commands_that_build_the_image_set_what_compose_asks_for() -> None:
    (block,) = (each for each in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if "docker compose build" in each)
    needed = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text()))

    assert set(re.findall(r"\b(VALKEY_\w+)=", block)) == needed


def test_the_page_names_every_part() -> None:
    assert [name for name in WORKLOADS if f"`{name}`" not in PAGE] == []
    for file in re.findall(r"`((?:base|valkey|keda|overlays)/[\w./]*)`", PAGE):
        assert (FOLDER / file).exists(), file
