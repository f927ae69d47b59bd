"""The commands that run podfit's parts: all of them in one process, or one against any API server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.api.resize.dialects import NATIVE
from podfit.cli.clusters import AGENT_LOCK, CLUSTER_LOCK, DEFAULT_DATA, Cluster, DataDir, Name, chosen
from podfit.cli.leaving import note_pods_left
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
    AllocateNodeCidrs,
    ClusterCidr,
    CniBinDir,
    CniConfDir,
    NodeMask,
    NodeMask4,
    NodeMask6,
    PodNetworkMode,
    network_settings,
    pod_ranges,
)
from podfit.cli.options.ports import (
    AdmissionAddress,
    AgentAddress,
    AgentPort,
    FailClosed,
    MeterResolution,
    NodeIp,
    NodePort,
    NoVpa,
    RecommenderAddress,
    UpdaterAddress,
    VpaAdmission,
    VpaRecommender,
    VpaUpdater,
    WebhookPort,
    autoscaler_flags,
    host_port,
    ip_address,
    with_flags,
)
from podfit.cli.options.runtimes import (
    CgroupRoot,
    RuntimeEndpoint,
    RuntimeEndpoints,
    RuntimeName,
    RunVms,
    VmAccel,
    endpoints,
)
from podfit.cli.options.signing import (
    RootCa,
    RotateCertificates,
    RotateServing,
    SigningCert,
    SigningKey,
    certificate_in,
    signer_of,
)
from podfit.cli.run import run, serve, until_stopped
from podfit.compose_runtimes import CONTAINERD
from podfit.kit.files.dirlock import DirectoryLock
from podfit.kit.web.addresses import CannotListen

if TYPE_CHECKING:
    from podfit.agent.decide.node.thresholds import Threshold
    from podfit.compose import UpOptions
    from podfit.scheduler import SchedulerConfig

Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where the API server listens; port 0 picks one.")
]
StoreName = Annotated[str, typer.Option("--store", help="sqlite, memory or etcd=URL[,URL…].")]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="The kubeconfig to use; default $KUBECONFIG, ~/.kube/config.")
]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log more; twice for everything.")]
LeaderElect = Annotated[bool, typer.Option("--leader-elect", help="Work only while holding the component's Lease.")]
EnableAdmission = Annotated[
    str, typer.Option("--enable-admission-plugins", metavar="A,B", help="Admission plugins on top of the default ones.")
]
DisableAdmission = Annotated[
    str, typer.Option("--disable-admission-plugins", metavar="A,B", help="Default admission plugins to leave out.")
]
ResizeDialect = Annotated[
    str,
    typer.Option("--resize-dialect", help="The form of in-place resize in namespaces without a label for it."),
]
NodeCpu = Annotated[str, typer.Option("--node-cpu", help="The node's CPU capacity, instead of the machine's.")]
NodeMemory = Annotated[str, typer.Option("--node-memory", help="The node's memory capacity, instead of the machine's.")]
StopPods = Annotated[
    bool, typer.Option("--stop-pods", help="Stop the pods at the end instead of leaving them running.")
]
DeferredPolicy = Annotated[
    str, typer.Option("--deferred-resize-policy", help="wait, or preempt less important pods for a Deferred resize.")
]
DeferredDeadline = Annotated[
    float, typer.Option("--deferred-resize-deadline", help="Seconds a resize stays Deferred before it may preempt.")
]


def add_to(app: typer.Typer) -> None:
    app.command("up", help="Run everything in one process.")(up)
    app.command("apiserver", help="Run the API server alone.")(apiserver)
    app.command("controllers", help="Run the controllers against any API server.")(controllers)
    app.command("scheduler", help="Run the scheduler against any API server.")(scheduler)
    app.command("agent", help="Run a node agent against any API server.")(agent)
    app.command("meter", help="Serve metrics.k8s.io (kubectl top) for any API server.")(meter)


def words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def capacity(cpu: str, memory: str) -> dict[str, str]:
    from podfit.api.quantity import Quantity, QuantityError
    from podfit.compose import BadSetting

    found = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    for name, value in found.items():
        try:
            amount = Quantity.parse(value)
        except QuantityError as error:
            raise BadSetting(f"--node-{name} {value!r}: {error}") from error
        if amount.nanos < 0:
            raise BadSetting(f"--node-{name} {value!r}: must be greater than or equal to 0")
    return found


def named(node_name: str) -> str:
    """The node's name, this machine's by default: one that a server takes, since no start would get beyond it."""
    import socket

    from podfit.api.text.names import dns_subdomain
    from podfit.compose import BadSetting

    name = node_name or socket.gethostname().lower()
    if complaints := dns_subdomain(name):
        raise BadSetting(f"--node-name {name!r}: {complaints[0]}")
    return name


def up(
    context: typer.Context,
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
    listen: Listen = "127.0.0.1:6443",
    store: StoreName = "sqlite",
    runtime: RuntimeName = "process",
    container_runtime_endpoint: RuntimeEndpoint = CONTAINERD,
    runtime_endpoint: RuntimeEndpoints = None,
    vm: RunVms = False,
    vm_accel: VmAccel = "tcg",
    cgroup_root: CgroupRoot = "",
    nodes: Annotated[int, typer.Option("--nodes", min=0, max=5000, help="How many nodes to run.")] = 1,
    node_name: Annotated[str, typer.Option("--node-name", help="The node's name; default this machine's.")] = "",
    node_cpu: NodeCpu = "",
    node_memory: NodeMemory = "",
    enable_admission_plugins: EnableAdmission = "",
    disable_admission_plugins: DisableAdmission = "",
    resize_dialect: ResizeDialect = NATIVE,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Add the administrator's access to this kubeconfig as well.")
    ] = None,
    deferred_resize_policy: DeferredPolicy = "wait",
    deferred_resize_deadline: DeferredDeadline = 60.0,
    stop_pods: StopPods = False,
    node_port: NodePort = 0,
    pod_network: PodNetworkMode = "auto",
    cni_conf_dir: CniConfDir = None,
    cni_bin_dir: CniBinDir = "",
    cluster_cidr: ClusterCidr = "",
    node_cidr_mask_size: NodeMask = 0,
    recommender_address: RecommenderAddress = "",
    updater_address: UpdaterAddress = "",
    admission_address: AdmissionAddress = "",
    webhook_port: WebhookPort = 0,
    webhook_failure_policy_fail: FailClosed = False,
    no_vpa: NoVpa = False,
    vpa_recommender: VpaRecommender = None,
    vpa_updater: VpaUpdater = None,
    vpa_admission: VpaAdmission = None,
    meter_resolution: MeterResolution = 15.0,
    image_fallback: ImageFallback = "",
    insecure_registry: InsecureRegistry = None,
    serialize_image_pulls: SerializePulls = False,
    max_parallel_image_pulls: MaxPulls = 0,
    cpu_manager_policy: CpuManagerPolicy = "none",
    reserved_cpus: ReservedCpus = "",
    system_reserved: SystemReserved = "",
    kube_reserved: KubeReserved = "",
    gates: FeatureGates = "",
    verbose: Verbose = 0,
) -> None:
    from podfit.agent.runtimes.process.support import require_support
    from podfit.cli.options.listening import own_port
    from podfit.compose import UpOptions

    cluster, (host, port) = chosen(name, data_dir), host_port(listen)
    source = context.get_parameter_source("listen")
    picks = bool(cluster.name) and source is not None and source.name == "DEFAULT"
    options = UpOptions(
        cluster.data_dir,
        host,
        port,
        store,
        runtime,
        nodes,
        named(node_name) if nodes else "",
        capacity(node_cpu, node_memory),
        words(enable_admission_plugins),
        words(disable_admission_plugins),
        kubeconfig,
        stop_pods,
        scheduling=scheduling(deferred_resize_policy, deferred_resize_deadline),
        vpa=not no_vpa,
        vpa_flags=with_flags(
            autoscaler_flags(
                recommender_address, updater_address, admission_address, webhook_port, webhook_failure_policy_fail
            ),
            recommender=vpa_recommender,
            updater=vpa_updater,
            admission=vpa_admission,
        ),
        meter_resolution_s=meter_resolution,
        node_port=node_port,
        vm=vm_accel if vm else "",
        image_fallback=fallback(image_fallback),
        insecure_registries=tuple(insecure_registry or ()),
        node_settings={
            "most_pulls": most_pulls(serialize_image_pulls, max_parallel_image_pulls),
            **cpu_settings(
                cpu_manager_policy, reserved_cpus, system_reserved, kube_reserved, gates, nodes < 2 or runtime == "fake"
            ),
        },
        network=network_settings(pod_network, cni_conf_dir, cni_bin_dir),
        pod_ranges=pod_ranges(cluster_cidr, node_cidr_mask_size),
        runtime_endpoint=container_runtime_endpoint,
        runtime_endpoints=endpoints(runtime_endpoint),
        cgroup_root=cgroup_root,
        context=cluster.context,
        resize_dialect=resize_dialect,
    )
    if runtime == "process" and nodes:
        require_support()
    with DirectoryLock(cluster.data_dir, CLUSTER_LOCK, "podfit up"):
        if picks:
            options = replace(options, port=own_port(cluster))
        run(_up(options, cluster), verbose)


def apiserver(
    data_dir: DataDir = DEFAULT_DATA,
    listen: Listen = "127.0.0.1:6443",
    store: StoreName = "sqlite",
    enable_admission_plugins: EnableAdmission = "",
    disable_admission_plugins: DisableAdmission = "",
    resize_dialect: ResizeDialect = NATIVE,
    token_auth_file: Annotated[Path | None, typer.Option("--token-auth-file", help="CSV of static tokens.")] = None,
    tls_san: Annotated[
        list[str] | None, typer.Option("--tls-san", help="Another name of the server in its certificate.")
    ] = None,
    max_requests_inflight: Annotated[
        int, typer.Option("--max-requests-inflight", min=2, help="Seats for reads, which all priority levels share.")
    ] = 400,
    max_mutating_requests_inflight: Annotated[
        int,
        typer.Option(
            "--max-mutating-requests-inflight", min=2, help="Seats for writes, which all priority levels share."
        ),
    ] = 200,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Add the administrator's access to this kubeconfig as well.")
    ] = None,
    verbose: Verbose = 0,
) -> None:
    from podfit.compose import UpOptions

    host, port = host_port(listen)
    options = UpOptions(
        data_dir,
        host,
        port,
        store,
        nodes=0,
        enable_admission=words(enable_admission_plugins),
        disable_admission=words(disable_admission_plugins),
        kubeconfig=kubeconfig,
        token_file=token_auth_file,
        in_flight=(max_requests_inflight, max_mutating_requests_inflight),
        extra_sans=tuple(tls_san or ()),
        resize_dialect=resize_dialect,
        controllers=False,
        scheduler=False,
        vpa=False,
    )
    # Everything but a store on etcd is in the directory and has one owner; `pki/` is made by the first and then read.
    with DirectoryLock(data_dir, CLUSTER_LOCK, "podfit apiserver", shared=store.startswith("etcd=")):
        run(_up(options, Cluster(data_dir)), verbose)


async def _up(options: UpOptions, cluster: Cluster) -> None:
    from podfit.cli.options.listening import explain
    from podfit.compose import Up

    everything = Up(options)

    async def start() -> str:
        try:
            await everything.start()
        except CannotListen as error:
            explain(error, options.port)
            raise
        return f"ready {everything.server.url} kubeconfig {everything.kubeconfig.absolute()}"

    async def stop() -> None:
        await everything.stop()
        await note_pods_left(everything.agents, "podfit up", cluster.option)

    await serve(start, stop)


def controllers(
    kubeconfig: Kubeconfig = "",
    leader_elect: LeaderElect = False,
    cluster_signing_cert_file: SigningCert = None,
    cluster_signing_key_file: SigningKey = None,
    root_ca_file: RootCa = None,
    allocate_node_cidrs: AllocateNodeCidrs = False,
    cluster_cidr: ClusterCidr = "",
    node_cidr_mask_size: NodeMask = 0,
    node_cidr_mask_size_ipv4: NodeMask4 = 0,
    node_cidr_mask_size_ipv6: NodeMask6 = 0,
    use_service_account_credentials: Annotated[
        bool,
        typer.Option(
            "--use-service-account-credentials/--no-use-service-account-credentials",
            help="Each controller acts by a service account of its own; otherwise all by the kubeconfig's user.",
        ),
    ] = True,
    verbose: Verbose = 0,
) -> None:
    from podfit.client.kubeconfig import load
    from podfit.compose import BadSetting, controllers_alone

    if allocate_node_cidrs and not cluster_cidr:
        raise BadSetting("--allocate-node-cidrs needs --cluster-cidr: the range that nodes get parts of")
    given = cluster_cidr if allocate_node_cidrs else ""
    ranges = pod_ranges(given, node_cidr_mask_size, node_cidr_mask_size_ipv4, node_cidr_mask_size_ipv6)

    access = load(kubeconfig)
    signer = signer_of(cluster_signing_cert_file, cluster_signing_key_file)
    root_ca = certificate_in(root_ca_file, "--root-ca-file") or b""

    async def main() -> None:
        by_accounts = use_service_account_credentials
        await until_stopped(controllers_alone(access, leader_elect, signer, root_ca, ranges, by_accounts))

    run(main(), verbose)


def scheduler(
    kubeconfig: Kubeconfig = "",
    leader_elect: LeaderElect = False,
    scheduler_name: Annotated[
        str, typer.Option("--scheduler-name", help="Schedule pods that name this.")
    ] = "default-scheduler",
    deferred_resize_policy: DeferredPolicy = "wait",
    deferred_resize_deadline: DeferredDeadline = 60.0,
    verbose: Verbose = 0,
) -> None:
    from podfit.client.kubeconfig import load
    from podfit.compose import scheduler_alone

    access = load(kubeconfig)
    config = scheduling(deferred_resize_policy, deferred_resize_deadline, scheduler_name)

    async def main() -> None:
        await until_stopped(scheduler_alone(access, leader_elect, config))

    run(main(), verbose)


def scheduling(policy: str, deadline_s: float, name: str = "default-scheduler") -> SchedulerConfig:
    from podfit.compose import BadSetting
    from podfit.scheduler import SchedulerConfig

    try:
        return SchedulerConfig(name, deferred_resize_policy=policy, deferred_resize_deadline_s=deadline_s)
    except ValueError as error:
        raise BadSetting(f"{error}") from error


def agent(
    kubeconfig: Kubeconfig = "",
    server: Annotated[str, typer.Option("--server", help="Join the cluster at this URL, with --token.")] = "",
    token: Annotated[str, typer.Option("--token", help="The bootstrap token to join with.")] = "",
    rotate_certificates: RotateCertificates = True,
    rotate_server_certificates: RotateServing = False,
    certificate_authority: Annotated[
        Path | None, typer.Option("--certificate-authority", help="The CA that the server's certificate must be from.")
    ] = None,
    node_name: Annotated[str, typer.Option("--node-name", help="The node's name; default this machine's.")] = "",
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
    pod_manifests: Annotated[Path | None, typer.Option("--pod-manifest-path", help="A folder of static pods.")] = None,
    eviction_hard: Annotated[
        str | None,
        typer.Option("--eviction-hard", help="Thresholds of pressure, as memory.available<100Mi,nodefs.available<10%."),
    ] = None,
    log_max_size: Annotated[
        str,
        typer.Option(
            "--container-log-max-size", help="Rotate a container's log before it exceeds this; negative: never."
        ),
    ] = "10Mi",
    log_max_files: Annotated[
        int,
        typer.Option("--container-log-max-files", help="Log files kept of a container, the current one included."),
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


def reachable(url: str) -> None:
    from podfit.compose import BadSetting
    from podfit.meter.placement import Place

    try:
        Place.of(url)
    except ValueError as error:
        raise BadSetting(f"--url: {error}") from error


def meter(
    kubeconfig: Kubeconfig = "",
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where the meter listens; port 0 picks one.")
    ] = "127.0.0.1:0",
    url: Annotated[str, typer.Option("--url", help="Where the API server reaches it, if not at --listen.")] = "",
    resolution: Annotated[
        float, typer.Option("--resolution", min=1, max=60, help="Seconds between two readings of usage.")
    ] = 15.0,
    verbose: Verbose = 0,
) -> None:
    from podfit.client.kubeconfig import load
    from podfit.compose import MeterAlone

    host, port = host_port(listen)
    if url:
        reachable(url)
    alone = MeterAlone(load(kubeconfig), host, port, url, resolution)

    async def main() -> None:
        async def start() -> str:
            return f"ready {await alone.start()}"

        await serve(start, alone.stop)

    run(main(), verbose)
