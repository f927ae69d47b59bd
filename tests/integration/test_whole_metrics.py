"""Everything in one process shows its measures at one place."""

from pathlib import Path

from podfit.api.kinds import POD
from podfit.testing.expect import becomes
from podfit.testing.whole import Whole, pod_spec


async def test_the_scheduler_of_podfit_up_is_seen_at_the_servers_metrics(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec(node="")}
        await whole.client.create(POD, body, "default")
        await becomes(whole.client, POD, "default", "p", lambda one: bool(one and one["spec"].get("nodeName")))
        text = str(await whole.client.raw("GET", "/metrics"))
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0' in text
    assert "apiserver_request_total" in text
