"""The webhook's configurations on the API server: one mutates pods and autoscalers, the other validates autoscalers.

A correct configuration is left unchanged. An incorrect one is replaced, never deleted first, so that no pod is missed.
"""

from __future__ import annotations

import base64
import logging
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.rest import JSON_PATCH
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.serve.probe import MUTATING, NAME

log = logging.getLogger(__name__)

VALIDATING = kind_named("ValidatingWebhookConfiguration")
GROUP = "autoscaling.k8s.io"
HOOK, CHECK_HOOK = "vpa.k8s.io", "validate.vpa.podfit.dev"
CHECK_PATH, CONVERT_PATH = "/validate", "/convert"
DEFINITION, DEFINITION_NAME = kind_named("CustomResourceDefinition"), f"verticalpodautoscalers.{GROUP}"


def registrations(config: AdmissionConfig, ca: bytes, port: int) -> list[tuple[Kind, Object]]:
    autoscalers = {
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["verticalpodautoscalers"],
        "scope": "*",
    }
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
    if not config.validate_vpa_objects:
        return [(MUTATING, _entry(MUTATING, config, _hook(config, ca, port, HOOK, "", [pods])))]
    return [
        (MUTATING, _entry(MUTATING, config, _hook(config, ca, port, HOOK, "", [pods, autoscalers]))),
        (VALIDATING, _entry(VALIDATING, config, _hook(config, ca, port, CHECK_HOOK, CHECK_PATH, [autoscalers]))),
    ]


def _entry(kind: Kind, config: AdmissionConfig, hook: Object) -> Object:
    meta: Object = {"name": NAME}
    if config.labels:
        meta["labels"] = config.labels
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "webhooks": [hook]}


def _hook(config: AdmissionConfig, ca: bytes, port: int, name: str, path: str, rules: list[Object]) -> Object:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**_where(config, port, path), "caBundle": base64.b64encode(ca).decode()},
        "rules": rules,
        "failurePolicy": "Fail" if config.webhook_failure_policy_fail else "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": config.webhook_timeout_seconds,
        **_namespaces(config),
    }


def url_of(config: AdmissionConfig, port: int) -> str:
    host = f"[{config.webhook_address}]" if ":" in config.webhook_address else config.webhook_address
    return f"https://{host}:{config.webhook_port or port}"


def _where(config: AdmissionConfig, port: int, path: str) -> Object:
    if config.register_by_url:
        return {"url": f"{url_of(config, port)}{path}"}
    service: Object = {"namespace": config.namespace, "name": config.webhook_service, "port": 443}
    return {"service": {**service, **({"path": path} if path else {})}}


def _namespaces(config: AdmissionConfig) -> Object:
    key = "kubernetes.io/metadata.name"
    if config.ignored_vpa_object_namespaces:
        rule = {"key": key, "operator": "NotIn", "values": list(config.ignored_vpa_object_namespaces)}
    elif config.vpa_object_namespace:
        rule = {"key": key, "operator": "In", "values": [config.vpa_object_namespace]}
    else:
        return {}
    return {"namespaceSelector": {"matchExpressions": [rule]}}


async def register(client: Client, config: AdmissionConfig, ca: bytes, port: int) -> int:
    """Creates or updates both configurations; returns the number of writes. Raises ApiError, Unreachable."""
    written = 0
    for kind, wanted in registrations(config, ca, port):
        found = await client.find(kind, "", NAME)
        if found is None:
            try:
                await client.create(kind, wanted)
            except ApiError as error:
                if error.code != 409:
                    raise
            written += 1
        elif not _is_current(found, wanted):
            meta = {**found["metadata"], "labels": wanted["metadata"].get("labels") or {}}
            await client.update(kind, {**found, "metadata": meta, "webhooks": wanted["webhooks"]})
            written += 1
    return written


async def register_conversion(client: Client, config: AdmissionConfig, ca: bytes, port: int) -> bool:
    """Registers this webhook for the conversion of autoscalers, if the CustomResourceDefinition uses a webhook; returns
    whether it was written.

    Without permission the definition stays as in its manifest: only clients of v1alpha1 need the conversion.
    """
    try:
        found = await client.find(DEFINITION, "", DEFINITION_NAME)
        conversion = ((found or {}).get("spec") or {}).get("conversion") or {}
        if conversion.get("strategy") != "Webhook":
            return False
        where = {**_where(config, port, CONVERT_PATH), "caBundle": base64.b64encode(ca).decode()}
        wanted = {"clientConfig": where, "conversionReviewVersions": ["v1"]}
        if _covers(conversion.get("webhook"), wanted):
            return False
        patch = [{"op": "add", "path": "/spec/conversion/webhook", "value": wanted}]
        await client.patch(DEFINITION, "", DEFINITION_NAME, patch, content_type=JSON_PATCH)
        return True
    except ApiError as error:
        log.warning("the conversion of autoscaler objects is not registered: %s", error)
        return False


def _is_current(found: Object, wanted: Object) -> bool:
    """Whether all wanted fields are set. Fields that the server defaulted are ignored."""
    hooks = found.get("webhooks") or []
    same = len(hooks) == len(wanted["webhooks"]) and all(map(_covers, hooks, wanted["webhooks"]))
    return same and (found["metadata"].get("labels") or {}) == (wanted["metadata"].get("labels") or {})


def _covers(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_covers(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_covers, found, wanted))
    return bool(found == wanted)
