"""What a user does with an installation: a goal and a step of it, over Redis and over HTTP, and a look at the page."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.installs.environments import Environment, check, wait_for

HERE = Path(__file__).parent
GOAL = "Add prefix support"
SUBMIT = ("submit", "--goal", GOAL, "--file", "src/a.py", "--no-fill", "--language", "python", "--wait", "--json")
# What an installation without extras answers to somebody who needs one: the extra, the command, variables.
HINTS: tuple[tuple[str, tuple[str, ...], dict[str, str]], ...] = (
    ("local", ("up",), {}),
    ("demo", ("demo",), {}),
    ("gateway", ("gateway",), {}),
    ("gateway", ("webhook", "check"), {}),
    ("gateway", ("webhook", "test", "github", "payload.json"), {}),
    ("mcp", ("mcp",), {}),
    ("sign", ("sign", "log.jsonl", "--key", "key.pem"), {}),
    ("sentry", ("worker",), {"SENTRY_DSN": "https://key@sentry.example/1"}),
    ("otel", ("plans",), {"PLANNER_TRACING": "1"}),
    ("llm", ("worker",), {"PLANNER_DRAFTERS": "http", "PLANNER_LLM_MODEL": "openai:gpt-5"}),
)


def hints(environment: Environment) -> str:
    """Each command that needs an extra names what to install, in place of a traceback."""
    for extra, words, variables in HINTS:
        code, printed, errors = environment.run("planner", *words, **variables)
        hint = f"pip install 'planner-worker[{extra}]'"
        said = " ".join(f"{printed}{errors}".split())
        is_refused = code == 2 if variables else code
        check(is_refused and hint in said and "Traceback" not in said, f"planner {' '.join(words)} ({code}): {said}")
    return f"{len(HINTS)} commands name the extra that they need"


def over_redis(environment: Environment) -> str:
    """`planner up`, a goal, a step by a controller on Redis, and `planner show`."""
    with environment.running("up"):
        wait_for((environment.work / ".planner/url").is_file, "planner up writes its URL")
        plan = json.loads(environment.planner(*SUBMIT))["plan_id"]
        step = environment.python(HERE / "redis_controller.py", _kept(environment, "url")).strip()
        _wait_until_done(environment, plan, step)
        return f"planner up, a goal, {step} done over Redis, planner show"


def over_http(environment: Environment) -> str:
    """The same over HTTP from another folder, and a sign-in on the page."""
    with environment.running("up"):
        wait_for((environment.work / ".planner/gateway_url").is_file, "planner up writes its gateway's URL")
        url, key = _kept(environment, "gateway_url"), _kept(environment, "api_key")
        asked = {"PLANNER_URL": url, "PLANNER_API_KEY": key}
        wait_for(lambda: _answers(f"{url}/readyz"), "the gateway is ready")
        plan = json.loads(environment.planner(*SUBMIT, **asked))["plan_id"]
        step = environment.python(HERE / "http_controller.py", url, key).strip()
        _wait_until_done(environment, plan, step, **asked)
        with httpx.Client(base_url=url, follow_redirects=True) as browser:
            page = browser.post("/sign-in", data={"key": key}, headers={"Origin": url})
            check(GOAL in page.text, f"the page shows no plan after the sign-in: {page.status_code} {page.text[:500]}")
        return f"planner up, a goal, {step} done over HTTP, planner show, a sign-in on the page"


def _wait_until_done(environment: Environment, plan: str, step: str, **variables: str) -> None:
    def states() -> dict[str, str]:
        shown = json.loads(environment.planner("show", plan, "--json", **variables))
        return {each["step_id"]: each["state"] for each in shown["steps"]}

    wait_for(lambda: states().get(step) == "DONE", f"planner show tells that {step} is done")
    check(step in environment.planner("show", plan, **variables), f"planner show prints {step}")


def _kept(environment: Environment, name: str) -> str:
    return (environment.work / ".planner" / name).read_text().strip()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False
