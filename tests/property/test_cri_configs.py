"""The agent's configurations survive conversion to CRI messages and back."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.runtimes.cri.messages import amounts, configs
from podfit.agent.runtimes.cri.messages.cgroup_paths import CgroupPaths
from podfit.agent.runtimes.values import UNLIMITED, ContainerConfig, Limits, LimitsChange, Mount, PodConfig, Security
from podfit.podnet.ports import PortMapping

NAMES = st.text("abcxyz-.", min_size=1, max_size=12)
TEXTS = st.dictionaries(NAMES, st.text(max_size=20), max_size=3)
LIMITS = st.builds(
    Limits,
    st.integers(2, 262144),
    st.none() | st.integers(1000, 10**6),
    st.none() | st.integers(4096, 1 << 40),
    cpuset_cpus=st.sampled_from(["", "0", "0-3"]),
)
PODS = st.builds(
    PodConfig,
    uid=st.uuids().map(str),
    name=NAMES,
    namespace=NAMES,
    qos=st.sampled_from(["Guaranteed", "Burstable", "BestEffort"]),
    limits=LIMITS,
    hostname=NAMES,
    log_folder=st.just(Path("/logs")),
    host_network=st.booleans(),
    host_pid=st.booleans(),
    host_ipc=st.booleans(),
    share_process_namespace=st.booleans(),
    labels=TEXTS,
    annotations=TEXTS,
    host_ports=st.lists(st.builds(PortMapping, st.integers(1, 65535), st.integers(1, 65535)), max_size=2).map(tuple),
    sysctls=TEXTS,
    handler=st.sampled_from(["", "vm"]),
    security=st.builds(Security, uid=st.none() | st.integers(0, 65535), privileged=st.booleans()),
)


@given(PODS)
def test_a_pod_is_known_again_from_its_sandbox(pod: PodConfig) -> None:
    sent = configs.sandbox(pod, "node", 0, CgroupPaths().pod(pod.qos, pod.uid))
    assert configs.kept_pod(sent.annotations) == pod
    assert sent.labels[configs.UID] == pod.uid and sent.labels[configs.NODE] == "node"
    assert not (pod.host_network and sent.hostname)


@given(LIMITS)
def test_limits_are_the_same_after_a_way_through_cri(limits: Limits) -> None:
    assert amounts.limits_of(amounts.resources(limits)) == limits


@given(
    st.none() | st.integers(2, 262144),
    st.none() | st.just(UNLIMITED) | st.integers(1000, 10**6),
    st.none() | st.just(UNLIMITED) | st.integers(4096, 1 << 40),
)
def test_an_update_names_what_changes_and_nothing_else(
    shares: int | None, quota: int | None, memory: int | None
) -> None:
    sent = amounts.update(LimitsChange(shares, quota, memory), 100_000)
    assert (sent.cpu_shares, sent.cpu_quota, sent.memory_limit_in_bytes) == (shares or 0, quota or 0, memory or 0)
    assert (sent.cpu_period != 0) == (quota is not None)
    assert sent.memory_swap_limit_in_bytes == sent.memory_limit_in_bytes


@given(PODS, LIMITS, st.booleans())
def test_a_container_is_known_again_and_its_log_is_below_its_pods(pod: PodConfig, limits: Limits, tty: bool) -> None:
    config = ContainerConfig(
        name="c",
        attempt=3,
        image="busybox",
        command=("sh",),
        args=("-c", "true"),
        environment={"A": "ü"},
        working_dir="/",
        mounts=(),
        limits=limits,
        log_file=pod.log_folder / "c" / "3.log",
        tty=tty,
    )
    sent = configs.container(config, pod, "node", [Mount(Path("/h"), "/c", True)], "")
    kept = configs.kept_container(sent.annotations)
    assert kept is not None and (kept.image, kept.limits, kept.tty) == ("busybox", limits, tty)
    assert (sent.log_path, sent.metadata.attempt, sent.envs[0].value) == ("c/3.log", 3, "ü".encode())
    assert (sent.mounts[0].host_path, sent.mounts[0].readonly) == ("/h", True)
