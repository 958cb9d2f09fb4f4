"""A controller that does one step, as docs/writing-a-controller.md describes, with redis-py alone."""

import json
import sys
import time
from typing import Any

import redis

server = redis.Redis.from_url(sys.argv[1], decode_responses=True, protocol=2)
STREAM, NAME = "planner:{0}:steps:default", "tester"
streams: Any = []
while not streams:
    try:
        streams = server.xreadgroup("controllers", NAME, {STREAM: ">"}, count=1, block=1000)
    except redis.ResponseError:  # the planner has not made the stream yet
        time.sleep(0.1)
entry, fields = streams[0][1][0]
spec = json.loads(fields["data"])
action = server.fcall("planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], NAME)[0]
assert action == "continue", action
done = {key: spec[key] for key in ("plan_id", "step_id", "attempt", "lease")}
done |= {"success": True, "touched_files": spec["allowed_files"], "tests_passed": True, "metrics": {"tokens_used": 7}}
server.xadd(spec["reply_to"], {"data": json.dumps(done)})
server.xack(STREAM, "controllers", entry)
sys.stdout.write(spec["step_id"])
