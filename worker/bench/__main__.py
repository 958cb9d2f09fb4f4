"""`python -m worker.bench`: only the outcomes of the benchmark, the goals, and their CPU, as a line of JSON.

It measures the code of the current directory, so that two versions can be compared by alternating runs; see
docs/performance.md.
"""

from __future__ import annotations

import sys

from schemas import codec
from worker.bench import Measurement, measure

(figures,) = measure(Measurement(is_brief=True), lambda _: None).runs
sys.stdout.write(codec.dumps({name: round(value, 3) for name, value in figures.items()}).decode() + "\n")
