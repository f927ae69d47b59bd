"""Converts `spec.virtualMachine` to annotations for the VM runtime: user data and keys.

Not used for a pod that defines its virtual machine as a container: that pod has the annotations itself.
"""

from __future__ import annotations

import base64
import binascii

from podfit.agent.furnish.volumes.objects import ReferencedObjects
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.pods.machines import BOOT_DEVICE, SSH_KEYS, TOKEN, USER_DATA, USER_DATA_BASE64
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable

_UNVERIFIED = "trustedImageCertificate is set, but images of virtual machines cannot be verified on this node"


class Machines:
    def __init__(self, objects: ReferencedObjects) -> None:
        self._objects = objects

    async def annotations(self, pod: Object) -> dict[str, str]:
        """The annotations for the pod's virtual machine. Raises RuntimeFailure for missing or unsupported settings."""
        spec = pod["spec"]
        machine = spec.get("virtualMachine")
        # Shared only on request: a VM with such a volume can be neither migrated nor suspended.
        token = {TOKEN: "true"} if spec.get("runtimeClassName") and spec.get("automountServiceAccountToken") else {}
        if not machine:
            return token
        if machine.get("trustedImageCertificate"):
            raise RuntimeFailure(_UNVERIFIED)
        keys = [machine["publicKey"]] if machine.get("publicKey") else []
        if machine.get("keyPairName"):
            keys += await self._key_pair(pod["metadata"]["namespace"], machine["keyPairName"])
        found = {
            USER_DATA_BASE64: machine.get("userData"),
            USER_DATA: machine.get("cloudInitUserDataScript"),
            SSH_KEYS: "\n".join(keys),
            BOOT_DEVICE: _boot_device(machine),
        }
        return {**token, **{name: text for name, text in found.items() if text}}

    async def _key_pair(self, namespace: str, name: str) -> list[str]:
        """The public keys in the Secret of this name: all its values that are public keys."""
        try:
            secret = await self._objects.secret(namespace, name)
        except (ApiError, Unreachable) as error:
            raise RuntimeFailure(f"key pair {name}: {error}") from error
        if secret is None:
            raise RuntimeFailure(f'key pair {name}: secret "{name}" not found in namespace {namespace}')
        values = [_decoded(text) for text in (secret.get("data") or {}).values()]
        keys = [line for value in values for line in value.splitlines() if line.startswith(("ssh-", "ecdsa-", "sk-"))]
        if not keys:
            raise RuntimeFailure(f'key pair {name}: secret "{name}" has no public key')
        return keys


def _boot_device(machine: Object) -> str:
    name, devices = machine.get("bootVolume"), machine.get("volumeDevices") or ()
    return next((str(device["devicePath"]) for device in devices if name and device["name"] == name), "")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
