"""The API server as a whole: builds the parts from a `Config`, starts and stops them in order.

Components in the same process call `ApiServer.handle`; everybody else connects to `ApiServer.url`.
"""

from __future__ import annotations

import logging
import ssl

from podfit.api.kinds import Kind, Registry
from podfit.apiserver import bootstrap
from podfit.apiserver.addresses import ServiceAddresses
from podfit.apiserver.admission.chain import build
from podfit.apiserver.admission.rbac_escalation import RbacEscalation
from podfit.apiserver.admission.webhooks.plugins import Webhooks
from podfit.apiserver.auth.authenticate import Authenticator
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.auth.node import NodeAuthorizer, NodeGraph
from podfit.apiserver.auth.rbac import GROUP as RBAC_GROUP
from podfit.apiserver.auth.rbac import Rbac
from podfit.apiserver.auth.reviews import Reviews
from podfit.apiserver.config import Config
from podfit.apiserver.events import PODS, Happening, Hub
from podfit.apiserver.http import HttpFront
from podfit.apiserver.objects import Objects
from podfit.apiserver.request import Request, Response
from podfit.apiserver.server import Core

log = logging.getLogger(__name__)

_RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


class ApiServer:
    def __init__(
        self, config: Config, context: ssl.SSLContext | None = None, authenticator: Authenticator | None = None
    ) -> None:
        self.config = config
        self.registry = Registry()
        self.hub = Hub(config.store)
        self.objects = Objects(config.store, self.registry, self.hub, config.clock)
        self.rbac, self.graph = Rbac(self._forget), NodeGraph()
        self.authorization = Authorization([NodeAuthorizer(self.graph), self.rbac])
        self.webhooks = Webhooks(self.objects)
        chain = build(
            self.objects,
            enable=config.enable_admission,
            disable=config.disable_admission,
            always=[RbacEscalation(self.rbac, self.authorization)],
            webhooks=self.webhooks,
        )
        self.core = Core(self.objects, chain, self.authorization)
        self.reviews = Reviews(self.authorization, self.rbac)
        self.addresses = ServiceAddresses(config.service_cidr)
        self.core.writer.before_create["", "services"] = self.addresses.allot
        self.front = HttpFront(self.core.handle, authenticator or Authenticator(), context)
        self._rbac_prefixes = {kind.storage_prefix: kind.kind for kind in self.registry if kind.group == RBAC_GROUP}

    def _forget(self) -> None:
        self.authorization.forget()

    @property
    def url(self) -> str:
        scheme = "https" if self.config.tls else "http"
        return f"{scheme}://{self.config.advertise_host or self.config.host}:{self.front.port}"

    async def handle(self, request: Request) -> Response:
        """Answers a request of a client in this process; `request.user` is taken as it is."""
        return await self.core.handle(request)

    async def start(self) -> None:
        await self.config.store.open()
        self._load()
        self.hub.listen(self._changed)
        self.hub.start()
        await self.front.start(self.config.host, self.config.port)
        self.core.address = f"{self.config.advertise_host or self.config.host}:{self.front.port}"
        await self._bootstrap()
        self.core.paths.ready = True

    async def stop(self) -> None:
        self.core.paths.ready = False
        await self.hub.stop()
        await self.front.stop()
        await self.config.store.close()

    def _load(self) -> None:
        """What is kept in memory beside the store: roles, the graph of nodes, addresses in use."""
        for kind in self.registry:
            if kind.group == RBAC_GROUP:
                for obj in self.objects.list(kind):
                    self.rbac.changed(kind.kind, None, obj)
        for pod in self.objects.list(self._kind("v1", "Pod")):
            self.graph.pod_changed(None, pod)
        for service in self.objects.list(self._kind("v1", "Service")):
            self.addresses.learn(service)

    def _kind(self, api_version: str, kind: str) -> Kind:
        return bootstrap.of_kind(self.registry, api_version, kind)

    def _changed(self, happening: Happening) -> None:
        if happening.resource == PODS:
            self.graph.pod_changed(happening.old, happening.new)
        elif (kind := self._rbac_prefixes.get(happening.resource)) is not None:
            self.rbac.changed(kind, happening.old, happening.new)
        else:
            self.addresses.changed(happening)

    async def _bootstrap(self) -> None:
        writer, registry = self.core.writer, self.registry
        await bootstrap.create_missing(writer, registry, bootstrap.namespaces())
        host = self.config.advertise_host or self.config.host
        await bootstrap.create_missing(
            writer,
            registry,
            [
                *bootstrap.priority_classes(),
                *bootstrap.roles(),
                *bootstrap.kubernetes_service(self.addresses.first, host, self.front.port),
            ],
        )
        await self.config.store.compact(self.config.store.revision)
