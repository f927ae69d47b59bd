"""The whole autoscaler inside a whole cluster: load on a fake node ends in a resize in place, without a restart."""

from __future__ import annotations

from pathlib import Path

from podfit.api.kinds import LEASE, POD, VPA, kind_named
from podfit.testing.expect import all_become, becomes
from podfit.testing.whole import Whole, pod_spec, workload

DEPLOYMENT = kind_named("Deployment")
FLAGS = {
    "recommender": ["--recommender-interval=200ms", "--pod-recommendation-min-cpu-millicores=300"],
    "updater": ["--updater-interval=200ms", "--scale-down-delay=0"],
}


async def test_a_deployment_is_resized_in_place(tmp_path: Path) -> None:
    async with Whole(tmp_path, vpa=True, vpa_flags=FLAGS) as whole:
        await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2, pod=pod_spec("100m", "64Mi")))
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
        }
        vpa = {"apiVersion": VPA.api_version, "kind": VPA.kind, "metadata": {"name": "web"}, "spec": spec}
        await whole.client.create(VPA, vpa, "default")
        provided = await becomes(
            whole.client,
            VPA,
            "default",
            "web",
            lambda one: bool(((one or {}).get("status") or {}).get("recommendation")),
        )
        assert provided is not None
        target = provided["status"]["recommendation"]["containerRecommendations"][0]["target"]
        assert target["cpu"] == "300m"

        def settled(pods: list[dict[str, object]]) -> bool:
            return len(pods) == 2 and all(_cpu(pod) == "300m" for pod in pods)

        pods = await all_become(whole.client, POD, "default", settled, labelSelector="app=web")
        assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0, 0]
        await becomes(whole.client, LEASE, "kube-system", "vpa-admission-controller", lambda one: one is not None)
        await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 3}})
        pods = await all_become(whole.client, POD, "default", lambda found: len(found) == 3, labelSelector="app=web")
        newest = max(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        assert newest["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "300m"


def _cpu(pod: dict[str, object]) -> object:
    status = pod.get("status") or {}
    assert isinstance(status, dict)
    for entry in status.get("containerStatuses") or []:
        return ((entry.get("resources") or {}).get("requests") or {}).get("cpu")
    return None
