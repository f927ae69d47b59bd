"""Every pod has an address: whole nodes in network namespaces of their own, as kubectl and the kernel see them."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.process.support import check_support
from tests.e2e.conftest import Running, eventually
from tests.kernelnet import leftovers, links, network_namespace, run, skip_without_networks

SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ.get("NAME", "").encode())
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Handler).serve_forever()
"""
ASK = """
import sys, urllib.request as u
print(u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=5).read().decode())
"""
IN_CLUSTER = """
import os, ssl, urllib.request as u
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
tls = u.HTTPSHandler(context=ssl.create_default_context(cafile=f"{folder}/ca.crt"))
review = '{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
token = open(f"{folder}/token").read()
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
url = f"https://{host}:{port}/apis/authentication.k8s.io/v1/selfsubjectreviews"
request = u.Request(url, review.encode(), headers, method="POST")
print(host, u.build_opener(u.ProxyHandler({}), tls).open(request, timeout=10).read().decode())
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Running]:
    with started(tmp_path) as running:
        yield running


@contextmanager
def started(tmp_path: Path, *more: str) -> Iterator[Running]:
    skip_without_networks()
    if missing := check_support():
        pytest.skip("; ".join(missing))
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with network_namespace() as within:
        running = Running(tmp_path / "data", *flags(tmp_path), *more, log=tmp_path / "log", within=within)
        try:
            yield running.start()
        finally:
            running.stop()
            down(running)


def flags(folder: Path) -> tuple[str, ...]:
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    cni = ("--cni-conf-dir", str(folder / "cni"), "--cni-bin-dir", str(folder / "bin"))
    return ("--no-vpa", "--node-name", "n1", "--node-cpu", "8", *cni)


def down(node: Running) -> None:
    command = [*node.within, sys.executable, "-m", "podfit.cli.main", "down", "--data-dir", str(node.folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def pod(name: str, *command: str, ports: list[dict[str, Any]] | None = None, **spec: Any) -> str:
    container: dict[str, Any] = {"name": "c", "image": "host", "command": list(command), "ports": ports or []}
    container["env"] = [
        {"name": "NAME", "value": name},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    container |= spec.pop("container", {})
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def server(port: int = 8080) -> tuple[str, ...]:
    return ("python3", "-c", SERVER, str(port))


def create(node: Running, *manifests: str) -> None:
    for manifest in manifests:
        node.kubectl("create", "-f", "-", stdin=manifest)


def ready(node: Running, *names: str) -> None:
    node.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"pod/{name}" for name in names))


def address(node: Running, name: str) -> str:
    return str(node.json("get", "pod", name)["status"]["podIP"])


def ask(node: Running, host: str, port: int = 8080) -> str:
    return run("python3", "-c", ASK, f"http://{host}:{port}/", within=node.within).strip()


def refused(node: Running, host: str, port: int) -> bool:
    try:
        ask(node, host, port)
    except subprocess.CalledProcessError:
        return True
    return False


def event(node: Running, name: str, reason: str, part: str) -> None:
    def said() -> bool:
        listed = node.json("get", "events", "--field-selector", f"involvedObject.name={name},reason={reason}")
        return any(part in item["message"] for item in listed["items"])

    eventually(said, f"Event {reason} of {name} with {part!r}: {node.kubectl('get', 'events')}")


def deployment(image_command: tuple[str, ...], replicas: int = 3) -> str:
    template = json.loads(pod("web", *image_command, ports=[{"containerPort": 8080}]))
    container = template["spec"]["containers"][0]
    container["env"][0] = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    container["readinessProbe"] = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    del template["spec"]["terminationGracePeriodSeconds"]
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {**template["spec"], "terminationGracePeriodSeconds": 0},
        },
    }
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


def test_replicas_answer_each_on_its_own_address_and_a_broken_rollout_never_succeeds(node: Running) -> None:
    create(node, deployment(server()))
    node.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    found = {item["metadata"]["name"]: item["status"]["podIP"] for item in node.json("get", "pods")["items"]}
    assert len(set(found.values())) == 3
    assert {name: ask(node, ip) for name, ip in found.items()} == {name: name for name in found}
    node.kubectl("apply", "-f", "-", stdin=deployment(("sleep", "1000")))
    said = node.kubectl("rollout", "status", "deployment/web", "--timeout=5s", fails=True)
    assert "timed out" in said
    unready = [item for item in node.json("get", "pods")["items"] if item["metadata"]["name"] not in found]
    assert unready and not any(status["ready"] for pod in unready for status in pod["status"]["containerStatuses"])


def test_a_pod_sees_its_own_network_by_every_way(node: Running) -> None:
    create(node, pod("web", *server(), ports=[{"containerPort": 8080}]))
    ready(node, "web")
    ip = address(node, "web")
    seen = node.kubectl("exec", "web", "--", "sh", "-c", "echo $IP; ls /sys/class/net; tail -n 1 /etc/hosts")
    assert seen.split() == [ip, "eth0", "lo", ip, "web"]
    status = node.json("get", "pod", "web")["status"]
    assert (status["podIPs"], status["hostIP"]) == ([{"ip": ip}], "127.0.0.1")
    assert node.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/web:8080/proxy/") == "web"
    forward = subprocess.Popen(
        [*node.within, "kubectl", f"--kubeconfig={node.kubeconfig}", "port-forward", "web", ":8080"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert forward.stdout is not None
        port = int(forward.stdout.readline().split(":")[1].split()[0])
        assert ask(node, "127.0.0.1", port) == "web"
    finally:
        forward.kill()
        forward.wait()


def test_a_client_in_a_pod_reaches_the_api_server_by_its_service(node: Running) -> None:
    create(node, pod("client", "python3", "-c", IN_CLUSTER, restartPolicy="Never"))
    node.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", "pod/client")
    host, _, answer = node.kubectl("logs", "client").partition(" ")
    assert host == "10.96.0.1"
    assert json.loads(answer)["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"


def test_host_network_pods_use_the_hosts_network_and_host_ports_lead_to_the_pod(node: Running) -> None:
    create(
        node,
        pod("own", *server(), ports=[{"containerPort": 8080, "hostPort": 18080}]),
        pod("host", *server(18081), hostNetwork=True),
    )
    ready(node, "own", "host")
    assert address(node, "host") == "127.0.0.1" and address(node, "own") != "127.0.0.1"
    assert ask(node, "127.0.0.1", 18080) == "own"
    assert ask(node, "127.0.0.1", 18081) == "host"
    names = node.kubectl("exec", "host", "--", "ls", "/proc/sys/net/ipv4/conf").split()
    assert any(name.startswith("podfit-") for name in names)
    # The scheduler keeps pods with equal host ports apart; the node finds a port that another process uses.
    create(node, pod("taken", *server(), ports=[{"containerPort": 8080, "hostPort": 18081}]))
    event(node, "taken", "FailedCreatePodSandBox", "host port 18081/TCP is in use")
    assert "containerStatuses" in node.json("get", "pod", "taken")["status"]
    node.kubectl("delete", "pod", "host", "--now")
    ready(node, "taken")
    assert ask(node, "127.0.0.1", 18081) == "taken"
    node.kubectl("delete", "pod", "own", "--now")
    assert refused(node, "127.0.0.1", 18080)


def test_a_pod_waits_while_the_nodes_range_is_exhausted(node: Running) -> None:
    node.kubectl("patch", "node", "n1", "-p", '{"spec": {"podCIDR": "10.63.253.0/30", "podCIDRs": ["10.63.253.0/30"]}}')
    create(node, pod("first", "sleep", "1000"))
    ready(node, "first")
    assert address(node, "first") == "10.63.253.2"
    create(node, pod("second", "sleep", "1000"))
    event(node, "second", "FailedCreatePodSandBox", "no free address in the pod range 10.63.253.0/30: all 1 are in use")
    node.kubectl("delete", "pod", "first", "--now")
    ready(node, "second")
    assert address(node, "second") == "10.63.253.2"


def test_nodes_of_one_machine_have_parts_of_the_clusters_range_and_their_pods_reach_each_other(tmp_path: Path) -> None:
    with started(tmp_path, "--nodes", "2", "--cluster-cidr", "10.44.0.0/22", "--node-cidr-mask-size", "25") as nodes:
        names = ("n1-1", "n1-2")
        ranges = [range_of(nodes, name) for name in names]
        assert sorted(ranges) == ["10.44.0.0/25", "10.44.0.128/25"]
        create(nodes, *(pod(f"on-{name}", *server(), nodeName=name) for name in names))
        ready(nodes, *(f"on-{name}" for name in names))
        for name, own in zip(names, ranges, strict=True):
            assert ip_address(address(nodes, f"on-{name}")) in ip_network(own)
        there = address(nodes, "on-n1-2")
        asked = nodes.kubectl("exec", "on-n1-1", "--", sys.executable, "-c", ASK, f"http://{there}:8080/")
        assert asked.strip() == "on-n1-2"


def range_of(node: Running, name: str) -> str:
    return str(node.json("get", "node", name)["spec"]["podCIDR"])


def test_nothing_is_left_in_the_kernel_after_a_crash_and_down(node: Running) -> None:
    forwarding = "/proc/sys/net/ipv4/ip_forward"
    before = links(node.within)
    assert before == {"lo"} and run("cat", forwarding, within=node.within) == "0\n"
    create(node, *(pod(f"p{n}", *server(), ports=[{"containerPort": 8080, "hostPort": 18080 + n}]) for n in range(3)))
    ready(node, "p0", "p1", "p2")
    mark = next(name for name in links(node.within) if name.startswith("podfit-")).removeprefix("podfit-")
    assert len(links(node.within)) == 1 + 1 + 3 and run("cat", forwarding, within=node.within) == "1\n"
    addresses = {address(node, f"p{n}") for n in range(3)}
    node.stop(signal.SIGKILL)
    assert {ask(node, ip) for ip in addresses} == {"p0", "p1", "p2"}, "pods keep their network"
    node.start()
    create(node, pod("p3", "sleep", "1000"))
    ready(node, "p0", "p1", "p2", "p3")
    assert {address(node, f"p{n}") for n in range(3)} == addresses
    assert address(node, "p3") not in addresses
    assert ask(node, "127.0.0.1", 18080) == "p0"
    node.stop(signal.SIGKILL)
    down(node)
    assert links(node.within) == before
    assert run("nft", "list", "ruleset", within=node.within) == ""
    assert run("cat", forwarding, within=node.within) == "0\n"
    assert leftovers(mark, node.within) == []
    assert not list(node.folder.rglob("network"))


def test_a_pod_whose_namespace_is_removed_gets_another_one(node: Running) -> None:
    create(node, pod("web", *server(), ports=[{"containerPort": 8080}]))
    ready(node, "web")
    node.stop()
    uid = json.loads(next((node.folder / "nodes/n1/runtime/network/pods").glob("*.json")).read_text())["request"]["uid"]
    name = next(file.name for file in Path("/run/netns").iterdir() if file.name.endswith(uid))
    run("ip", "netns", "delete", name)
    node.start()
    event(node, "web", "SandboxChanged", "Pod sandbox changed")
    ready(node, "web")
    eventually(lambda: ask(node, address(node, "web")) == "web", "the pod answers")


CHAIN = {
    "cniVersion": "1.0.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.63.252.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


def configure(folder: Path, *plugins: str, last: str = "portmap") -> Path:
    """Writes a CNI configuration with leases of the test's own, and returns their folder."""
    source = next((path for path in (Path("/usr/lib/cni"), Path("/opt/cni/bin")) if (path / "bridge").exists()), None)
    if source is None:
        pytest.skip("the CNI plugins are not installed")
    for plugin in plugins:
        (folder / "bin" / plugin).symlink_to(source / plugin)
    chain = json.loads(json.dumps(CHAIN))
    chain["plugins"][0]["ipam"]["dataDir"] = str(folder / "leases")
    chain["plugins"][1]["type"] = last
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(chain))
    return folder / "leases" / "pods"


