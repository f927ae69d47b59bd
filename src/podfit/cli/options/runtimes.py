"""The options for the runtimes of a node."""

from __future__ import annotations

from typing import Annotated

import typer

RuntimeName = Annotated[
    str,
    typer.Option(
        "--runtime", help="The container runtime: process (podfit's own), cri (containerd, CRI-O) or fake (in memory)."
    ),
]
RuntimeEndpoint = Annotated[
    str,
    typer.Option(
        "--container-runtime-endpoint",
        metavar="URL",
        help="The socket of the container runtime, for --runtime cri.",
    ),
]
RuntimeEndpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--runtime-endpoint",
        metavar="NAME=URL",
        help="A further CRI runtime, for pods whose RuntimeClass has the handler NAME; may be repeated.",
    ),
]
RunVms = Annotated[
    bool,
    typer.Option("--vm", help="Also run `podfit vm-runtime`: pods with the RuntimeClass vm become VMs."),
]
VmAccel = Annotated[str, typer.Option("--vm-accel", help="With --vm: the accelerator of VMs, tcg (emulation) or kvm.")]
CgroupRoot = Annotated[
    str,
    typer.Option(
        "--cgroup-root",
        metavar="PATH",
        help="With --runtime cri: the parent cgroup of kubepods; default: one named after the data directory.",
    ),
]


def endpoints(given: list[str] | None) -> dict[str, str]:
    from podfit.compose import BadSetting

    found: dict[str, str] = {}
    for text in given or ():
        name, _, url = text.partition("=")
        if not name or not url:
            raise BadSetting(f"--runtime-endpoint {text!r}: must be NAME=URL, as vm=unix:///run/podfit-vm.sock")
        if name in found:
            raise BadSetting(f"--runtime-endpoint {text!r}: {name} was given an endpoint before")
        found[name] = url
    return found
