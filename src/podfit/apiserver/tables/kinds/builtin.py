"""The layouts of built-in kinds by (group, plural). Other kinds get name and creation time."""

from __future__ import annotations

from podfit.apiserver.tables.columns import Layout
from podfit.apiserver.tables.kinds import cluster, control, core, network, storage, workloads
from podfit.apiserver.tables.kinds.pods import PODS

LAYOUTS: dict[tuple[str, str], Layout] = {
    ("", "pods"): PODS,
    **core.LAYOUTS,
    **workloads.LAYOUTS,
    **cluster.LAYOUTS,
    **storage.LAYOUTS,
    **network.LAYOUTS,
    **control.LAYOUTS,
}
