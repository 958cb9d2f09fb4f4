"""compose.yaml is run without containers: every service's own command, environment and configuration, as processes.

What this cannot show is that the images build: no container engine runs here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography.fernet import Fernet
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as RedisConnectionError

from tasks.plan.changeset import Changeset
from tasks.routes import ROUTES
from tests.conftest import connect, wait_until
from tests.support.programs import needs
from tests.support.servers import BINARY
from worker.callbacks.sealing import SecretBox
from worker.host.embedded_server import free_port
from worker.store import clients, functions
from worker.store.commits import Commits
from worker.store.keys import AUDIT, GOALS, POLICIES_CURRENT, POLICY_HISTORY, POLICY_TEXTS, Partition, goal_id
from worker.store.plans import PlanStore, Write

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
BIN = Path(sys.executable).parent

ROLES = ("planner", "controller", "producer", "operator")
PASSWORDS = {f"VALKEY_{role.upper()}_PASSWORD": f"secretof{role}" for role in ROLES}
EVERYTHING = "user tester on nopass ~* &* +@all\n"  # to look at the log of refusals, which no role may

P = Partition(0)
PLAN_ID = "plan_00-" + "0" * 32
PLAN = P.plan(PLAN_ID).plan
LEASE = P.lease_prefix(PLAN_ID) + "step"
QUEUE = P.steps("default")

AGENT = """
import json, pathlib, sys
for name in json.load(sys.stdin)["allowed_files"]: pathlib.Path(name).write_text("done\\n")
"""


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """Fill in variables as Compose does; fails as it does where a required one is missing."""
    if isinstance(value, dict):
        return {key: interpolated(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [interpolated(part, variables) for part in value]
    return VARIABLE.sub(lambda found: _value(found, variables), value) if isinstance(value, str) else value


VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>\w+)(?::(?P<how>[-?])(?P<word>[^}]*))?\})")


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found[0] == "$$":
        return "$"
    value = variables.get(found["name"]) or (found["word"] if found["how"] == "-" else "")
    if not value and found["how"] == "?":
        raise KeyError(f"{found['name']}: {found['word']}")
    return value


@dataclass
class Deployment:
    """The services of compose.yaml on this machine."""

    directory: Path
    variables: dict[str, str]
    port: int = field(default_factory=free_port)
    metrics: dict[str, int] = field(default_factory=dict)
    gateways: list[int] = field(default_factory=list)  # the ports of its replicas, which share this machine

    def url(self, role: str) -> str:
        return f"redis://{role}:{PASSWORDS.get(f'VALKEY_{role.upper()}_PASSWORD', 'none')}@127.0.0.1:{self.port}/0"

    def client(self, role: str) -> Redis:
        return Redis.from_url(self.url(role), socket_timeout=10)

    def here(self, value: Any) -> Any:
        """Fill in variables, and put this machine's places where the file names those inside containers."""
        text = json.dumps(interpolated(value, self.variables))
        places = {
            "valkey:6379": f"127.0.0.1:{self.port}",
            "/etc/valkey/": f"{self.directory}/",
            "/run/secrets/": f"{self.directory}/secrets/",
            "/repository": f"{self.directory}/repository",
            "0.0.0.0": "127.0.0.1",
            "127.0.0.1:8484/": f"127.0.0.1:{self.gateways[0] if self.gateways else 8484}/",
        }
        for there, here in places.items():
            text = text.replace(there, here)
        return json.loads(text)

    def command(self, service: str) -> list[str]:
        """The process that the service's container would run."""
        words = self.here(SERVICES[service]["command"])
        if service == "gateway":
            self.gateways.append(free_port())
            words += ["--port", str(self.gateways[-1])]
        if service == "valkey":  # its port and directory are the container's, its configuration is the file's
            paths = ["--port", str(self.port), "--dir", str(self.directory), "--aclfile", f"{self.directory}/users.acl"]
            return [str(BINARY), *words[1:], "--bind", "127.0.0.1", *paths]
        return [str(BIN / "planner"), *words]

    def environment(self, service: str, container: str = "") -> dict[str, str]:
        """What stands in the file, and nothing of ours but the places of programs, and the container's own /tmp."""
        path = f"{BIN}:{os.environ['PATH']}"
        temporary = self.directory / f"tmp-{container or service}"
        temporary.mkdir(exist_ok=True)
        own: dict[str, str] = self.here(SERVICES[service].get("environment", {}))
        if (
            "PLANNER_STATE_DIR" in own
        ):  # a volume that all share; names of hosts keep them apart there, which are one here
            own["PLANNER_STATE_DIR"] = str(temporary / "state")
        if "PLANNER_METRICS_PORT" in own:
            own["PLANNER_METRICS_PORT"] = self.metrics_port(container or service)
        return {"PATH": path, "HOME": str(self.directory), "TMPDIR": str(temporary)} | own

    def metrics_port(self, container: str) -> str:
        """The port of metrics of a container, which shares this machine's with the others."""
        return str(self.metrics.setdefault(container, free_port()))

    def planner(self, role: str, *words: str, stdin: str = "") -> Any:
        """Run a `planner` command as somebody with that role; returns what it prints with --json."""
        environment = {"PATH": os.environ["PATH"], "PLANNER_REDIS_URL": self.url(role)}
        command = [str(BIN / "planner"), *words, "--json"]
        done = subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(done.stdout)

    @contextmanager
    def running(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a service until the block ends; it must still be there then, and end within its grace period."""
        with (self.directory / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                self.command(service), env=self.environment(service), cwd=self.directory, stdout=log, stderr=log
            )
        try:
            yield process
            assert process.poll() is None, f"{service} ended by itself"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(float(SERVICES[service]["stop_grace_period"].removesuffix("s")))
            finally:
                process.kill()
                process.wait()
        assert process.returncode == 0, f"{service} ended with {process.returncode}"

    def check(self, service: str, container: str = "") -> subprocess.Popen[str]:
        """Start the service's health check, in its container or in another one."""
        _, *words = self.here(SERVICES[service]["healthcheck"]["test"])
        words = [word.replace("/9464;", f"/{self.metrics_port(container or service)};") for word in words]
        if words[0] == "valkey-cli":
            words = ["redis-cli", "-p", str(self.port), *words[1:]]
        return subprocess.Popen(
            [str(BIN / words[0]) if words[0] == "planner" else words[0], *words[1:]],
            env=self.environment(service, container),
            cwd=self.directory,
            stdout=-1,
            stderr=-2,
            text=True,
        )


def _deployment(directory: Path) -> Deployment:
    agent = directory / "agent.py"
    agent.write_text(AGENT)
    deployment = Deployment(directory, PASSWORDS | {"AGENT": f"{sys.executable} -IS {agent}"})
    (directory / "secrets").mkdir(mode=0o700)
    for secret in COMPOSE["secrets"].values():
        file = directory / secret["file"]
        is_url = file.name.endswith("_url")
        file.write_text(deployment.url(file.name.removesuffix("_url")) if is_url else Fernet.generate_key().decode())
    for name, config in COMPOSE["configs"].items():
        (directory / name).write_text(deployment.here(config["content"]))
    with (directory / "users.acl").open("a") as users:
        users.write(EVERYTHING)
    return deployment


def _answers(deployment: Deployment) -> bool:
    try:
        with deployment.client("tester") as client:
            return bool(client.ping())
    except RedisConnectionError:
        return False


# --- roles: who may do what ---


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The service `valkey`, with a plan of one step that is out; no worker runs."""
    deployment = _deployment(tmp_path_factory.mktemp("server"))
    with deployment.running("valkey"):
        wait_until(lambda: _answers(deployment), what="server answers")
        with deployment.client("planner") as planner:
            functions.load(planner)
            planner.hset(PLAN, mapping={"version": "1", "state": "EXECUTING"})
            planner.hset(LEASE, mapping={"attempt": "1", "lease": "l"})
            planner.hset(goal_id("g"), "verdict", "PLANNED")
            planner.hset(goal_id("g", "acme"), "verdict", "PLANNED")
            planner.xgroup_create(QUEUE, "controllers", "0", mkstream=True)
        yield deployment


ALLOWED = [
    ("planner", "INFO everything"),
    ("planner", "FUNCTION LIST WITHCODE"),
    ("planner", f"MEMORY USAGE {P.dead} SAMPLES 0"),
    ("planner", f"FCALL {functions.UPKEEP} 2 {P.timers} {P.sweep} token 1 1"),
    ("planner", f"FCALL {functions.TIDY} 1 {P.outcomes} planner 0 nobody"),
    ("planner", "BRPOP planner.outcomes planner.upkeep 0.01"),
    ("planner", "SADD _kombu.binding.planner.outcomes x"),
    ("planner", "ZADD unacked_index 1 tag"),
    ("planner", "PUBLISH /0.celery.pidbox ping"),
    ("controller", "PING"),
    ("controller", f"XREADGROUP GROUP controllers me COUNT 1 STREAMS {QUEUE} >"),
    ("controller", f"XACK {QUEUE} controllers 1-1"),
    ("controller", f"XGROUP DELCONSUMER {QUEUE} controllers me"),
    ("controller", f"XADD {P.outcomes} * data {{}}"),
    ("controller", f"FCALL planner_heartbeat 1 {LEASE} 1 l me"),
    ("producer", f"XADD {GOALS} * data {{}}"),
    ("producer", f"HGETALL {goal_id('g')}"),
    ("producer", f"HGETALL {goal_id('g', 'acme')}"),
    ("operator", f"HGETALL {PLAN}"),
    ("operator", f"XRANGE {P.events} - +"),
    ("operator", f"XRANGE {P.dead} - +"),
    ("operator", f"XADD {P.commands} * data {{}}"),
    ("operator", "XADD planner:commands * data {}"),
    ("operator", f"FCALL {functions.PUBLISH_COMMAND} 1 planner:commands {{}}"),
    ("operator", "INFO server"),
    ("operator", f"HSETNX {POLICY_TEXTS} digest text"),
    ("operator", f"HSET {POLICIES_CURRENT} all digest"),
    ("operator", f"HDEL {POLICIES_CURRENT} all"),
    ("operator", f"RPUSH {POLICY_HISTORY} entry"),
    ("operator", f"XRANGE {AUDIT} - +"),
    ("health", "PING"),
]
REFUSED = [
    ("planner", "FLUSHALL"),
    ("planner", "CONFIG SET appendonly no"),
    ("planner", "ACL SETUSER planner +@all"),
    ("planner", "SHUTDOWN"),
    ("planner", "GET another:application"),
    ("planner", "FUNCTION FLUSH"),
    ("planner", "FUNCTION DELETE planner_1"),
    ("planner", "FUNCTION RESTORE x FLUSH"),
    ("planner", "FUNCTION KILL"),
    ("planner", "SCRIPT FLUSH"),
    ("planner", "SCRIPT KILL"),
    ("planner", "EVAL return 1 0"),
    ("planner", "MOVE planner:goals 1"),
    ("planner", f"COPY {PLAN} {PLAN} DB 1"),
    ("planner", "SWAPDB 0 1"),
    ("planner", "CLIENT KILL TYPE normal"),
    ("controller", f"HGETALL {PLAN}"),
    ("controller", f"HMGET {PLAN} state"),
    ("controller", f"HSET {PLAN} state COMPLETED"),
    ("controller", f"DEL {PLAN}"),
    ("controller", f"LRANGE {PLAN}:log 0 -1"),
    ("controller", f"FCALL {functions.BEGIN} 6 {' '.join([PLAN] * 6)} token 1"),
    ("controller", f"FCALL {functions.COMMIT} 1 {PLAN} plan 0"),
    ("controller", f"FCALL {functions.UPKEEP} 2 {P.timers} {P.sweep} token 1 1"),
    ("controller", f"FCALL planner_heartbeat 1 {PLAN} 1 l me"),
    ("controller", "EVAL return 1 0"),
    ("controller", "FUNCTION DELETE planner_1"),
    ("controller", f"XADD {QUEUE} * data {{}}"),
    ("controller", f"XADD {GOALS} * data {{}}"),
    ("controller", f"XADD {P.commands} * data {{}}"),
    ("controller", f"XRANGE {P.outcomes} - +"),
    ("controller", f"XREADGROUP GROUP planner me STREAMS {P.outcomes} >"),
    ("controller", f"XGROUP DESTROY {QUEUE} controllers"),
    ("controller", "LPUSH planner.outcomes nudge"),
    ("controller", "KEYS *"),
    ("controller", "SCAN 0"),
    ("producer", f"HGETALL {PLAN}"),
    ("producer", f"HGET {PLAN} state"),
    ("producer", f"HSET {goal_id('g')} verdict REJECTED"),
    ("producer", f"HSET {goal_id('g', 'acme')} verdict REJECTED"),
    ("producer", f"XRANGE {GOALS} - +"),
    ("producer", f"XDEL {GOALS} 1-1"),
    ("producer", f"XADD {P.outcomes} * data {{}}"),
    ("producer", f"XADD {P.commands} * data {{}}"),
    ("producer", f"FCALL planner_heartbeat 1 {LEASE} 1 l me"),
    ("operator", f"HSET {PLAN} state HALTED"),
    ("operator", f"DEL {PLAN}"),
    ("operator", f"FCALL {functions.PUBLISH_COMMAND} 1 {GOALS} {{}}"),
    ("operator", f"FCALL {functions.DROP_DEAD} 2 {P.dead} {P.stats} dead_dropped 1-1"),
    ("operator", f"XADD {GOALS} * data {{}}"),
    ("operator", f"XADD {P.outcomes} * data {{}}"),
    ("operator", f"FCALL planner_heartbeat 1 {LEASE} 1 l me"),
    ("operator", f"HSET {POLICY_TEXTS} digest another"),
    ("operator", f"HDEL {POLICY_TEXTS} digest"),
    ("operator", f"DEL {POLICY_TEXTS}"),
    ("operator", f"DEL {POLICY_HISTORY}"),
    ("operator", f"LTRIM {POLICY_HISTORY} -10000 -1"),
    ("operator", f"XADD {AUDIT} * data {{}}"),
    ("operator", f"XTRIM {AUDIT} MAXLEN 0"),
    ("operator", f"DEL {AUDIT}"),
    ("operator", f"FCALL {functions.ADD} 1 {AUDIT} 1 data {{}}"),
    ("controller", f"XADD {AUDIT} * data {{}}"),
    ("controller", f"XRANGE {AUDIT} - +"),
    ("operator", f"HSETNX {PLAN} policy digest"),
    ("operator", "FLUSHALL"),
    ("operator", "KEYS *"),
    ("health", f"HGETALL {PLAN}"),
    ("health", "INFO"),
]


def _do(deployment: Deployment, role: str, command: str) -> Any:
    with deployment.client(role) as client:
        return client.execute_command(*command.split())


@pytest.mark.parametrize(("role", "command"), ALLOWED)
def test_a_role_may_do_its_work(server: Deployment, role: str, command: str) -> None:
    _do(server, role, command)


@pytest.mark.parametrize(("role", "command"), REFUSED)
def test_a_role_may_do_nothing_else(server: Deployment, role: str, command: str) -> None:
    before = _plan(server)

    with pytest.raises(NoPermissionError):
        _do(server, role, command)

    assert _plan(server) == before


def test_a_controller_cannot_commit_under_cover_of_keys_that_it_may_use(server: Deployment) -> None:
    with server.client("planner") as planner:
        store = PlanStore(planner, P, "token", 60, Commits(planner, P, None))
    (verb, name, count, *rest) = store.commit_call([Write(Changeset(PLAN_ID, 1, 0))])
    before = _plan(server)

    with server.client("controller") as controller:
        _, (result,) = controller.execute_command(verb, name, count, *[LEASE] * count, *rest[count:])

    assert result.startswith(b"error ")
    assert b"ACL failure in script" in result or b"can't run this command" in result  # the words of Redis 7.0
    assert _plan(server) == before


def _plan(deployment: Deployment) -> Any:
    return _do(deployment, "operator", f"HGETALL {PLAN}")


def test_a_worker_can_replace_its_own_libraries_though_it_can_remove_none(server: Deployment) -> None:
    with clients.connect(server.url("planner")) as planner:
        functions.load(planner)
        planner.function_load(functions.source("planner_records"), replace=True)

        assert functions.call(planner, "FCALL", functions.COUNT, 1, P.stats, "looked", 1) >= 1


def test_nobody_comes_in_without_a_name_or_with_a_wrong_password(server: Deployment) -> None:
    for url in (f"redis://127.0.0.1:{server.port}", f"redis://planner:wrong@127.0.0.1:{server.port}"):
        with connect(url) as client, pytest.raises(AuthenticationError):
            client.ping()


# --- the whole deployment ---


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Every service of the file, and two of the example controllers as it asks for."""
    deployment = _deployment(tmp_path_factory.mktemp("deployment"))
    _make_repository(deployment.directory / "repository")
    with ExitStack() as stack:
        stack.enter_context(deployment.running("valkey"))
        wait_until(lambda: _answers(deployment), what="server answers")
        for service in SERVICES.keys() - {"valkey"}:
            for _ in range(SERVICES[service].get("deploy", {}).get("replicas", 1)):
                stack.enter_context(deployment.running(service))
        wait_until(lambda: all(map(_is_healthy, deployment.gateways)), 240, "gateways answer")
        yield deployment


def _is_healthy(port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": "gateway:8484"}, timeout=30).is_success
    return False


def _make_repository(path: Path) -> None:
    path.mkdir()
    (path / "README").write_text("here\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", str(path)]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "begin"]):
        subprocess.run([*git, *words], check=True, timeout=20)


