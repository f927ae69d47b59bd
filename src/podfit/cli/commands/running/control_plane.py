"""`podfit controllers` and `podfit scheduler`: control-plane components against any API server."""

from __future__ import annotations

from typing import Annotated

import typer

from podfit.cli.options.components import (
    DeferredDeadline,
    DeferredPolicy,
    Kubeconfig,
    LeaderElect,
    Verbose,
    scheduling,
)
from podfit.cli.options.networking import (
    AllocateNodeCidrs,
    ClusterCidr,
    NodeMask,
    NodeMask4,
    NodeMask6,
    pod_ranges,
)
from podfit.cli.options.signing import (
    RootCa,
    SigningCert,
    SigningKey,
    certificate_in,
    signer_of,
)
from podfit.cli.run import run, until_stopped


def add_to(app: typer.Typer) -> None:
    app.command("controllers", help="Run the controllers against any API server.")(controllers)
    app.command("scheduler", help="Run the scheduler against any API server.")(scheduler)


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
            help="Run each controller as its own service account instead of as the kubeconfig's user.",
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
        str, typer.Option("--scheduler-name", help="Schedule the pods whose spec.schedulerName is this.")
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
