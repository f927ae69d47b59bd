"""Checks the prerequisites of an installation: server version, the user's permissions, metrics, no other autoscaler."""

from __future__ import annotations

import asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client

_REVIEW, _DEPLOYMENT = kind_named("SelfSubjectAccessReview"), kind_named("Deployment")
_OLDEST = (1, 33)
_METRICS = "/apis/metrics.k8s.io/v1beta1"


def too_old(version: Object) -> str:
    """The reason why a server of this version is not supported; "" if it is."""
    try:
        major, minor = int(version["major"]), int(str(version["minor"]).rstrip("+"))
    except (KeyError, ValueError):
        return ""
    if (major, minor) >= _OLDEST:
        return ""
    oldest = ".".join(map(str, _OLDEST))
    return f"the API server is {version.get('gitVersion', '')}; pods are resized in place from Kubernetes {oldest} on"


async def old_server(client: Client) -> str:
    return too_old(await client.raw("GET", "/version"))


async def missing_rights(client: Client, bodies: list[Object]) -> list[str]:
    """The required permissions that the user lacks, in words."""
    wanted = list(dict.fromkeys((verb, *_place(body)) for body in bodies for verb in ("create", "patch")))
    answers = await asyncio.gather(*(_allowed(client, *permission) for permission in wanted))
    return [
        f"{verb} {kind.plural}" + (f" in {namespace}" if namespace else "")
        for (verb, kind, namespace), allowed in zip(wanted, answers, strict=True)
        if not allowed
    ]


def _place(body: Object) -> tuple[Kind, str]:
    kind = kind_named(body["kind"])
    return kind, str(body["metadata"].get("namespace", "")) if kind.namespaced else ""


async def _allowed(client: Client, verb: str, kind: Kind, namespace: str) -> bool:
    attributes = {"verb": verb, "group": kind.group, "resource": kind.plural, "namespace": namespace}
    body = {
        "apiVersion": _REVIEW.api_version,
        "kind": _REVIEW.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(_REVIEW, body)
    return bool((answer.get("status") or {}).get("allowed"))


async def missing_metrics(client: Client) -> str:
    """The reason why there are no metrics to recommend from; "" if there are."""
    try:
        await client.raw("GET", f"{_METRICS}/nodes")
    except ApiError as error:
        if error.code == 404:
            return "nothing serves metrics.k8s.io"
        if error.code == 403:
            return ""
        return f"metrics.k8s.io does not answer: {error.message}"
    return ""


async def other_autoscaler(client: Client, bodies: list[Object]) -> str:
    """Another project's autoscaler with the same names; "" for none."""
    for body in bodies:
        if body["kind"] != "Deployment":
            continue
        meta = body["metadata"]
        found = await client.find(_DEPLOYMENT, meta["namespace"], meta["name"])
        if found is not None and not _ours(found, body):
            image = found["spec"]["template"]["spec"]["containers"][0]["image"]
            return f"deployment {meta['namespace']}/{meta['name']} is another autoscaler's ({image}); remove that first"
    return ""


def _ours(found: Object, wanted: Object) -> bool:
    """Whether a Deployment is podfit's. Upstream's have the same names, but different containers and commands."""
    theirs, ours = (deployment["spec"]["template"]["spec"]["containers"][0] for deployment in (found, wanted))
    return bool(theirs.get("args", [])[:1] == ours["args"][:1])
