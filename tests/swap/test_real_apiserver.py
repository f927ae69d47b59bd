"""podfit's components on Kubernetes' own API server beyond the sixteen steps: metrics, resizes by template, joining."""

from __future__ import annotations

import asyncio
import base64
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from podfit.api.objects import Object
from podfit.api.registry.kinds import LEASE, POD, kind_named
from podfit.api.registry.kinds import NODE as NODES
from podfit.api.status import ApiError
from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfig
from podfit.apiserver.auth.certs.pki import Pki
from podfit.client.rest import Client
from tests.support.cluster.expect import becomes

from .programs import NODE, Programs, lacking
from .starting import last_lines, start
from .story import SPACE, Story, holds, running

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT, SECRET = kind_named("ServiceAccount"), kind_named("Secret")
DEPLOYMENT, BINDING, SERVICE = kind_named("Deployment"), kind_named("ClusterRoleBinding"), kind_named("APIService")
PATIENCE_S = 90.0
OURS = {"apiserver": True, "controllers": False, "scheduler": False, "node": False}
pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(bool(lacking(["apiserver"])), reason=f"there is no {', no '.join(lacking(['apiserver']))}"),
]


@pytest.fixture
async def client(programs: Programs) -> AsyncIterator[Client]:
    made = await start(programs, OURS)
    try:
        await becomes(made, NODES, "", NODE, holds("Ready"), PATIENCE_S)
        yield made
    finally:
        await made.close()
        print(last_lines(programs))


async def apply(client: Client, file: Path) -> None:
    for body in yaml.safe_load_all(file.read_text()):
        kind = kind_named(body["kind"])
        try:
            await client.create(kind, body)
        except ApiError as error:
            assert error.code == 409, error


async def run(*command: str | Path) -> tuple[int, str]:
    out = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*map(str, command), stdout=out, stderr=asyncio.subprocess.STDOUT)
    text, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return process.returncode or 0, text.decode()


def available(service: Object | None) -> bool:
    return holds("Available")(service)


async def test_kubectl_top_works_with_our_meter_and_its_rights_alone(client: Client, programs: Programs) -> None:
    await apply(client, DEPLOY / "meter" / "role.yaml")
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await client.create(ACCOUNT, body, "kube-system", "podfit-meter", "token"))["status"]["token"]
    config = programs.config("meter")
    write_kubeconfig(config, programs.url, Pki(programs.folder / "pki", [programs.address]).ca, token=token)
    listen = ("--listen", f"{programs.address}:10443", "--resolution", "1")
    programs.podfit("meter", "meter", "--kubeconfig", config, *listen)
    await becomes(client, SERVICE, "", "v1beta1.metrics.k8s.io", available, PATIENCE_S)
    story = Story(client, programs.config("admin"))
    await story.the_node_is_ready()
    await story.a_namespace_gets_its_account_and_certificate()
    await story.a_deployment_rolls_out()
    kubectl = (str(shutil.which("kubectl")), "--kubeconfig", programs.config("admin"), "top")
    async with asyncio.timeout(PATIENCE_S):
        for words, name in ((("pods", "-n", SPACE), "web-"), (("nodes",), NODE)):
            while True:
                code, out = await run(*kubectl, *words)
                if code == 0 and name in out:
                    break
                await asyncio.sleep(1)


async def test_a_template_resizes_pods_in_place_with_the_right_for_it(client: Client, programs: Programs) -> None:
    await apply(client, DEPLOY / "controllers" / "inplace-resize.yaml")
    story = Story(client, programs.config("admin"))
    await story.a_namespace_gets_its_account_and_certificate()
    await story.a_deployment_rolls_out()
    before = {pod["metadata"]["uid"] for pod in (await client.list(POD, SPACE))["items"]}
    annotated = {"metadata": {"annotations": {"podfit.dev/resize-policy": "InPlace"}}}
    await client.patch(DEPLOYMENT, SPACE, "web", annotated)
    sizes = {"requests": {"cpu": "70m", "memory": "32Mi"}}
    found = await client.get(DEPLOYMENT, SPACE, "web")
    container = {**found["spec"]["template"]["spec"]["containers"][0], "resources": sizes}
    await client.patch(DEPLOYMENT, SPACE, "web", {"spec": {"template": {"spec": {"containers": [container]}}}})

    def resized(pods: list[Object]) -> bool:
        rows = [pod["status"]["containerStatuses"][0]["resources"]["requests"]["cpu"] for pod in pods]
        return rows == ["70m", "70m"]

    pods = await story.pods("web", resized)
    assert {pod["metadata"]["uid"] for pod in pods} == before


