"""Reads and writes the file `cpu_manager_state` in the kubelet's format: either program can read the other's file.

{"policyName":"static","defaultCpuSet":"0-1","entries":{"<pod uid>":{"<container>":"2-3"}},"checksum":1353318690}

The checksum is FNV-1a over the fields as Go prints them for hashing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from podfit.agent.cpus.decide.sets import parse, text
from podfit.agent.cpus.decide.state import CpuState
from podfit.kit.files.atomicfile import write_atomic

FILE = "cpu_manager_state"


class UnusableState(Exception):
    """The state on disk does not match the agent's configuration, or cannot be read."""


def save(path: Path, state: CpuState, durable: bool = True) -> None:
    write_atomic(path, encode(state), durable=durable)


def load(path: Path, policy: str) -> CpuState | None:
    """Reads the state; None if there is no file."""
    try:
        return decode(path.read_bytes(), policy)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise unusable(path, str(error)) from error


def unusable(path: Path, why: str) -> UnusableState:
    return UnusableState(
        f"could not restore state from checkpoint: {why}, please drain this node and delete the CPU manager "
        f'checkpoint file "{path}" before restarting the agent'
    )


def encode(state: CpuState) -> bytes:
    content: dict[str, Any] = {"policyName": state.policy, "defaultCpuSet": text(state.shared)}
    entries = {
        uid: {name: text(cpus) for name, cpus in sorted(containers.items())}
        for uid, containers in sorted(state.assigned.items())
    }
    if entries:
        content["entries"] = entries
    content["checksum"] = _checksum(state.policy, content["defaultCpuSet"], entries)
    return msgspec.json.encode(content)


def decode(data: bytes, policy: str) -> CpuState:
    content = msgspec.json.decode(data, type=dict[str, Any])
    shared, entries = content["defaultCpuSet"], content.get("entries") or {}
    if content["checksum"] != _checksum(content["policyName"], shared, entries):
        raise ValueError("checkpoint is corrupted")
    if content["policyName"] != policy:
        raise ValueError(f'configured policy "{policy}" differs from state checkpoint policy "{content["policyName"]}"')
    return CpuState(
        policy,
        parse(shared),
        {uid: {name: parse(cpus) for name, cpus in containers.items()} for uid, containers in entries.items()},
    )


def _checksum(policy: str, shared: str, entries: Mapping[str, Any]) -> int:
    printed = (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} "
        f"Entries:(map[string]map[string]string){_printed(entries)} Checksum:(checksum.Checksum)0}}"
    )
    value = 0x811C9DC5
    for byte in printed.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _printed(entries: Mapping[str, Any]) -> str:
    inner = (
        f"{key}:{_printed(value) if isinstance(value, Mapping) else value}" for key, value in sorted(entries.items())
    )
    return f"map[{' '.join(inner)}]"
