"""`podfit install vpa`: its checks, what it applies, and when it is done."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.cli.installing.checks import too_old
from podfit.cli.installing.manifests import images, manifests
from podfit.cli.installing.rollout import is_rolled_out, why_waiting

PATIENCE_S = 120.0
DEPLOYMENT, DEFINITION = kind_named("Deployment"), kind_named("CustomResourceDefinition")
WEBHOOK = kind_named("MutatingWebhookConfiguration")
HOOK = {"apiVersion": WEBHOOK.api_version, "kind": WEBHOOK.kind, "metadata": {"name": "vpa-webhook-config"}}


async def install(whole: Whole, *words: str, config: Path | None = None) -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "podfit.cli.main", "install", "vpa", *words]
    command += ["--kubeconfig", str(config or whole.up.kubeconfig)]
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode or 0, out.decode(), errors.decode()


async def started(whole: Whole, *names: str) -> Object:
    """Simulates the node: every pod of these Deployments becomes Ready. Returns when the last Deployment is
    rolled out.
    """
    found: Object | None = None
    for name in names:

        def complete(obj: Object | None) -> bool:
            return bool(obj and (obj.get("status") or {}).get("updatedReplicas") == obj["spec"]["replicas"])

        await becomes(whole.client, DEPLOYMENT, "kube-system", name, complete)
        pods = await whole.client.list(POD, "kube-system", labelSelector=f"app={name}")
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        for pod in pods["items"]:
            await whole.client.patch(POD, "kube-system", pod["metadata"]["name"], ready, "status")
        found = await becomes(
            whole.client,
            DEPLOYMENT,
            "kube-system",
            name,
            lambda deployment: deployment is not None and is_rolled_out(deployment),
        )
    assert found is not None
    return found


async def test_install_applies_the_manifests_and_waits_for_the_webhook(tmp_path: Path) -> None:
    async with Whole(tmp_path, nodes=0) as whole:
        running = asyncio.create_task(install(whole, "--image", "registry.example/podfit:1"))
        made = await started(whole, "vpa-recommender", "vpa-updater", "vpa-admission-controller")
        assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/podfit:1"
        await whole.client.create(WEBHOOK, {**HOOK, "webhooks": []})
        code, out, errors = await running
        assert (code, out.splitlines()[-1]) == (0, "the autoscaler works"), errors
        code, _, errors = await install(whole, "--image", "registry.example/podfit:1")
        assert code == 0, errors


async def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        code, out, errors = await install(whole, "--dry-run")
        assert code == 0 and "deployment.apps/vpa-updater applied (dry run)" in out, errors
        assert await whole.client.find(DEPLOYMENT, "kube-system", "vpa-updater") is None


async def test_without_metrics_it_refuses_and_says_what_to_do(tmp_path: Path) -> None:
    async with Whole(tmp_path, controllers=False) as whole:
        code, out, errors = await install(whole, "--dry-run")
        assert (code, out) == (3, "") and "nothing serves metrics.k8s.io" in errors
        assert (await install(whole, "--dry-run", "--without-metrics"))[0] == 0


async def test_missing_rights_are_named_before_anything_is_applied(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        code, out, errors = await install(whole, config=tmp_path / "scheduler.kubeconfig")
        assert (code, out) == (3, "") and "you may not create deployments in kube-system" in errors
        assert await whole.client.find(DEPLOYMENT, "kube-system", "vpa-updater") is None


async def test_another_autoscaler_is_not_overwritten(tmp_path: Path) -> None:
    async with Whole(tmp_path) as whole:
        body = next(
            manifest for manifest in manifests("vpa", "upstream/vpa-updater:1.7.1") if manifest["kind"] == "Deployment"
        )
        body["spec"]["template"]["spec"]["containers"][0]["args"] = ["--v=4"]
        body["spec"]["template"]["spec"].pop("serviceAccountName")
        await whole.client.create(DEPLOYMENT, body)
        code, _, errors = await install(whole)
        assert code == 3 and "another autoscaler's (upstream/vpa-updater:1.7.1)" in errors
        with pytest.raises(ApiError):
            await whole.client.get(DEPLOYMENT, "kube-system", "vpa-admission-controller")


def test_the_manifests_are_those_of_the_deploy_folder_in_its_order() -> None:
    kinds = [manifest["kind"] for manifest in manifests("vpa")]
    assert kinds[:2] == ["CustomResourceDefinition"] * 2 and kinds.count("Deployment") == 3
    assert images(manifests("vpa")) == ["podfit:latest"] and images(manifests("vpa", "a/b:1")) == ["a/b:1"]


@pytest.mark.parametrize(
    ("major", "minor", "refused"), [("1", "32", True), ("1", "33", False), ("1", "36+", False), ("2", "0", False)]
)
def test_servers_from_1_33_on_are_taken(major: str, minor: str, refused: bool) -> None:
    assert bool(too_old({"major": major, "minor": minor, "gitVersion": f"v{major}.{minor}.0"})) is refused


def test_a_pod_that_cannot_pull_reports_it() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    status = {"containerStatuses": [{"state": {"waiting": waiting}}]}
    assert why_waiting({"metadata": {"name": "p"}, "status": status}) == ["pod p: ErrImagePull: no such image"]
