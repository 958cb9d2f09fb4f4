"""The recipes of docs/drafters.md, run with the programs themselves: a draft for each kind, by the schema of its kind.

The programs are looked for in PLANNER_TEST_NODE_MODULES, as in test_agents.py.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.contract.messages import ANSWERS
from schemas.contract.strict import strict_form
from tests.conftest import connect
from tests.support.agent_programs import CLAUDE, CLIS, CODEX, KEY, Cli, needs_both
from tests.support.controlling import Repo
from tests.support.drafting import a_goal, drafting, passing, phases
from tests.support.kinds import evolution
from tests.support.model_server import FRESH, PRINTED, WRITTEN, Asked, Model, Says, model_server
from tests.support.programs import NODE_MODULES
from tests.support.scripted import Fleet

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.outages, pytest.mark.long, needs_both]
TITLES = {CLAUDE.name: "Claude Code", CODEX.name: "Codex"}
STEP = {
    "id": "round", "title": "Round once", "intent": "Round the sum", "actions": ["round at the end"],
    "files": ["src/billing.py"], "depends_on": [], "validation": ["pytest"],
}  # fmt: skip
TASK = {
    "seq": "001", "slug": "round", "type": "BUILD", "delta": ["src/billing.py"], "verify": "pytest", "depends": "none",
    "budget": None, "preflight": None, "creates": None,
}  # fmt: skip
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "task_draft": (a_goal(), {"summary": "Round once", "steps": [STEP]}),
    "planning_output": (
        evolution.a_goal("strict").model_dump(mode="json", exclude_defaults=True),
        evolution.a_plan(
            evolution.a_step("a", risks=None, references=None, dependencies=None),
            handoff_notes=None,
            fallback_plan=None,
        ),
    ),
    "campaign_tasks": ({**a_goal(), "kind": "campaign"}, {"tasks": [TASK]}),
}


def recipe(cli: Cli) -> dict[str, str]:
    """Read the settings of a recipe, in the place of its key the test's, and of its repository none."""
    text = (ROOT / "docs/drafters.md").read_text()
    block = re.search(rf"\*\*{TITLES[cli.name]}\.\*\*.*?```sh\n(.*?)```", text, re.DOTALL)
    assert block
    given = dict(each.split("=", 1) for each in shlex.split(block[1]))
    given["PLANNER_CLI_ENV"] = given["PLANNER_CLI_ENV"].replace("...", KEY)
    return given


def beside(cli: Cli, url: str, given: dict[str, str]) -> dict[str, str]:
    """Have the program ask our server in the place of its provider."""
    if cli is CLAUDE:
        return {"PLANNER_CLI_ENV": codec.dumps(codec.loads(given["PLANNER_CLI_ENV"]) | cli.variables(url)).decode()}
    more = shlex.join(cli.more(url))  # which names the variable of its own provider's key
    command = given["PLANNER_CLI_COMMAND"].replace(" -c project", f" {more} -c project")
    return {"PLANNER_CLI_COMMAND": command, "PLANNER_CLI_ENV": codec.dumps(cli.variables(url)).decode()}


def answering(cli: Cli, output: dict[str, Any]) -> Model:
    """Answer in the way in which the program has its model answer by a schema."""

    def says(asked: Asked) -> Says:
        if cli is CODEX:
            return Says(codec.dumps(output).decode())
        return Says(tool="StructuredOutput", given=output) if not asked.results else Says("Done.")

    return says


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cli", CLIS)
def test_the_recipe_drafts_a_plan_by_the_schema_of_its_kind(
    cli: Cli, kind: str, redis_url: str, tmp_path: Path
) -> None:
    goal, output = KINDS[kind]
    given = recipe(cli)
    with model_server(answering(cli, output)) as models, connect(redis_url) as client:
        given |= beside(cli, models.url, given)
        given |= {"PATH": f"{NODE_MODULES / '.bin'}:{os.environ['PATH']}", "PLANNER_DRAFTERS": "cli"}
        given |= {"PLANNER_CLI_WORKING_DIR": str(Repo(tmp_path / "shop").path)}
        fleet = Fleet(client)
        with drafting(redis_url, tmp_path, None, **given):
            verdict, plan_id = fleet.submit({**goal, "drafter": "cli"}, patience_s=90)
            view = fleet.work(plan_id, passing)

    asked = [each for each in models.asked if each.schema]
    assert (verdict, view.state) == ("PLANNED", "COMPLETED")
    assert asked[0].schema == strict_form(ANSWERS[kind])
    told = " ".join(f"{name} {status}" for name, status in phases(client, plan_id))
    assert "drafted" in told or "tasks by the drafter cli" in told
    assert "fallback" not in told
    assert "falling back on the templates" not in told
    assert view.budget.tokens.spent >= (FRESH + WRITTEN + PRINTED) * len(models.asked)
