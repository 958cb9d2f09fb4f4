"""Runs the programs of an attempt: its agent, the repository's setup, and the tools that verify."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from worker.agents.readers import CallCounter
from worker.controller import programs, wire
from worker.controller.attempt_log import AttemptLog
from worker.controller.lease import LeaseClient
from worker.controller.places import Place
from worker.controller.readiness import SetupFailed
from worker.controller.reports import MAX_BYTES as REPORT_BYTES
from worker.controller.reports import Reporting
from worker.controller.setup import Setup
from worker.controller.wire import Spec, Tool
from worker.sandbox.process import UNLIMITED, Job, JobResult, Printed, ResourceLimits, basic_environment
from worker.telemetry import tracing

OF_A_TRACE = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")  # variables
AGENT_BYTES = 8 * 1024 * 1024  # limit for the output of an agent, which may print each of its steps


@dataclass(frozen=True)
class AttemptPrograms:
    """The programs of the attempt of `spec`, run in the clone at `place` while the lease is valid."""

    spec: Spec
    place: Place
    lease: LeaseClient
    log: AttemptLog

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment that the operator sets for this repository; `{clone}` is replaced by the clone's path.

        Programs that a setup has made in the clone come first on its PATH.
        """
        root = str(self.place.tree.root)
        named = {name: value.replace("{clone}", root) for name, value in self.place.environment.items()}
        if made := self.place.tree.programs:
            named["PATH"] = os.pathsep.join((*made, named.get("PATH") or os.environ.get("PATH", os.defpath)))
        return named

    @property
    def search(self) -> str | None:
        """Return the PATH for programs."""
        return self.variables.get("PATH")

    @cached_property
    def found_outside(self) -> frozenset[str]:
        """The programs of the verification that are outside of the clone; read before the agent works."""
        search = programs.outside(self.place.tree.root, self.search)
        return frozenset(
            tool.argv[0] for tool in self.spec.verify_tools if not programs.missing_programs([tool], search)
        )

    def is_lost(self, tool: Tool) -> bool:
        """Return whether this host had the program of a tool and has it no more.

        No change in the clone can be the cause.
        """
        search = programs.outside(self.place.tree.root, self.search)
        return tool.argv[0] in self.found_outside and bool(programs.missing_programs([tool], search))

    def run_setup(self, setup: Setup) -> None:
        """Run the setup command with the variables of command agents, without secrets. Raises SetupFailed."""
        given = self._without_login(basic_environment(self.place.agent_env))
        done = self._run_as_agent(setup.argv, setup.timeout_s, b"", given)
        if done.exit_code:
            tail = f"{done.stdout}\n{done.stderr}".strip()[-wire.TRACE_CHARS :]
            raise SetupFailed(f"the setup ended with {done.exit_code}: {tail}")

    def run_agent(self, argv: Sequence[str], timeout_s: float, stdin: bytes) -> JobResult:
        """Run the agent, in the trace of its plan."""
        program = self.place.program
        given = program.variables_of_run(self.place.agent_env) if program else {}
        given = {name: value for name, value in given.items() if name not in OF_A_TRACE}  # which is another one
        if self.spec.traceparent and (ours := tracing.traceparent(self.spec.traceparent)):
            given["TRACEPARENT"] = ours
        hear = self._count_calls(program.counts) if program and program.counts else None
        return self._run_as_agent(argv, timeout_s, stdin, given, self.log.add_agent, hear)

    def _count_calls(self, counter: str) -> Callable[[bytes], object]:
        """Return a function for the agent's output that counts tool calls; heartbeats report the number."""
        counting, self.lease.tool_calls = CallCounter(counter), 0

        def hear(printed: bytes) -> None:
            counting.hear(printed)
            self.lease.tool_calls = counting.calls

        return hear

    def _run_as_agent(
        self,
        argv: Sequence[str],
        timeout_s: float,
        stdin: bytes,
        given: Mapping[str, str],
        record: Callable[[Printed], object] | None = None,
        hear: Callable[[bytes], object] | None = None,
    ) -> JobResult:
        tree, limits = self.place.tree, ResourceLimits(kept=AGENT_BYTES)
        env, wanted = {**given, **self.variables}, self.lease.is_wanted
        job = Job(argv, tree.root, timeout_s, wanted, stdin, env=env, limits=limits, hear=hear, record=record)
        return self.place.agent.run(job, writable=tree.writable)

    def run_tool(self, how: Reporting, timeout_s: float, folder: str, *, is_recorded: bool = True) -> JobResult:
        """Run a verification tool in a folder of the clone."""
        argv, tool, tree = how.argv, self.place.tool, self.place.tree
        place = tree.root / folder
        env = self._without_login(programs.environment(argv, place)) | self.variables
        if how.folder and tool.user:
            tool.user.own(how.folder)
        job = Job(
            *(argv, place, timeout_s, self.lease.is_wanted),
            merge=True,
            env=how.added_to(env),
            limits=ResourceLimits(kept=REPORT_BYTES) if how.printed else UNLIMITED,
            record=partial(self.log.add_tool, argv, folder=folder) if is_recorded else None,
        )
        return tool.run(job, writable=(*tree.writable, *filter(None, (how.folder,))))

    def _without_login(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables without the agent's login, because a setup and tests run code of the repository."""
        login = self.place.login
        return {name: value for name, value in env.items() if name not in login}
