"""Upstream's own end-to-end specs for resizing pods, on podfit: all pass except those that the machine forbids.

They run on three nodes: podfit's process runtime, its CRI runtime, and podfit's agent in a cluster whose API server,
controllers and scheduler are Kubernetes' own. They need `e2e.test` and `ginkgo` of Kubernetes, and for the last node
those programs, in the folder that `$PODFIT_KUBERNETES` names; no package contains them. Their images are made from
busybox. A run takes about half an hour for each node.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from podfit.agent.runtimes.process.support import check_support
from podfit.api.registry.kinds import NODE as NODES
from podfit.kit.process.privileges import CAP_SYS_RESOURCE, has_capability
from tests.support.cluster.expect import becomes
from tests.support.containers.containerd import IMAGES, Containerd, missing
from tests.support.containers.ociimages import ImageSource, layout, write_archive
from tests.swap.programs import NODE, PROGRAMS, Programs, lacking
from tests.swap.starting import start
from tests.swap.story import PATIENCE_S, holds

from .conftest import Running

LACKING = [name for name in ("e2e.test", "ginkgo") if not (PROGRAMS / name).exists()]
NOT_LEVEL, LEVEL = "sig-node\\] (\\[Serial\\] )?Pod InPlace Resize", "PLR Pod InPlace Resize"
RESTARTS = "resize policy.* (cpu|mem) restart"
GROUPS = {
    "guaranteed": (f"{NOT_LEVEL}.*guaranteed", "", 27),
    "burstable": (f"{NOT_LEVEL}.*burstable", "", 30),
    "others": (NOT_LEVEL, "guaranteed|burstable", 35),
    "pod-level guaranteed, restarted for both": (f"{LEVEL}.*PLR guaranteed qos.* cpu & mem restart", "", 20),
    "pod-level guaranteed, restarted for one": (f"{LEVEL}.*PLR guaranteed qos.* policy (cpu|mem) restart", "", 20),
    "pod-level guaranteed": (f"{LEVEL}.*PLR guaranteed qos", RESTARTS, 20),
    "pod-level burstable": (f"{LEVEL}.*PLR pod-level burstable.*{RESTARTS}", "", 42),
    "pod-level others": (LEVEL, f"PLR guaranteed qos|PLR pod-level burstable.*{RESTARTS}", 25),
}
"""The specs to run and to skip, with their number in Kubernetes 1.36, because a focus that matches no spec would also
succeed. Together they are all specs; no group takes so long that the test would seem to hang.
"""
SIZE = ("--node-cpu", "12")
PARALLEL = 6
FORBIDDEN = "oom_score_adj value 0 not equal to expected -997"
"""Restarted containers of Guaranteed pods must have a score that only a process with CAP_SYS_RESOURCE may set."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.root,
    pytest.mark.skipif(bool(LACKING), reason=f"$PODFIT_KUBERNETES has no {' and no '.join(LACKING)}"),
]


@dataclass(frozen=True)
class Outcome:
    passed: list[str]
    failed: dict[str, str]
    """Failure messages by the names of specs."""


def needed_images() -> list[ImageSource]:
    done = subprocess.run(
        [PROGRAMS / "e2e.test", "--list-images"], capture_output=True, text=True, timeout=120, check=True
    )
    return [*IMAGES, *(ImageSource(name) for name in done.stdout.split() if "/busybox:" in name)]


@pytest.fixture(scope="module", params=["process", "cri", "real"])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a podfit cluster on the runtime, or of Kubernetes' own control plane with podfit's agent as its
    node.
    """
    folder = tmp_path_factory.mktemp("specs")
    with real_cluster(folder) if request.param == "real" else own_cluster(folder, request.param) as config:
        yield config


@contextmanager
def own_cluster(folder: Path, runtime: str) -> Iterator[Path]:
    if lacking := [*check_support(), *([missing()] if runtime == "cri" and missing() else [])]:
        pytest.skip("; ".join(lacking))
    containerd, chosen, images = None, ["--runtime", runtime], needed_images()
    if runtime == "cri":
        containerd = Containerd(folder / "containerd", images=images)
        containerd.start()
        chosen += ["--container-runtime-endpoint", containerd.endpoint]
    # The spec for the scheduler expects a resize beyond the node to be rejected.
    admission = ("--enable-admission-plugins", "PodResizeValidator")
    running = Running(folder / "data", *chosen, *admission, *SIZE, "--stop-pods")
    try:
        running.start()
        if containerd is None:
            write_archive(folder / "images.tar", layout(images, Path(str(shutil.which("busybox")))))
            load = ("image", "load", "--data-dir", str(running.folder), str(folder / "images.tar"))
            subprocess.run([sys.executable, "-m", "podfit.cli.main", *load], timeout=120, check=True)
        yield running.kubeconfig
    finally:
        running.stop()
        if containerd is not None:
            containerd.stop()


@contextmanager
def real_cluster(folder: Path) -> Iterator[Path]:
    parts = {"apiserver": True, "controllers": True, "scheduler": True, "node": False}
    if absent := [*lacking([part for part, real in parts.items() if real]), *filter(None, [missing()])]:
        pytest.skip(f"there is no {', no '.join(absent)}")
    containerd = Containerd(folder / "containerd", images=needed_images())
    containerd.start()
    programs = Programs(folder, containerd, *SIZE)
    try:
        asyncio.run(_start(programs, parts))
        yield programs.config("admin")
    finally:
        programs.stop()
        containerd.stop()


async def _start(programs: Programs, parts: dict[str, bool]) -> None:
    client = await start(programs, parts)
    try:
        await becomes(client, NODES, "", NODE, holds("Ready"), PATIENCE_S)
    finally:
        await client.close()


def run_specs(kubeconfig: Path, focus: str, skip: str, folder: Path) -> Outcome:
    chosen = [f"--focus={focus}", *([f"--skip={skip}"] if skip else [])]
    ginkgo: list[str | Path] = [PROGRAMS / "ginkgo", f"--nodes={PARALLEL}", *chosen, PROGRAMS / "e2e.test", "--"]
    settings = (
        *(f"--kubeconfig={kubeconfig}", "--provider=skeleton", "--kube-api-content-type=application/json"),
        *("--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--num-nodes=1", "--dump-logs-on-failure=false"),
        f"--report-dir={folder}",
    )
    with (folder / "e2e.log").open("w") as log:
        subprocess.run([*ginkgo, *settings], stdout=log, stderr=log, timeout=840, check=False)
    return read_outcome(folder / "junit_01.xml")


def read_outcome(report: Path) -> Outcome:
    outcome = Outcome([], {})
    for case in ElementTree.parse(report).iter("testcase"):
        name, failure = case.get("name", ""), case.find("failure")
        if failure is not None:
            outcome.failed[name] = (failure.get("message") or "") + (failure.text or "")
        elif name.startswith("[It]") and case.find("skipped") is None:
            outcome.passed.append(name)
    return outcome


@pytest.mark.parametrize("group", GROUPS)
def test_every_spec_passes_but_those_the_machine_forbids(kubeconfig: Path, group: str, tmp_path: Path) -> None:
    focus, skip, count = GROUPS[group]
    outcome = run_specs(kubeconfig, focus, skip, tmp_path)
    allowed = "" if has_capability(CAP_SYS_RESOURCE) else FORBIDDEN
    assert [name for name, message in outcome.failed.items() if not allowed or allowed not in message] == []
    assert len(outcome.passed) + len(outcome.failed) >= count