def test_cni_plugins_connect_pods_and_a_missing_plugin_is_named_until_it_is_installed(
    node: Running, tmp_path: Path
) -> None:
    leases = configure(tmp_path, "bridge")
    create(node, pod("web", *server(), ports=[{"containerPort": 8080, "hostPort": 18080}]))
    event(node, "web", "FailedCreatePodSandBox", "host-local")
    configure_rest = Path("/usr/lib/cni") if Path("/usr/lib/cni/bridge").exists() else Path("/opt/cni/bin")
    (tmp_path / "bin" / "host-local").symlink_to(configure_rest / "host-local")
    event(node, "web", "FailedCreatePodSandBox", 'failed to find plugin "portmap"')
    (tmp_path / "bin" / "portmap").symlink_to(configure_rest / "portmap")
    ready(node, "web")
    ip = address(node, "web")
    assert ip.startswith("10.63.252.") and ask(node, ip) == "web"
    assert sorted(file.name for file in leases.iterdir() if file.name[0].isdigit()) == [ip], "one lease, none lost"
    create(node, pod("client", "python3", "-c", IN_CLUSTER, restartPolicy="Never"))
    node.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", "pod/client")
    node.stop(signal.SIGKILL)
    (tmp_path / "cni" / "10-pods.conflist").unlink()
    down(node)
    assert [file.name for file in leases.iterdir() if file.name[0].isdigit()] == []
    assert not [name for name in links(node.within) if name.startswith("veth")]
    assert "podfit" not in run("nft", "list", "ruleset", within=node.within)


