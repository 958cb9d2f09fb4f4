"""docs/http.md by its commands: each runs against a real gateway and a real worker, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from schemas.api_key import Right
from tests.conftest import RunningWorker
from tests.support.documented import DOCS
from tests.support.gateway import running_gateway
from tests.support.programs import needs

# 28: the time that a command gives itself by --max-time is over, since what it reads has no end
STRICT = 'set -euo pipefail\ncurl() { command curl --fail-with-body "$@" || [ $? = 28 ]; echo; }\n'
BY_HAND = ("planner up", "export PLANNER_URL")  # how a reader comes to a gateway and a key


@needs("bash", "curl", "jq")
def test_every_curl_of_the_page_is_answered(planner_worker: RunningWorker, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "http.md").read_text(), re.DOTALL)
    script = STRICT + "\n".join(block for block in blocks if not block.startswith(BY_HAND))

    with running_gateway(planner_worker.url) as gateway:
        variables = {**os.environ, "PLANNER_URL": gateway.url, "PLANNER_API_KEY": gateway.key(Right.ADMIN)}
        done = subprocess.run(
            ["bash", "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert script.count("curl -s") > 20
    assert '"verdict":"PLANNED"' in done.stdout
    assert '"format":"planner.plan"' in (tmp_path / "plan.json").read_text()
