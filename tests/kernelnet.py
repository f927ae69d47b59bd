"""What a node's network leaves in the kernel, counted; and network namespaces in which tests put whole nodes."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podfit.podnet.support import missing_for_bridge


def skip_without_networks() -> None:
    if missing := missing_for_bridge():
        pytest.skip("; ".join(missing))


def run(*words: str, within: tuple[str, ...] = ()) -> str:
    return subprocess.run([*within, *words], capture_output=True, text=True, check=True, timeout=30).stdout


def links(within: tuple[str, ...] = ()) -> set[str]:
    return {link["ifname"] for link in json.loads(run("ip", "-j", "link", within=within))}


def leftovers(mark: str, within: tuple[str, ...] = ()) -> list[str]:
    """Links, tables, namespaces and mounts that carry the mark of a node."""
    found = [f"link {name}" for name in links(within) if mark in name]
    found += [f"rule {line}" for line in run("nft", "list", "tables", within=within).splitlines() if mark in line]
    if (folder := Path("/run/netns")).is_dir():
        found += [f"namespace {file.name}" for file in folder.iterdir() if mark in file.name]
    found += [f"mount {line}" for line in Path("/proc/self/mounts").read_text().splitlines() if mark in line]
    return found


@contextmanager
def network_namespace() -> Iterator[tuple[str, ...]]:
    """Words that run a command in a new namespace with nothing but loopback: no packet leaves it."""
    name = f"pftest-{uuid.uuid4().hex[:8]}"
    run("ip", "netns", "add", name)
    try:
        # Unlike `ip netns exec`, nsenter keeps the mounts of cgroups.
        within = ("nsenter", f"--net=/run/netns/{name}")
        run("ip", "link", "set", "lo", "up", within=within)
        # A namespace begins with what the machine's own has at that moment.
        run("sysctl", "-qw", "net.ipv4.ip_forward=0", within=within)
        yield within
    finally:
        run("ip", "netns", "delete", name)