@pytest.fixture(scope="module")
def plan_id(deployment: Deployment) -> str:
    """The plan of a goal of two steps, once the deployment has completed it; seen through the eyes of its roles."""
    steps = [_step("first", []), _step("second", ["first"])]
    goal = {"goal_id": "ours", "goal": "Write two files", "allowed_files": ["first", "second"], "steps": steps}
    deployment.planner("producer", "submit", "-", stdin=json.dumps(goal))
    with deployment.client("producer") as producer, deployment.client("operator") as operator:
        wait_until(
            lambda: producer.hget(goal_id("ours"), "verdict") not in (None, b"PENDING"),
            timeout=180,
            what="goal decided",
        )
        answer: Any = producer.hgetall(goal_id("ours"))
        assert answer[b"verdict"] == b"PLANNED", answer
        plan = P.plan(answer[b"plan_id"].decode()).plan
        wait_until(lambda: operator.hget(plan, "state") in (b"COMPLETED", b"HALTED"), timeout=180, what="plan ends")
        assert operator.hget(plan, "state") == b"COMPLETED"
        wait_until(lambda: producer.hget(goal_id("ours"), "state") == b"COMPLETED", what="its producer knows the end")
    return str(answer[b"plan_id"].decode())


def _step(name: str, after: list[str]) -> dict[str, Any]:
    return {"step_id": name, "title": name, "intent": f"Write {name}", "allowed_files": [name], "depends_on": after}