async def test_a_node_joins_with_a_token_and_its_certificate_is_signed(client: Client, programs: Programs) -> None:
    code, out = await run(
        sys.executable, "-m", "podfit.cli.main", "token", "create", "--kubeconfig", programs.config("admin")
    )
    assert code == 0, out
    token = out.split("--token ")[1].split()[0]
    # As in a kubeadm cluster: any holder of a token may request a certificate, and a node's request is approved.
    for name, role in (
        ("bootstrap", "system:node-bootstrapper"),
        ("approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"),
    ):
        group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:bootstrappers"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        meta = {"name": f"test:{name}"}
        body = {"apiVersion": BINDING.api_version, "kind": BINDING.kind, "metadata": meta}
        await client.create(BINDING, {**body, "roleRef": reference, "subjects": [group]})
    place = (
        "--node-name",
        "n2",
        "--node-ip",
        programs.address,
        "--port",
        "10260",
        "--data-dir",
        programs.folder / "n2",
    )
    join = ("--server", programs.url, "--token", token, "--certificate-authority", programs.folder / "pki" / "ca.crt")
    programs.podfit("second", "agent", *place, *join, "--runtime", "fake", "--rotate-server-certificates")
    await becomes(client, NODES, "", "n2", holds("Ready"), PATIENCE_S)
    requests = (await client.list(kind_named("CertificateSigningRequest")))["items"]
    serving = [request for request in requests if request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"]
    assert [obj["spec"]["username"] for obj in serving] == ["system:node:n2"]
    assert b"CERTIFICATE REQUEST" in base64.b64decode(serving[0]["spec"]["request"])


async def test_the_autoscaler_can_be_installed(client: Client, programs: Programs) -> None:
    command = (sys.executable, "-m", "podfit.cli.main", "install", "vpa", "--kubeconfig", programs.config("admin"))
    code, out = await run(*command, "--dry-run", "--without-metrics")
    assert code == 0 and "deployment.apps/vpa-updater applied (dry run)" in out
    code, out = await run(*command, "--dry-run")
    assert code == 3 and "nothing serves metrics.k8s.io" in out


async def test_the_nodes_own_pages_come_through_the_api_server(client: Client) -> None:
    proxy = f"/api/v1/nodes/{NODE}/proxy"
    assert (await client.raw("GET", f"{proxy}/pods"))["kind"] == "PodList"
    assert (await client.raw("GET", f"{proxy}/stats/summary"))["node"]["nodeName"] == NODE
    assert (await client.raw("GET", f"{proxy}/configz"))["kubeletconfig"]["kind"] == "KubeletConfiguration"
    for page, series in (("resource", "node_cpu_usage_seconds_total"), ("cadvisor", "container_"), ("probes", "")):
        assert series in await client.raw("GET", f"{proxy}/metrics/{page}")
    lease = await client.get(LEASE, "kube-node-lease", NODE)
    assert lease["spec"]["holderIdentity"] == NODE


async def test_a_static_pod_has_a_mirror_on_the_api_server(programs: Programs) -> None:
    folder = programs.folder / "manifests"
    folder.mkdir()
    container = {"name": "c", "image": "busybox", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "1d"]}
    meta = {"name": "fixed", "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    (folder / "fixed.yaml").write_text(yaml.safe_dump(body))
    programs.manifests = folder
    made = await start(programs, OURS)
    try:
        pod = await becomes(made, POD, "default", f"fixed-{NODE}", running, PATIENCE_S)
        assert pod is not None and "kubernetes.io/config.mirror" in pod["metadata"]["annotations"]
        await made.delete(POD, "default", f"fixed-{NODE}", {"gracePeriodSeconds": 0})
        uid = pod["metadata"]["uid"]
        again = await becomes(
            made,
            POD,
            "default",
            f"fixed-{NODE}",
            lambda obj: obj is not None and obj["metadata"]["uid"] != uid,
            PATIENCE_S,
        )
        assert again is not None
    finally:
        await made.close()
