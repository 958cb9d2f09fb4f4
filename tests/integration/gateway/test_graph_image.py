"""`graph.svg`: a plan's graph as a picture by itself."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from schemas.api_key import Right
from tests.support.gateway import Gateway
from tests.support.planner import Planner

SVG = "{http://www.w3.org/2000/svg}"


def test_a_plan_is_drawn_as_a_picture_of_its_steps_without_anything_that_runs(gateway: Gateway) -> None:
    plan_id = Planner(gateway.settings.redis_url).submit()
    client = gateway.client(Right.VIEWER)

    answer = client.get(f"/v1/plans/{plan_id}/graph.svg")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert answer.headers["content-security-policy"].endswith("sandbox")
    drawn = fromstring(answer.text)
    names = {each.text for each in drawn.iter(f"{SVG}text") if each.get("class") == "name"}
    steps = client.get(f"/v1/plans/{plan_id}/steps").json()["items"]
    assert drawn.tag == f"{SVG}svg"
    assert names == {each["step_id"] for each in steps}
    assert not list(drawn.iter(f"{SVG}script"))
    assert client.get("/v1/plans/plan_00-" + "0" * 32 + "/graph.svg").status_code == 404
