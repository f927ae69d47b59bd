"""Queries the cluster of an unfinished command line for names, with a short timeout: without a response there are no
candidates.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from podfit.api.registry.kinds import BUILT_IN, VPA

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session

TIMEOUT = "PODFIT_COMPLETION_TIMEOUT"
"""The variable with the cluster's timeout in seconds."""
TIMEOUT_S = 2.0
MOST = "500"
_NAMES_ONLY = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}


@dataclass(frozen=True)
class Cluster:
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    @staticmethod
    def of(options: Mapping[str, str]) -> Cluster:
        return Cluster(*(options.get(f"--{name}", "") for name in ("kubeconfig", "context", "namespace")))

    def contexts(self) -> list[str]:
        from podfit.client.kubeconfig import contexts

        return contexts(self.kubeconfig)

    def knows(self, word: str) -> bool:
        """Whether `word` is a name of one of the kinds that every cluster has."""
        names = ((kind.plural, kind.singular, kind.kind.lower(), *kind.short) for kind in (*BUILT_IN, VPA))
        return any(word.lower() in form for form in names)

    def names(self, kind: str, without: Sequence[str] = ()) -> list[str]:
        """Names of the objects of a kind, except those that were typed already."""

        async def ask(session: Session) -> list[str]:
            from podfit.cli.targets import find_kind

            found = await find_kind(session.client, kind)
            path = found.path(session.namespace if found.namespaced else "")
            listed = await session.client.raw("GET", path, {"limit": MOST}, headers=_NAMES_ONLY)
            return [item["metadata"]["name"] for item in listed["items"]]

        return [name for name in self._query(ask) if name not in without]

    def containers(self, words: list[str]) -> list[str]:
        """Names of the containers of the given pods, or of all pods if none is given."""

        async def ask(session: Session) -> list[str]:
            from podfit.cli.targets import find_targets

            targets = await find_targets(session.client, session.namespace, words or ["pods"], every=not words)
            specs = [pod["spec"] for target in targets for pod in target.pods]
            fields = ("containers", "initContainers")
            return [container["name"] for spec in specs for field in fields for container in spec.get(field) or ()]

        return list(dict.fromkeys(self._query(ask)))

    def _query(self, ask: Callable[[Session], Awaitable[list[str]]]) -> list[str]:
        from podfit.cli.options.connect import connected

        async def main() -> list[str]:
            limit_s = float(os.environ.get(TIMEOUT) or TIMEOUT_S)
            async with asyncio.timeout(limit_s), connected(self.kubeconfig, self.context, self.namespace) as session:
                return await ask(session)

        return asyncio.run(main())
