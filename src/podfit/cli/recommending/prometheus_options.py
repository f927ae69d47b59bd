"""The options of commands that read usage from Prometheus."""

from __future__ import annotations

from typing import Annotated

import typer

ClusterLabel = Annotated[
    str, typer.Option("--cluster-label", metavar="NAME=VALUE", help="Read only series with this label from Prometheus.")
]
BearerTokenFile = Annotated[
    str, typer.Option("--bearer-token-file", metavar="FILE", help="A file with a bearer token for Prometheus.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Do not verify Prometheus' certificate.")]
Load = Annotated[
    float,
    typer.Option(
        "--load",
        metavar="PERCENT",
        min=1,
        max=100,
        help="The maximum percentage of time that Prometheus spends on queries; the rest are pauses.",
    ),
]
QueryTimeout = Annotated[float, typer.Option("--timeout", min=1, help="The timeout of a query in seconds.")]
Resume = Annotated[
    bool, typer.Option("--resume/--fresh", help="Resume an interrupted run from its partial results, or start over.")
]
