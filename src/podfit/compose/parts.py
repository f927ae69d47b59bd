"""Stores, clients and users: the pieces shared by all ways of running podfit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.apiserver.front.local import local_client
from podfit.apiserver.request import User
from podfit.client import Client, EventRecorder
from podfit.kit.badsetting import BadSetting
from podfit.kit.clock import Clock

if TYPE_CHECKING:
    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
    from podfit.apiserver.app import ApiServer
    from podfit.controllers.context import ControllerContext
    from podfit.controllers.nodes.blocks import Blocks, PodRanges
    from podfit.store.backend import Store

CONTROLLERS = User("system:kube-controller-manager", ("system:authenticated",))
SCHEDULER = User("system:kube-scheduler", ("system:authenticated",))


def open_store(setting: str, data_dir: Path) -> Store:
    """Opens a store by its setting: `memory`, `sqlite` (a file in the data directory) or `etcd=URL[,URL…]`."""
    if setting == "memory":
        from podfit.store.memory import MemoryStore

        return MemoryStore()
    if setting == "sqlite":
        from podfit.store.disk.sqlite import SqliteStore

        return SqliteStore(data_dir / "podfit.db")
    if setting.startswith("etcd="):
        from podfit.store.etcd import EtcdStore

        if urls := [url for url in setting.removeprefix("etcd=").split(",") if url]:
            return EtcdStore(urls)
    raise BadSetting(f"--store {setting!r}: it is sqlite, memory or etcd=URL[,URL…]")


def make_controller_context(
    client: Client, clock: Clock, cluster_ca: bytes = b"", client_of: Callable[[str], Client] | None = None
) -> ControllerContext:
    """The context of the controllers. `client` reads for all of them and records their Events; each writes with its own
    service account."""
    from podfit.controllers.context import ControllerContext, Informers

    recorder = EventRecorder(client, "podfit-controllers", clock=clock)
    return ControllerContext(client, Informers(client, clock), recorder, clock, cluster_ca, client_of=client_of)


def make_blocks(ranges: PodRanges | None) -> tuple[Blocks, ...]:
    from podfit.controllers.nodes.blocks import blocks_of

    return blocks_of(ranges) if ranges is not None else ()


def account_user(name: str) -> User:
    """The user of a service account in kube-system, for a component of this process."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return User(f"system:serviceaccount:kube-system:{name}", groups)


def account_client(server: ApiServer, name: str, shares: bool = False) -> Client:
    """A client for a controller of this process, with a service account of kube-system."""
    return local_client(server, account_user(name), "controllers", shares)


def node_user(name: str) -> User:
    return User(f"system:node:{name}", ("system:nodes", "system:authenticated"))
