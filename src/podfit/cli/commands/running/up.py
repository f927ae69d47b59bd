"""`podfit up` runs everything in one process, `podfit apiserver` the API server alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podfit.api.resize.dialects import NATIVE
from podfit.cli.clusters import CLUSTER_LOCK, DEFAULT_DATA, Cluster, DataDir, Name, chosen
from podfit.cli.leaving import note_pods_left
from podfit.cli.options.components import (
    DeferredDeadline,
    DeferredPolicy,
    DisableAdmission,
    EnableAdmission,
    Listen,
    NodeCpu,
    NodeMemory,
    ResizeDialect,
    StopPods,
    StoreName,
    Verbose,
    capacity,
    named,
    scheduling,
    words,
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
    InsecureRegistry,
    MaxPulls,
    SerializePulls,
    fallback,
    most_pulls,
)
from podfit.cli.options.networking import (
    ClusterCidr,
    CniBinDir,
    CniConfDir,
    NodeMask,
    PodNetworkMode,
    network_settings,
    pod_ranges,
)
from podfit.cli.options.ports import (
    AdmissionAddress,
    FailClosed,
    MeterResolution,
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
from podfit.cli.run import run, serve
from podfit.compose_runtimes import CONTAINERD
from podfit.kit.files.dirlock import DirectoryLock
from podfit.kit.web.addresses import CannotListen

if TYPE_CHECKING:
    from podfit.compose import UpOptions


def add_to(app: typer.Typer) -> None:
    app.command("up", help="Run a complete cluster in one process.")(up)
    app.command("apiserver", help="Run the API server alone.")(apiserver)


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
    node_name: Annotated[str, typer.Option("--node-name", help="The node's name; default: the machine's.")] = "",
    node_cpu: NodeCpu = "",
    node_memory: NodeMemory = "",
    enable_admission_plugins: EnableAdmission = "",
    disable_admission_plugins: DisableAdmission = "",
    resize_dialect: ResizeDialect = NATIVE,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Also write the administrator's credentials to this kubeconfig.")
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
    token_auth_file: Annotated[
        Path | None, typer.Option("--token-auth-file", help="A CSV file of static tokens.")
    ] = None,
    tls_san: Annotated[
        list[str] | None,
        typer.Option("--tls-san", help="A further name of the server for its certificate; may be repeated."),
    ] = None,
    max_requests_inflight: Annotated[
        int,
        typer.Option(
            "--max-requests-inflight", min=2, help="The number of concurrent reads, shared by all priority levels."
        ),
    ] = 400,
    max_mutating_requests_inflight: Annotated[
        int,
        typer.Option(
            "--max-mutating-requests-inflight",
            min=2,
            help="The number of concurrent writes, shared by all priority levels.",
        ),
    ] = 200,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Also write the administrator's credentials to this kubeconfig.")
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
    # Everything except a store on etcd is in the directory and has one owner; `pki/` is created by the first and then
    # read.
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
