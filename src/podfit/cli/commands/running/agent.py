"""`podfit agent`: a node agent against any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.cli.clusters import AGENT_LOCK, DEFAULT_DATA, Cluster, DataDir
from podfit.cli.leaving import note_pods_left
from podfit.cli.options.components import (
    Kubeconfig,
    NodeCpu,
    NodeMemory,
    StopPods,
    Verbose,
    capacity,
    named,
)
from podfit.cli.options.cpu_options import (
    CpuManagerPolicy,
    FeatureGates,
    KubeReserved,
    ReservedCpus,
    SystemReserved,
    cpu_settings,
)
from podfit.cli.options.image_options import (
    ImageFallback,
    ImageGcHigh,
    ImageGcLow,
    InsecureRegistry,
    MaxPulls,
    SerializePulls,
    fallback,
    image_policy,
    most_pulls,
)
from podfit.cli.options.networking import (
    CniBinDir,
    CniConfDir,
    PodNetworkMode,
    network_settings,
)
from podfit.cli.options.ports import (
    AgentAddress,
    AgentPort,
    NodeIp,
    ip_address,
)
from podfit.cli.options.runtimes import (
    CgroupRoot,
    RuntimeEndpoint,
    RuntimeEndpoints,
    RuntimeName,
    endpoints,
)
from podfit.cli.options.signing import (
    RotateCertificates,
    RotateServing,
    certificate_in,
)
from podfit.cli.run import run, serve
from podfit.compose_runtimes import CONTAINERD
from podfit.kit.files.dirlock import DirectoryLock

if TYPE_CHECKING:
    from podfit.agent.decide.node.thresholds import Threshold


def add_to(app: typer.Typer) -> None:
    app.command("agent", help="Run a node agent against any API server.")(agent)


def agent(
    kubeconfig: Kubeconfig = "",
    server: Annotated[str, typer.Option("--server", help="The URL of the API server to join, with --token.")] = "",
    token: Annotated[str, typer.Option("--token", help="The bootstrap token for joining the cluster.")] = "",
    rotate_certificates: RotateCertificates = True,
    rotate_server_certificates: RotateServing = False,
    certificate_authority: Annotated[
        Path | None,
        typer.Option("--certificate-authority", help="The certificate of the CA that issued the server's certificate."),
    ] = None,
    node_name: Annotated[str, typer.Option("--node-name", help="The node's name; default: the machine's.")] = "",
    node_ip: NodeIp = "",
    address: AgentAddress = "",
    port: AgentPort = 10250,
    data_dir: DataDir = DEFAULT_DATA,
    runtime: RuntimeName = "process",
    container_runtime_endpoint: RuntimeEndpoint = CONTAINERD,
    runtime_endpoint: RuntimeEndpoints = None,
    cgroup_root: CgroupRoot = "",
    pod_network: PodNetworkMode = "auto",
    cni_conf_dir: CniConfDir = None,
    cni_bin_dir: CniBinDir = "",
    node_cpu: NodeCpu = "",
    node_memory: NodeMemory = "",
    pod_manifests: Annotated[
        Path | None, typer.Option("--pod-manifest-path", help="The folder with manifests of static pods.")
    ] = None,
    eviction_hard: Annotated[
        str | None,
        typer.Option(
            "--eviction-hard", help="Eviction thresholds, such as memory.available<100Mi,nodefs.available<10%."
        ),
    ] = None,
    log_max_size: Annotated[
        str,
        typer.Option(
            "--container-log-max-size",
            help="The maximum size of a container's log file, after which it is rotated; negative: never rotated.",
        ),
    ] = "10Mi",
    log_max_files: Annotated[
        int,
        typer.Option(
            "--container-log-max-files", help="How many log files are kept for a container, including the current one."
        ),
    ] = 5,
    stop_pods: StopPods = False,
    image_fallback: ImageFallback = "",
    insecure_registry: InsecureRegistry = None,
    serialize_image_pulls: SerializePulls = False,
    max_parallel_image_pulls: MaxPulls = 0,
    image_gc_high_threshold: ImageGcHigh = 85,
    image_gc_low_threshold: ImageGcLow = 80,
    cpu_manager_policy: CpuManagerPolicy = "none",
    reserved_cpus: ReservedCpus = "",
    system_reserved: SystemReserved = "",
    kube_reserved: KubeReserved = "",
    gates: FeatureGates = "",
    verbose: Verbose = 0,
) -> None:
    from podfit.agent.config import AgentConfig
    from podfit.agent.node.rivals import refuse_second
    from podfit.client.kubeconfig import Access, load
    from podfit.compose import BadSetting, agent_alone
    from podfit.compose_runtimes import RuntimeSettings

    if bool(server) != bool(token):
        raise BadSetting("--server and --token go together: where to join, and what to show there")
    name, network = named(node_name), network_settings(pod_network, cni_conf_dir, cni_bin_dir)
    settings = RuntimeSettings(
        runtime,
        fallback(image_fallback),
        network,
        container_runtime_endpoint,
        endpoints(runtime_endpoint),
        cgroup_root,
        tuple(insecure_registry or ()),
    )
    config = AgentConfig(
        name,
        data_dir,
        capacity=capacity(node_cpu, node_memory),
        address=ip_address("--node-ip", node_ip),
        listen_address=ip_address("--address", address),
        port=port,
        static_dir=pod_manifests,
        eviction_hard=thresholds(eviction_hard),
        image_policy=image_policy(image_gc_high_threshold, image_gc_low_threshold),
        most_pulls=most_pulls(serialize_image_pulls, max_parallel_image_pulls),
        log_max_bytes=log_size(log_max_size),
        log_max_files=log_files(log_max_files),
        **cpu_settings(cpu_manager_policy, reserved_cpus, system_reserved, kube_reserved, gates),
    )

    async def main() -> None:
        if server:
            from podfit.agent.node.join import join

            ca = certificate_in(certificate_authority, "--certificate-authority")
            asking = Access(server, ca=ca, token=token)
            access = await join(asking, name, data_dir / f"node-{name}.kubeconfig")
        else:
            access = load(kubeconfig)
        await refuse_second(access, name)
        identity = data_dir / f"node-{name}.kubeconfig" if server and rotate_certificates else None
        started = await agent_alone(access, settings, config, identity, rotate_server_certificates)

        async def start() -> str:
            await started.synced.wait()
            return f"ready node {name}"

        async def stop() -> None:
            await started.stop(stop_pods=stop_pods)
            await started.client.close()
            await note_pods_left([started], "podfit agent", Cluster(data_dir).option)

        await serve(start, stop)

    with DirectoryLock(data_dir, AGENT_LOCK, "podfit agent"):
        run(main(), verbose)


def thresholds(text: str | None) -> tuple[Threshold, ...]:
    from podfit.agent.decide.node.thresholds import DEFAULTS, BadThreshold, parse
    from podfit.compose import BadSetting

    try:
        return DEFAULTS if text is None else parse(text)
    except BadThreshold as error:
        raise BadSetting(f"--eviction-hard: {error}") from error


def log_size(text: str) -> int:
    from podfit.api.quantity import Quantity
    from podfit.compose import BadSetting

    try:
        return Quantity.parse(text).value
    except ValueError as error:
        raise BadSetting(f'--container-log-max-size: failed to parse "{text}": {error}') from error


def log_files(count: int) -> int:
    from podfit.compose import BadSetting

    if count <= 1:
        raise BadSetting(f"--container-log-max-files: {count} must be greater than 1")
    return count
