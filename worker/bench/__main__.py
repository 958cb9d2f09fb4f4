"""`python -m worker.bench`: only the outcomes of the benchmark and their CPU, as a line of JSON.

It measures the code of the current directory, so that two versions can be compared by alternating runs; see
docs/performance.md.
"""

from __future__ import annotations

import sys

from schemas import codec
from worker.bench import measure

PLANS, STEPS = 1000, 10

figures = measure(PLANS, STEPS, "solo", lambda _: None, is_brief=True)
sys.stdout.write(codec.dumps(figures).decode() + "\n")
