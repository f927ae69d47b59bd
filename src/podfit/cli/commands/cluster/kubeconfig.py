"""`podfit kubeconfig`: access to a cluster on this machine, printed or merged into kubectl's own file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podfit.cli.clusters import DEFAULT_DATA, Cluster, DataDir, Name, chosen
from podfit.cli.printing.output import note, print_object, usage_error

Merge = Annotated[bool, typer.Option("--merge", help="Add the cluster to kubectl's kubeconfig and make it current.")]
Unmerge = Annotated[bool, typer.Option("--unmerge", help="Remove the cluster from kubectl's kubeconfig.")]
Into = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", help="The file to change; default: the first of $KUBECONFIG, otherwise ~/.kube/config."
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command("kubeconfig", help="Print or merge the kubeconfig of a cluster.")(kubeconfig)


def kubeconfig(
    data_dir: DataDir = DEFAULT_DATA,
    name: Name = "",
    merge: Merge = False,
    unmerge: Unmerge = False,
    kubeconfig: Into = None,
) -> None:
    from podfit.client import merging

    cluster = chosen(name, data_dir)
    if merge and unmerge:
        usage_error("--merge and --unmerge exclude each other")
    if kubeconfig is not None and not (merge or unmerge):
        usage_error("--kubeconfig needs --merge or --unmerge: it names the file to change")
    file = kubeconfig or merging.usual_files()[0]
    if merge:
        _check_foreign(cluster, file)
        merging.merge(file, cluster.document())
        note(f"context {cluster.context} is current in {file}")
    elif unmerge:
        removed = merging.unmerge(file, cluster.context)
        note(f"context {cluster.context} {'removed from' if removed else 'is not in'} {file}")
    else:
        print_object("yaml", cluster.document())


def _check_foreign(cluster: Cluster, file: Path) -> None:
    """$KUBECONFIG often names the cluster's own file, which the next start overwrites."""
    if file.resolve().parent == cluster.data_dir:
        usage_error(
            f"{file} is the cluster's own kubeconfig: name another file with --kubeconfig, such as ~/.kube/config"
        )
