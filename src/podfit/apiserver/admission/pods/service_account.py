"""ServiceAccount: sets the account, its pull secrets and a token volume on every new pod.

Mirror pods are not changed: their spec belongs to the node that creates them.
"""

from __future__ import annotations

import secrets
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.pod_references import secret_names
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.admission.base import (
    CREATE,
    UPDATE,
    Attributes,
    Cluster,
    Plugin,
    annotations_of,
    meta_of,
    spec_of,
)
from podfit.kit.clock import Clock, RealClock

SERVICE_ACCOUNT = kind_named("ServiceAccount")
MIRROR = "kubernetes.io/config.mirror"
ENFORCE_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
VOLUME_PREFIX = "kube-api-access-"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
"""One hour and seven seconds: marks tokens that may be extended for clients that do not reload them."""
_ATTEMPTS = 10
_PAUSE_S = 0.1
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class ServiceAccount(Plugin):
    name = "ServiceAccount"

    def __init__(self, cluster: Cluster, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or RealClock()

    def handles(self, attrs: Attributes) -> bool:
        if attrs.resource != ("", "pods"):
            return False
        if attrs.subresource == "ephemeralcontainers":
            return attrs.operation == UPDATE
        return not attrs.subresource and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        if MIRROR in annotations_of(attrs.object) or attrs.subresource:
            return
        spec = spec_of(attrs.object)
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attrs, name)
        if _wants_token(spec, account):
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(ref) for ref in account["imagePullSecrets"]]

    async def validate(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        spec = spec_of(attrs.object)
        if MIRROR in annotations_of(attrs.object) and not attrs.subresource:
            _check_mirror(attrs, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            raise attrs.forbid(f"no service account specified for pod {attrs.namespace}/{attrs.display_name}")
        account = await self._account(attrs, name)
        if annotations_of(account).get(ENFORCE_MOUNTABLE) in ("1", "t", "T", "true", "TRUE", "True"):
            _Allowance(attrs, account).check(spec)

    async def _account(self, attrs: Attributes, name: str) -> Object:
        # A controller creates the `default` account of a new namespace; its first pods wait a second for it.
        for attempt in range(_ATTEMPTS if name == "default" else 1):
            if attempt:
                await self._clock.sleep(_PAUSE_S)
            account = self._cluster.get(SERVICE_ACCOUNT, attrs.namespace, name)
            if account is not None:
                return account
        raise attrs.forbid(
            f'error looking up service account {attrs.namespace}/{name}: serviceaccount "{name}" not found'
        )


def _wants_token(spec: dict[str, Any], account: Object) -> bool:
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = account.get("automountServiceAccountToken")
    return wanted is not False


def _mount_token(spec: dict[str, Any]) -> None:
    volumes = spec.get("volumes") or []
    existing = next((v["name"] for v in volumes if str(v.get("name", "")).startswith(VOLUME_PREFIX)), None)
    volume_name = existing or VOLUME_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(5))
    needed = False
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            mounts = container.get("volumeMounts") or []
            if any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
                continue
            mount = {"name": volume_name, "readOnly": True, "mountPath": MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            needed = True
    if needed and existing is None:
        spec["volumes"] = [*volumes, _token_volume(volume_name)]


def _token_volume(name: str) -> Object:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 420,
        },
    }


def _check_mirror(attrs: Attributes, spec: dict[str, Any]) -> None:
    assert attrs.object is not None
    if spec.get("serviceAccountName"):
        raise attrs.forbid("a mirror pod may not reference service accounts")
    if secret_names(attrs.object):
        raise attrs.forbid("a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any(source.get("serviceAccountToken") for source in sources):
            raise attrs.forbid("a mirror pod may not use ServiceAccountToken volume projections")


class _Allowance:
    """The secrets that a pod may use: an account may restrict its pods to those that it lists."""

    def __init__(self, attrs: Attributes, account: Object) -> None:
        self._attrs = attrs
        self._because = f"is not allowed because service account {meta_of(account).get('name')} does not reference that"
        self._mountable = {ref.get("name") for ref in account.get("secrets") or ()}
        self._pullable = {ref.get("name") for ref in account.get("imagePullSecrets") or ()}

    def check(self, spec: dict[str, Any]) -> None:
        if self._attrs.subresource:
            self._check_containers(spec, "ephemeral container", "ephemeralContainers")
            return
        for volume in spec.get("volumes") or ():
            self._mount((volume.get("secret") or {}).get("secretName"), "volume with secret.secretName=")
            for source in (volume.get("projected") or {}).get("sources") or ():
                # Kubernetes allows these.
                self._mount((source.get("secret") or {}).get("name"), "volume with projected secret.name=")
        self._check_containers(spec, "init container", "initContainers")
        self._check_containers(spec, "container", "containers")
        for index, ref in enumerate(spec.get("imagePullSecrets") or ()):
            if (name := ref.get("name")) not in self._pullable:
                raise self._attrs.forbid(f'imagePullSecrets[{index}].name="{name}" {self._because} imagePullSecret')

    def _check_containers(self, spec: dict[str, Any], what: str, field: str) -> None:
        for container in spec.get(field) or ():
            here = f"{what} {container.get('name')} with"
            for variable in container.get("env") or ():
                name = ((variable.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name")
                self._mount(name, f"{here} envVar {variable.get('name')} referencing secret.secretName=")
            for source in container.get("envFrom") or ():
                self._mount(
                    (source.get("secretRef") or {}).get("name"), f"{here} envFrom referencing secret.secretName="
                )

    def _mount(self, name: str | None, what: str) -> None:
        if name and name not in self._mountable:
            raise self._attrs.forbid(f'{what}"{name}" {self._because} secret')
