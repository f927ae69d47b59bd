"""A real Prometheus with the shipped configuration reads a real `podfit up`, and the shipped dashboard has its data.

All tests share one cluster and one Prometheus: pods start, starve, run out of memory and are resized, and the responses
of Prometheus are kept for the tests.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import inventory
from tests.e2e.conftest import KUBECTL, Running, eventually, real_runtime
from tests.support.servers.prometheus import Prometheus, installed

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
BOARD = json.loads((DEPLOY / "grafana" / "podfit.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DOCUMENTED = (
    'kubelet_container_requested_resizes_total{resource="cpu",requirement="requests",operation="increase"} > 0',
    'kubelet_container_requested_resizes_total{resource="memory",requirement="limits",operation="remove"}',
    'kubelet_pod_resize_duration_seconds_count{success="true"} > 0',
    'kubelet_pod_infeasible_resizes_total{reason_detail="insufficient_node_allocatable"} > 0',
    'kubelet_pod_infeasible_resizes_total{reason_detail="guaranteed_pod_cpu_manager_static_policy"}',
    'kubelet_pod_infeasible_resizes_total{reason_detail="guaranteed_pod_memory_manager_static_policy"}',
    'kubelet_pod_infeasible_resizes_total{reason_detail="static_pod"}',
    'kubelet_pod_infeasible_resizes_total{reason_detail="swap_limitation"}',
    'kubelet_pod_pending_resizes{reason="deferred"}',
    'kubelet_pod_pending_resizes{reason="infeasible"} > 0',
    "kubelet_pod_in_progress_resizes",
    'kubelet_pod_deferred_resize_accepted_total{retry_trigger="pods_removed"} > 0',
    *(
        f'kubelet_pod_deferred_resize_accepted_total{{retry_trigger="{item}"}}'
        for item in ("periodic_retry", "pod_resized", "pod_updated", "pods_added")
    ),
    'scheduler_pending_pods{queue="unschedulable"} > 0',
    "scheduler_pod_scheduling_attempts_count > 0",
    "scheduler_pod_scheduling_duration_seconds_count > 0",
    'scheduler_unschedulable_pods{plugin="NodeResourcesFit"} > 0',
    "kubelet_pod_worker_duration_seconds_count > 0",
    'kubelet_runtime_operations_errors_total{operation_type="update_container"}',
    'kubelet_runtime_operations_total{operation_type="update_container"} > 0',
    'kubelet_runtime_operations_duration_seconds_count{operation_type="update_container"} > 0',
    'apiserver_request_total{resource="pods",subresource="resize"} > 0',
)
"""Metrics of the resize proposal, with the labels that it gives them."""
WORKED = (
    'sum(kubelet_runtime_operations_total{operation_type="exec_sync"}) > 0',
    "sum(prober_probe_total) > 0",
    'increase(podfit_container_oom_kills_total{pod="hungry"}[10m]) > 0',
    'increase(podfit_container_oom_kills_total{pod="killed"}[10m]) > 0',
    "sum(apiserver_longrunning_requests) > 0",
    "sum(apiserver_watch_events_total) > 0",
    "sum(node_cpu_usage_seconds_total) > 0",
    "sum(vpa_updater_in_place_updated_pods_total) > 0",
)
"""Further events that must have happened."""
SPIN = "while :; do :; done"


def container(command: str, requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> Any:
    resources = {"requests": requests, "limits": limits or {}}
    return {"name": "c", "image": "host", "command": ["sh", "-c", command], "resources": resources, **more}


def pod_spec(*given: Any, **more: Any) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": 0, "containers": [container(*given, **more)]}


SMALL = {"cpu": "40m", "memory": "16Mi"}
PODS = {
    # A throttled container, probed with a command.
    "busy": pod_spec(
        SPIN,
        SMALL,
        {"cpu": "50m", "memory": "32Mi"},
        readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 2},
    ),
    # The OOM killer ends a child of the process, or the process itself.
    "hungry": pod_spec("while :; do tail /dev/zero; sleep 3; done", SMALL, {"memory": "24Mi"}),
    "killed": pod_spec("sleep 25; exec tail /dev/zero", SMALL, {"memory": "24Mi"}),
    # Requests the room that `leaving` holds, and then more than the node has.
    "waiting": pod_spec("sleep 3600", {"cpu": "100m"}),
    "leaving": pod_spec("sleep 3600", {"cpu": "500m"}),
    "greedy": pod_spec("sleep 3600", {"cpu": "50m"}),
    "nowhere": pod_spec("sleep 3600", {"cpu": "100"}),
}
LABELS = {"app": "web"}
WEB = pod_spec(SPIN, {"cpu": "10m", "memory": "16Mi"}, {"cpu": "100m", "memory": "512Mi"})
MOST = {"containerName": "c", "maxAllowed": {"cpu": "100m", "memory": "64Mi"}}
OBJECTS: list[dict[str, Any]] = [
    *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name, spec in PODS.items()),
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": WEB}},
    },
    {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "InPlace"},
            "resourcePolicy": {"containerPolicies": [MOST]},
        },
    },
]
PATIENCE_S = 120.0


@dataclass
class Seen:
    """The responses of Prometheus at the end."""

    targets: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    series: list[dict[str, str]] = field(default_factory=list)
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)


class Watched:
    """A cluster, and the Prometheus that reads it."""

    def __init__(self, up: Running, folder: Path) -> None:
        self.up, self.folder, self.seen = up, folder, Seen()
        self.prometheus = Prometheus(folder, "prometheus.yaml")

    def configure(self) -> None:
        """The shipped files, set up as in docs/metrics.md except for the address."""
        self.folder.mkdir()
        for name in ("prometheus.yaml", "alerts.yaml"):
            shutil.copy(DEPLOY / "prometheus" / name, self.folder)
        server = yaml.safe_load(self.up.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        config = self.folder / "prometheus.yaml"
        config.write_text(config.read_text().replace("127.0.0.1:6443", server.removeprefix("https://")))
        shutil.copy(self.up.folder / "pki" / "ca.crt", self.folder)
        self.up.kubectl("apply", "-f", str(DEPLOY / "prometheus" / "access.yaml"))
        token = self.up.kubectl("-n", "kube-system", "create", "token", "prometheus", "--duration", "8760h")
        (self.folder / "token").write_text(token)

    async def check(self) -> None:
        self.configure()
        self.up.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
        for name in PODS.keys() - {"nowhere"}:
            self.up.kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", "--timeout=60s")
        await self.prometheus.start()
        try:
            await self.until_read()
            self.resize_all()
            await self.until_answered()
            await self.keep()
        finally:
            await self.prometheus.stop()

    async def until_read(self) -> None:
        """Counters are read once before anything is counted."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self.seen.targets = (await self.prometheus.ask("targets"))["activeTargets"]
            if len(self.seen.targets) >= 9 and all(target["health"] == "up" for target in self.seen.targets):
                return
            assert time.monotonic() < end, [(target["scrapeUrl"], target["lastError"]) for target in self.seen.targets]
            await asyncio.sleep(0.5)

    def resize_all(self) -> None:
        """One resize that completes, one that is infeasible, and one that waits until another pod is gone."""
        self.resize("busy", "45m")
        self.resize("greedy", "1000")
        self.resize("waiting", "1500m")
        eventually(lambda: "Deferred" in self.pending("waiting"), "the resize of waiting is Deferred")
        self.up.kubectl("delete", "pod", "leaving", "--wait=false")
        eventually(lambda: not self.pending("waiting"), "the resize of waiting is accepted")

    def resize(self, name: str, cpu: str) -> None:
        patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
        self.up.kubectl("patch", "pod", name, "--subresource=resize", "-p", json.dumps(patch))

    def pending(self, name: str) -> list[str]:
        conditions = self.up.json("get", "pod", name)["status"]["conditions"]
        return [condition.get("reason", "") for condition in conditions if condition["type"] == "PodResizePending"]

    async def until_answered(self) -> None:
        end = time.monotonic() + PATIENCE_S
        missing = [*QUERIES, *DOCUMENTED, *WORKED]
        while missing and time.monotonic() < end:
            for query in list(missing):
                answer = (await self.prometheus.ask("query", query=query))["result"]
                values = [float(entry["value"][1]) for entry in answer]
                self.seen.values[query] = [value for value in values if not math.isnan(value)]
                if self.seen.values[query]:
                    missing.remove(query)
            await asyncio.sleep(1)

    async def keep(self) -> None:
        self.seen.targets = (await self.prometheus.ask("targets"))["activeTargets"]
        self.seen.names = set(await self.prometheus.ask("label/__name__/values"))
        self.seen.series = await self.prometheus.ask("series", **{"match[]": '{job=~"podfit.*"}'})
        groups = (await self.prometheus.ask("rules"))["groups"]
        self.seen.rules = {rule["name"]: rule for group in groups for rule in group["rules"]}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    if KUBECTL is None:
        pytest.skip("kubectl is not installed")
    if not installed():
        pytest.skip("prometheus is not installed")
    if real_runtime() != "process":
        pytest.skip("this machine has no cgroups to run pods in")
    folder = tmp_path_factory.mktemp("watched")
    up = Running(folder / "up", "--node-name", "n1", "--node-cpu", "2", "--stop-pods")
    try:
        watched = Watched(up.start(), folder / "prometheus")
        asyncio.run(watched.check())
        yield watched.seen
    finally:
        up.stop()


