"""Checks the cluster of the kubeconfig: connectivity, permissions, features."""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from podfit.api.registry.kinds import NODE, POD, VPA, kind_named
from podfit.api.status import ApiError
from podfit.cli.checks import FAIL, Finding, fail, ok, warn
from podfit.cli.options.connect import connected
from podfit.cli.sizing.recommended import target_pods
from podfit.cli.sizing.usage import node_metrics
from podfit.client import Client
from podfit.client.kubeconfig import Access, BadKubeconfig
from podfit.client.transport import ClientRequest, Unreachable
from podfit.vpa.model.changing.unowned import HELP, may_have_unowned, unowned, warning

SKEW_S = 5.0
EXPIRES_DAYS = 14


def own_kubeconfig(data_dir: Path) -> Path:
    """The administrator's kubeconfig that `podfit up` writes to the data directory."""
    return data_dir / "admin.kubeconfig"


def chosen(kubeconfig: str, data_dir: Path) -> str | None:
    """The kubeconfig to check: the given one, otherwise the data directory's, otherwise ~/.kube/config; None if there
    is none.
    """
    if kubeconfig or os.environ.get("KUBECONFIG", "").strip(":"):
        return kubeconfig
    if own_kubeconfig(data_dir).exists():
        return str(own_kubeconfig(data_dir))
    return "" if (Path.home() / ".kube" / "config").exists() else None


async def cluster_checks(kubeconfig: str, context: str, data_dir: Path) -> AsyncIterator[Finding]:
    """Checks the cluster. A cluster that was not started yet is no failure, unless its kubeconfig was given."""
    file = chosen(kubeconfig, data_dir)
    if file is None:
        yield ok("cluster", f"none yet: `podfit up` starts one and writes {own_kubeconfig(data_dir)}")
        return
    ours = file == str(own_kubeconfig(data_dir)) and file != kubeconfig
    async for finding in all_cluster_checks(file, context):
        if ours and finding.name == "API server" and finding.level == FAIL:
            finding = warn("API server", finding.found, "start it with `podfit up`")
        yield finding


async def all_cluster_checks(kubeconfig: str, context: str) -> AsyncIterator[Finding]:
    try:
        async with connected(kubeconfig, context, timeout_s=5.0) as session:
            yield ok("kubeconfig", f"server {session.access.server}")
            if (problem := certificate(session.access)) is not None:
                yield problem
            async for finding in _query(session.client):
                yield finding
    except BadKubeconfig as error:
        yield fail("kubeconfig", str(error), "choose one with --kubeconfig or KUBECONFIG; `podfit up` writes one")
    except ValueError:
        yield fail("kubeconfig", "its certificates cannot be read", "get a new kubeconfig")


def certificate(access: Access, now: float | None = None) -> Finding | None:
    """The expiry time of the client's certificate; None if it has none."""
    if not access.cert:
        return None
    from cryptography import x509

    end = x509.load_pem_x509_certificate(access.cert).not_valid_after_utc.timestamp()
    days = (end - (time.time() if now is None else now)) / 86400
    if days < 0:
        return fail("certificate", "yours has expired", "get a new kubeconfig (podfit up writes one at every start)")
    if days < EXPIRES_DAYS:
        return warn("certificate", f"yours expires in {days:.0f} days", "get a new kubeconfig soon")
    return ok("certificate", f"valid for {days:.0f} days")


async def _query(client: Client) -> AsyncIterator[Finding]:
    try:
        reply = await client.transport.request(ClientRequest("GET", "/version"))
    except Unreachable as error:
        yield fail("API server", str(error), "is `podfit up` running? is the address right?")
        return
    try:
        version: dict[str, Any] = await client.raw("GET", "/version")
        yield server_version(version)
        yield skew(reply.headers.get("Date"))
        yield await _identity(client)
        yield await _may_resize(client)
        yield await _nodes(client)
        yield await _metrics(client)
        yield await _autoscalers(client)
    except (ApiError, Unreachable) as error:
        yield fail("API server", f"refuses: {error}", "check the user of the kubeconfig and its rights")


def server_version(version: dict[str, Any]) -> Finding:
    numbers = [int(found[0]) if (found := re.match(r"\d+", str(version.get(key)))) else 0 for key in ("major", "minor")]
    words = str(version.get("gitVersion") or "version unknown")
    if numbers < [1, 33]:
        return fail("API server", f"{words}: no resize subresource", "resizing in place needs Kubernetes 1.33 or newer")
    return ok("API server", words)


def skew(date: str | None, now: float | None = None) -> Finding:
    if not date:
        return ok("clock", "not compared: the server sends no Date")
    off = (time.time() if now is None else now) - parsedate_to_datetime(date).timestamp()
    if abs(off) > SKEW_S:
        return warn(
            "clock", f"{off:+.0f} s from the server's", "synchronise clocks (chrony): leases and tokens need it"
        )
    return ok("clock", "agrees with the server's")


async def _identity(client: Client) -> Finding:
    review = kind_named("SelfSubjectReview")
    body = {"apiVersion": review.api_version, "kind": review.kind}
    answer = await client.create(review, body)
    return ok("user", str(((answer.get("status") or {}).get("userInfo") or {}).get("username")))


async def _may_resize(client: Client) -> Finding:
    review = kind_named("SelfSubjectAccessReview")
    attributes = {"verb": "patch", "resource": "pods", "subresource": "resize"}
    body = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(review, body)
    if (answer.get("status") or {}).get("allowed"):
        return ok("may resize", "yes, pods in all namespaces")
    return warn("may resize", "not pods in all namespaces", "ask for a role with patch on pods/resize")


async def _nodes(client: Client) -> Finding:
    nodes = (await client.list(NODE))["items"]
    ready = [node for node in nodes if _ready(node)]
    if not nodes:
        return fail("nodes", "the cluster has no nodes", "podfit up runs one; podfit agent joins more")
    if len(ready) < len(nodes):
        away = ", ".join(node["metadata"]["name"] for node in nodes if not _ready(node))
        return warn("nodes", f"{len(ready)} of {len(nodes)} ready", f"start the agent again on: {away}")
    waiting = [pod for pod in (await client.list(POD))["items"] if _waits(pod)]
    if waiting:
        first = waiting[0]["metadata"]
        advice = f"podfit explain pod {first['name']} -n {first['namespace']}"
        return warn("nodes", f"{len(ready)} ready, {len(waiting)} pods wait for one", advice)
    return ok("nodes", f"{len(ready)} of {len(nodes)} ready")


def _ready(node: dict[str, Any]) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _waits(pod: dict[str, Any]) -> bool:
    return not pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") == "Pending"


async def _metrics(client: Client) -> Finding:
    reasons: list[str] = []
    if await node_metrics(client, reasons.append) is None:
        return warn("metrics", reasons[0], "`podfit up` serves it; elsewhere install metrics-server")
    return ok("metrics", "metrics.k8s.io is served")


async def _autoscalers(client: Client) -> Finding:
    try:
        found = (await client.list(VPA))["items"]
    except ApiError as error:
        if error.code != 404:
            raise
        return warn("autoscaler", "the cluster has no VerticalPodAutoscaler", "kubectl apply -k deploy/vpa")
    for vpa in filter(may_have_unowned, found):
        if names := unowned(await target_pods(client, vpa)):
            who = f"vpa/{vpa['metadata']['name']} in {vpa['metadata']['namespace']}"
            return warn("autoscaler", f"{who}: {warning(names).removesuffix(f'; {HELP}')}", HELP)
    return ok("autoscaler", f"VerticalPodAutoscaler is served, {len(found)} there")