def test_a_pod_starts_when_the_configuration_no_longer_names_the_missing_plugin(node: Running, tmp_path: Path) -> None:
    leases = configure(tmp_path, "bridge", "host-local", last="nowhere")
    create(node, pod("web", *server(), ports=[{"containerPort": 8080}]))
    event(node, "web", "FailedCreatePodSandBox", 'failed to find plugin "nowhere"')
    configure(tmp_path, "portmap")
    ready(node, "web")
    assert [file.name for file in leases.iterdir() if file.name[0].isdigit()] == [address(node, "web")]


def test_a_cni_configuration_that_cannot_be_used_is_named_until_it_is_repaired(node: Running, tmp_path: Path) -> None:
    file = tmp_path / "cni" / "10-bad.conflist"
    file.write_text('{"cniVersion": "1.0.0", "name": "pods"}')
    create(node, pod("web", *server(), ports=[{"containerPort": 8080}]))
    event(node, "web", "FailedCreatePodSandBox", f"CNI configuration {file}: has no plugins")
    file.unlink()
    ready(node, "web")
    assert ask(node, address(node, "web")) == "web"


def test_a_pod_in_the_hosts_network_whose_port_is_taken_is_not_ready_and_reports_the_reason(tmp_path: Path) -> None:
    skip_without_networks()
    with network_namespace() as within:
        node = Running(tmp_path / "data", *flags(tmp_path), "--pod-network", "host", within=within)
        try:
            node.start()
            patient = "while true; do python3 -c '" + SERVER.replace("'", '"') + "' 8080 2>/dev/null; sleep 0.2; done"
            probe = {"readinessProbe": {"httpGet": {"port": 8080}, "periodSeconds": 1}}
            ports = [{"containerPort": 8080}]
            create(node, pod("old", *server(), ports=ports, container=probe))
            ready(node, "old")
            create(node, pod("new", "sh", "-c", patient, ports=ports, container=probe))
            event(node, "new", "PortConflict", "port 8080/TCP is in use by another process")
            condition = next(
                known for known in node.json("get", "pod", "new")["status"]["conditions"] if known["type"] == "Ready"
            )
            assert condition["status"] == "False" and "port 8080/TCP is in use" in condition["message"]
            time.sleep(2)  # two periods of the probe, which the old pod answers
            shown = node.json("get", "pod", "new")["status"]
            assert not shown["containerStatuses"][0]["ready"]
            node.kubectl("delete", "pod", "old", "--now")
            ready(node, "new")
            assert ask(node, address(node, "new")) == "new"
        finally:
            node.stop()
            down(node)