def test_every_target_of_the_shipped_configuration_is_read(seen: Seen) -> None:
    found = {
        (target["labels"]["job"], target["labels"].get("component", "")): target["lastError"] for target in seen.targets
    }
    control = {("podfit", part) for part in ("apiserver", "scheduler", "recommender", "updater", "admission")}
    nodes = {(f"podfit-{page}", "") for page in ("nodes", "cadvisor", "probes", "resource")}
    assert found == dict.fromkeys(control | nodes, "")


def test_nodes_are_named_by_their_names(seen: Seen) -> None:
    assert {target["labels"]["instance"] for target in seen.targets if target["labels"]["job"] != "podfit"} == {"n1"}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_dashboard_has_data(seen: Seen, query: str) -> None:
    assert seen.values.get(query)


@pytest.mark.parametrize("query", DOCUMENTED)
def test_a_metric_of_the_resize_proposal_exists(seen: Seen, query: str) -> None:
    assert seen.values.get(query)


@pytest.mark.parametrize("query", WORKED)
def test_what_happened_was_counted(seen: Seen, query: str) -> None:
    assert seen.values.get(query)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_is_evaluated_over_metrics_that_exist(seen: Seen, rule: dict[str, Any]) -> None:
    loaded = seen.rules[rule["alert"]]
    assert (loaded["health"], loaded.get("lastError")) == ("ok", None)
    bare = re.sub(r"\bby \([^)]*\)", "", rule["expr"])
    asked = set(re.findall(r"\b(?:apiserver|container|kubelet|podfit|scheduler|vpa)_[a-z0-9_]+", bare))
    assert asked <= seen.names


def test_labels_have_the_values_that_are_documented(seen: Seen) -> None:
    documented = inventory.label_values()
    surprising = {
        (name, label, series[label])
        for series in seen.series
        for name in (re.sub(r"_(bucket|sum|count)$", "", series["__name__"]), series["__name__"])
        for label, values in documented.get(name, {}).items()
        if label in series and series[label] not in values
    }
    assert not surprising


def test_every_metric_that_is_read_is_documented(seen: Seen) -> None:
    known = inventory.metrics()
    own = {"up", "ALERTS", "ALERTS_FOR_STATE"}
    read = {series["__name__"] for series in seen.series}
    assert not {
        name
        for name in read - own
        if not name.startswith("scrape_")
        and name not in known
        and re.sub(r"_(bucket|sum|count)$", "", name) not in known
    }
