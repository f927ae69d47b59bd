"""`podfit clusters`: the clusters on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from podfit.cli.clusters import Cluster, known
from podfit.cli.printing.output import OBJECTS, check_format, echo, list_of, note, output_option, print_object, table

HEADER = ("NAME", "STATUS", "PID", "SERVER", "DATA DIRECTORY")


def add_to(app: typer.Typer) -> None:
    app.command("clusters", help="List the clusters of this machine.")(clusters)


def clusters(output: Annotated[str, output_option(OBJECTS, "a table")] = "") -> None:
    check_format(output, OBJECTS)
    rows = [_row(cluster) for cluster in known()]
    if output in ("json", "yaml"):
        print_object(output, list_of(rows))
    elif output == "name":
        for row in rows:
            echo(row["name"] or row["dataDirectory"])
    elif not rows:
        note("No clusters found. Start one with `podfit up`.")
    else:
        columns = ("name", "status", "pid", "server", "dataDirectory")
        echo(table([[row[column] or "-" for column in columns] for row in rows], HEADER))


def _row(cluster: Cluster) -> dict[str, Any]:
    holder = cluster.holder
    return {
        "name": cluster.name,
        "status": "Running" if holder else "Stopped",
        "pid": holder.pid if holder else None,
        "context": cluster.context,
        "server": cluster.server() if cluster.kubeconfig.exists() else "",
        "dataDirectory": str(cluster.data_dir),
    }
