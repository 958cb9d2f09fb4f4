"""A real cluster of servers on this machine, formed by its own commands."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tests.conftest import wait_until
from tests.support.servers import Server
from worker.host.embedded_server import free_port
from worker.settings.cluster import Address
from worker.store import clients
from worker.store.cluster.topology import SLOTS, slot_of

TIMEOUT_MS = 2000  # after which a master that does not answer is replaced
OPTIONS = {
    "cluster-enabled": "yes",
    "cluster-node-timeout": str(TIMEOUT_MS),
    "cluster-require-full-coverage": "no",  # other slots go on while one has no server
    "cluster-replica-validity-factor": "0",  # a replica takes over however old its data are
}


class Node(Server):
    """A server of a cluster."""

    def __init__(self, directory: Path) -> None:
        bus = free_port()
        options = [word for name, value in OPTIONS.items() for word in (f"--{name}", value)]
        super().__init__(directory, *options, "--cluster-port", str(bus))
        self.bus = bus
        self.address = Address("127.0.0.1", self.port)

    def ask(self, *command: Any) -> Any:
        """Return the reply of this very server."""
        with self.client() as client:
            return client.execute_command(*command)

    @property
    def name(self) -> str:
        """The id of the server in its cluster."""
        return str(self.ask("CLUSTER", "MYID").decode())


class Cluster:
    """Masters that share all slots evenly, each with a replica unless there are to be none."""

    def __init__(self, directory: Path, masters: int = 3, *, replicas: bool = True) -> None:
        directory.mkdir(exist_ok=True)
        self.masters = [Node(directory / f"master-{number}") for number in range(masters)]
        self.replicas = [Node(directory / f"replica-{number}") for number in range(masters if replicas else 0)]
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self._stack = ExitStack()

    @property
    def nodes(self) -> Sequence[Node]:
        """All servers."""
        return [*self.masters, *self.replicas]

    def client(self) -> Redis:
        """Return a new client of the whole cluster, for use in a `with`."""
        return clients.connect(self.url)

    def master_of(self, key: str) -> Node:
        """Return the server that has a key now, whether it is alive or not."""
        return self._node(self._owners()[slot_of(key.encode())])

    def move(self, key: str, target: Node, *, part: int | None = None) -> None:
        """Move the slot of a key to another server.

        With `part` only so many keys are moved, and the slot is left migrating.
        """
        slot, source = slot_of(key.encode()), self.master_of(key)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.name)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.name)
        left = part
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 50 if left is None else min(50, left)):
            with suppress(ResponseError):  # NOKEY: it went meanwhile
                source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            if left is not None:
                left -= len(keys)
                if left <= 0:
                    return
        self.finish(key, target)

    def finish(self, key: str, target: Node) -> None:
        """Give a slot whose keys were all moved to its new server."""
        slot, name = slot_of(key.encode()), target.name
        for node in (target, *(each for each in self.masters if each is not target)):
            with suppress(RedisError):
                node.ask("CLUSTER", "SETSLOT", slot, "NODE", name)

    def wait_for_slots(self) -> None:
        """Wait until every server that lives knows one for each slot."""
        wait_until(lambda: all(self._is_well(node) for node in self.nodes if node.answers()), 60, "slots have servers")

    def _is_well(self, node: Node) -> bool:
        return b"cluster_state:ok" in node.ask("CLUSTER", "INFO")

    def _owners(self) -> dict[int, Address]:
        for node in self.nodes:
            with suppress(RedisError):
                found = node.ask("CLUSTER", "SLOTS")
                return {
                    slot: Address(one[2][0].decode(), one[2][1]) for one in found for slot in range(one[0], one[1] + 1)
                }
        raise AssertionError("no server of the cluster lives")

    def _node(self, address: Address) -> Node:
        return next(node for node in self.nodes if node.address == address)

    def __enter__(self) -> Self:
        for node in self.nodes:
            self._stack.enter_context(node)
        first, count = self.masters[0], len(self.masters)
        for number, master in enumerate(self.masters):
            master.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            master.ask("CLUSTER", "ADDSLOTSRANGE", SLOTS * number // count, SLOTS * (number + 1) // count - 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)
        names = [node.name for node in self.nodes]
        wait_until(lambda: all(self._knows(node, names) for node in self.nodes), 60, "all servers know each other")
        for master, replica in zip(self.masters, self.replicas, strict=False):
            replica.ask("CLUSTER", "REPLICATE", master.name)
        self.wait_for_slots()
        wait_until(lambda: all(map(self._follows, self.replicas)), 60, "replicas follow")
        return self

    def _knows(self, node: Node, names: Sequence[str]) -> bool:
        found = node.ask("CLUSTER", "NODES").decode()
        return all(name in found for name in names) and "handshake" not in found

    def _follows(self, node: Node) -> bool:
        with node.client() as client:
            info: Any = client.info("replication")
        return bool(info.get("master_link_status") == "up")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()
