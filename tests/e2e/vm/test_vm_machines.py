"""Pods with `spec.virtualMachine`: which fields reach the guest, and how the status reports its power state."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.vms import GUEST, needs_vms

from podfit.vm.guest.shares import DAEMONS

needs_virtiofs = pytest.mark.skipif(
    not any(Path(daemon).exists() for daemon in DAEMONS), reason="virtiofsd is not installed"
)
pytestmark = [needs_vms, pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")]
SIZE = {"cpu": "1", "memory": "256Mi"}


def machine_pod(name: str, volumes: dict[str, Any] | None = None, **fields: Any) -> str:
    """`volumes`: their sources, each mounted below /volumes under its name."""
    mounts = [{"name": item, "mountPath": f"/volumes/{item}"} for item in volumes or ()]
    machine = {"name": "guest", "image": GUEST, "resources": {"requests": SIZE, "limits": SIZE}, "volumeMounts": mounts}
    spec: dict[str, Any] = {"virtualMachine": {**machine, **fields}, "terminationGracePeriodSeconds": 20}
    spec["volumes"] = [{"name": item, **source} for item, source in (volumes or {}).items()]
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def status(up: Running, name: str) -> Any:
    return up.json("get", "pod", name)["status"]


def powered(up: Running, name: str, state: str, power: str, ready: bool) -> bool:
    now = status(up, name)
    machine = now.get("virtualMachineStatus") or {}
    conditions = {condition["type"]: condition["status"] for condition in now.get("conditions") or ()}
    return (machine.get("state"), machine.get("powerState"), bool(machine.get("ready"))) == (state, power, ready) and (
        conditions.get("VirtualMachineReady") == str(ready)
    )


def turn(up: Running, name: str, power: str) -> None:
    patch = {"spec": {"virtualMachine": {"powerSpec": power}}}
    up.kubectl("patch", "pod", name, "--type", "merge", "--patch", json.dumps(patch))


def said(up: Running, name: str, *command: str) -> str | None:
    """The output of a command in the guest; None while the guest cannot run it."""
    done = up.try_kubectl("exec", name, "--", *command)
    return done.stdout if done.returncode == 0 else None


def test_a_virtual_machine_gets_its_keys_and_data_and_follows_its_power_spec(up: Running) -> None:
    secret = {"data": {"ssh-publickey": base64.b64encode(b"ssh-rsa BBBB pair\n").decode()}}
    about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pair"}}
    up.kubectl("apply", "-f", "-", stdin=json.dumps({**about, **secret}))
    data = base64.b64encode(b"#!/bin/sh\necho told >/run/told\n").decode()
    body = machine_pod("keyed", publicKey="ssh-ed25519 AAAA me", keyPairName="pair", userData=data)
    up.kubectl("apply", "-f", "-", stdin=body)
    eventually(lambda: powered(up, "keyed", "active", "running", True), "the VM runs", 120)
    eventually(lambda: said(up, "keyed", "cat", "/run/told") == "told\n", "the user data has run", 120)
    keys = up.kubectl("exec", "keyed", "--", "sh", "-c", "cat ~root/.ssh/authorized_keys")
    assert keys == "ssh-ed25519 AAAA me\nssh-rsa BBBB pair\n"
    turn(up, "keyed", "Paused")
    eventually(lambda: powered(up, "keyed", "paused", "paused", False), "the VM is paused", 120)
    turn(up, "keyed", "Suspended")
    eventually(lambda: powered(up, "keyed", "suspended", "suspended", False), "the VM is suspended", 120)
    turn(up, "keyed", "Running")
    eventually(lambda: powered(up, "keyed", "active", "running", True), "the VM runs again", 120)
    eventually(lambda: said(up, "keyed", "cat", "/run/told") == "told\n", "the guest goes on where it was", 120)
    turn(up, "keyed", "Shutdown")
    eventually(lambda: powered(up, "keyed", "stopped", "shutdown", False), "the VM is off", 120)
    turn(up, "keyed", "Running")
    eventually(lambda: powered(up, "keyed", "active", "running", True), "the VM boots", 120)
    now = status(up, "keyed")
    assert now["containerStatuses"][0]["restartCount"] == 0
    assert now["phase"] == "Running"
    up.kubectl("delete", "pod", "keyed", "--grace-period=1")


@needs_virtiofs
def test_a_guest_reads_the_volumes_of_its_pod_and_ends_it_if_it_terminates(up: Running) -> None:
    up.kubectl("create", "configmap", "settings", "--from-literal=mode=quick")
    volumes = {"settings": {"configMap": {"name": "settings"}}, "scratch": {"emptyDir": {}}}
    body = machine_pod("brief", volumes, publicKey="ssh-ed25519 AAAA me", shutdownBehavior="terminate")
    up.kubectl("apply", "-f", "-", stdin=body)
    read = ("brief", "cat", "/volumes/settings/mode")
    eventually(lambda: said(up, *read) == "quick", "the guest reads the volume of its pod", 120)
    assert said(up, "brief", "sh", "-c", "echo x >/volumes/scratch/x && cat /volumes/scratch/x") == "x\n"
    up.try_kubectl("exec", "brief", "--", "poweroff", "-f")
    eventually(lambda: status(up, "brief")["phase"] == "Succeeded", "the pod has ended", 120)
    machine = status(up, "brief")["virtualMachineStatus"]
    assert (machine["state"], machine["powerState"]) == ("stopped", "shutdown")
    assert status(up, "brief")["containerStatuses"][0]["restartCount"] == 0
    up.kubectl("delete", "pod", "brief", "--grace-period=1")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"keyPairName": "nowhere"}, 'secret "nowhere" not found'),
        ({"publicKey": "ssh-rsa A", "trustedImageCertificate": ["one"]}, "cannot be verified"),
    ],
)
def test_a_virtual_machine_with_unsupported_settings_does_not_start_and_the_reason_is_reported(
    up: Running, fields: dict[str, Any], words: str
) -> None:
    up.kubectl("apply", "-f", "-", stdin=machine_pod("lacking", **fields))

    def explained() -> bool:
        events = up.json("get", "events", "--field-selector", "involvedObject.name=lacking")["items"]
        return any(words in event["message"] for event in events)

    eventually(explained, f"an Event says {words}", 60)
    assert status(up, "lacking")["phase"] == "Pending"
    up.kubectl("delete", "pod", "lacking", "--grace-period=1")