@pytest.mark.outages
def test_a_goal_is_planned_worked_on_and_completed(deployment: Deployment, plan_id: str) -> None:
    show = ["git", "-C", str(deployment.directory / "repository"), "show", f"planner/{plan_id}:second"]

    assert subprocess.run(show, check=True, capture_output=True, timeout=20).stdout == b"done\n"


@pytest.mark.outages
def test_an_operator_sees_the_plan(deployment: Deployment, plan_id: str) -> None:
    shown = deployment.planner("operator", "show", plan_id)

    assert shown["state"] == "COMPLETED"
    assert [step["state"] for step in shown["steps"]] == ["DONE", "DONE"]
    assert [plan["plan_id"] for plan in deployment.planner("operator", "plans")] == [plan_id]


@pytest.mark.outages
def test_every_replica_of_the_gateway_answers_whoever_has_a_key(deployment: Deployment, plan_id: str) -> None:
    key = deployment.planner("planner", "keys", "add", "--role", "viewer")["key"]

    assert len(deployment.gateways) == SERVICES["gateway"]["deploy"]["replicas"] == 2
    for port in deployment.gateways:
        headers = {"Authorization": f"Bearer {key}", "Host": "gateway:8484"}
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/plans/{plan_id}", headers=headers, timeout=30)
        assert (answer.status_code, answer.json()["state"]) == (200, "COMPLETED")


@pytest.fixture(scope="module")
def checks(deployment: Deployment, plan_id: str) -> dict[str, tuple[int, str]]:
    """How the health checks of all services end, and that of a worker in a container where none runs."""
    services = [name for name, service in SERVICES.items() if "healthcheck" in service]
    ended = _checked(deployment, services)
    until = time.monotonic() + 60  # as long as one is not healthy yet: a plan does not wait for all of them
    while (ill := [name for name, (code, _) in ended.items() if code]) and time.monotonic() < until:
        ended |= _checked(deployment, ill)
    check = deployment.check("outcomes", container="elsewhere")
    said, _ = check.communicate(timeout=60)
    return {**ended, "elsewhere": (check.returncode, said)}


def _checked(deployment: Deployment, services: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Run the health checks of some services at once."""
    running = {name: deployment.check(name) for name in services}
    printed = {name: check.communicate(timeout=60)[0] for name, check in running.items()}
    return {name: (check.returncode, printed[name]) for name, check in running.items()}


@needs("redis-cli")
@pytest.mark.outages
@pytest.mark.parametrize("service", ["valkey", "outcomes", "decompose", "outside", "gateway"])
def test_a_running_service_is_healthy(checks: dict[str, tuple[int, str]], service: str) -> None:
    code, printed = checks[service]

    assert code == 0, printed


@needs("redis-cli")
@pytest.mark.outages
def test_where_no_worker_beats_nothing_is_healthy(checks: dict[str, tuple[int, str]]) -> None:
    code, _ = checks["elsewhere"]

    assert code == 1


@needs("redis-cli")
@pytest.mark.outages
def test_no_service_was_refused_anything(deployment: Deployment, checks: object) -> None:
    refusals: Any = _do(deployment, "tester", "ACL LOG")

    assert [{k.decode(): v for k, v in entry.items()} if isinstance(entry, dict) else entry for entry in refusals] == []


# --- the file itself ---


def test_without_its_passwords_nothing_starts() -> None:
    with pytest.raises(KeyError, match="PASSWORD: set it in"):
        interpolated(COMPOSE["configs"], {})


@needs("openssl")
def test_the_first_lines_of_the_file_make_its_passwords_and_secrets(tmp_path: Path) -> None:
    lines = [line.removeprefix("#   ") for line in (ROOT / "compose.yaml").read_text().splitlines()]
    begin, end = lines.index("install -d -m 700 secrets"), lines.index("docker compose up --detach --build")

    subprocess.run(["sh", "-e", "-c", "\n".join(lines[begin:end])], cwd=tmp_path, check=True, timeout=60)

    made = dict(line.split("=") for line in (tmp_path / ".env").read_text().splitlines())
    assert made.keys() == PASSWORDS.keys()
    for secret in COMPOSE["secrets"].values():
        file = tmp_path / secret["file"]
        if not file.name.endswith("_url"):
            SecretBox.open(file)
            continue
        role = file.name.removesuffix("_url")
        assert file.read_text().strip() == f"redis://{role}:{made[f'VALKEY_{role.upper()}_PASSWORD']}@valkey:6379/0"
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700


def test_no_container_has_a_password_among_its_variables_or_words() -> None:
    filled = interpolated(SERVICES, PASSWORDS)

    assert not [word for word in PASSWORDS.values() if word in json.dumps(filled)]
    for name, service in SERVICES.items():
        for variable, file in service.get("environment", {}).items():
            if variable.endswith("_FILE"):
                assert file.removeprefix("/run/secrets/") in service["secrets"], name


def test_every_queue_has_a_worker() -> None:
    commands = [service["command"] for service in SERVICES.values() if service["command"][0] == "worker"]
    consumed = [queue for command in commands for queue in command[command.index("--queues") + 1].split(",")]

    assert sorted(consumed) == sorted(route.task for route in ROUTES)


def test_everything_restarts_and_nothing_runs_as_root_or_with_capabilities() -> None:
    for name, service in SERVICES.items():
        assert service["restart"] == "unless-stopped", name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service.get("user", "image's") != "root", name
    users = re.findall(r"^USER (\w+)$|^FROM", SERVICES["outcomes"]["build"]["dockerfile_inline"], re.MULTILINE)
    assert users[-1] == "planner"


def test_what_workers_know_outlives_them_apart_from_the_data_of_the_server() -> None:
    for name in ("outcomes", "decompose", "outside"):
        (volume,) = SERVICES[name]["volumes"]
        source, _, place = volume.partition(":")
        assert source in COMPOSE["volumes"]
        assert place == SERVICES[name]["environment"]["PLANNER_STATE_DIR"]
        assert not any(other.startswith(f"{source}:") for other in SERVICES["valkey"]["volumes"])
        assert SERVICES[name]["read_only"]
    assert f"--owner planner --mode 700 {place}" in SERVICES["outcomes"]["build"]["dockerfile_inline"]


def test_the_server_and_the_gateways_can_be_reached_from_this_machine_only() -> None:
    assert all(str(port).startswith("127.0.0.1:") for name in ("valkey", "gateway") for port in SERVICES[name]["ports"])
    assert not any("ports" in service for name, service in SERVICES.items() if name not in ("valkey", "gateway"))
