"""The API server as a whole: builds its components from a `Config`, starts and stops them in order.

Components in the same process call `ApiServer.handle`; all others connect to `ApiServer.url`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path

from podfit.api.objects import Object
from podfit.api.pods.migrations import SUBRESOURCE
from podfit.api.registry.kinds import NAMESPACE, Registry
from podfit.api.text.depth import allow_depth
from podfit.apiserver import bootstrap
from podfit.apiserver.admission.base import Attributes
from podfit.apiserver.admission.chain import build
from podfit.apiserver.admission.device_admin_access import DeviceAdminAccess
from podfit.apiserver.admission.policies.mutating import MutatingAdmissionPolicies
from podfit.apiserver.admission.policies.plugin import POLICY, ValidatingAdmissionPolicies
from podfit.apiserver.admission.policies.status import PolicyStatuses
from podfit.apiserver.admission.rbac_escalation import RbacEscalation
from podfit.apiserver.admission.webhooks.call import WebhookCaller
from podfit.apiserver.admission.webhooks.plugins import Webhooks
from podfit.apiserver.apis.aggregation import API_SERVICE, Handler, local_services
from podfit.apiserver.apis.custom import DEFINITION, CustomResources
from podfit.apiserver.apis.groups import CustomGroups
from podfit.apiserver.auth.authenticate import Authenticator, TokenAuthenticator
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.auth.node import NodeAuthorizer, NodeGraph
from podfit.apiserver.auth.other_tokens import BootstrapTokens, StaticTokens
from podfit.apiserver.auth.reviews import Reviews
from podfit.apiserver.auth.roles.bootstrap_roles import KUBELET_CLIENT
from podfit.apiserver.auth.roles.rbac import Rbac
from podfit.apiserver.auth.tokens import ServiceAccountTokens
from podfit.apiserver.config import Config
from podfit.apiserver.dialects import Dialects
from podfit.apiserver.dialects.edge import DialectForm, DialectSpliced
from podfit.apiserver.dialects.registry import FOLLOWED as FOLLOWED_NAMESPACES
from podfit.apiserver.flows.upkeep import FOLLOWED as FOLLOWED_FLOWS
from podfit.apiserver.flows.upkeep import FlowUpkeep
from podfit.apiserver.front.http import HttpFront
from podfit.apiserver.proxying.nodes import NodeProxy, scrape_targets
from podfit.apiserver.request import Request, Response
from podfit.apiserver.server import ServerCore
from podfit.apiserver.services.addresses import ServiceAddresses
from podfit.apiserver.services.endpoints import endpoint_of
from podfit.apiserver.services.nodeports import SERVICE, NodePorts
from podfit.apiserver.storage.derived_state import FOLLOWED, DerivedState
from podfit.apiserver.storage.hub import Hub
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import each
from podfit.apiserver.subresources import binding, eviction, migrate, resize
from podfit.apiserver.subresources.components import ComponentStatuses
from podfit.apiserver.subresources.reviews import ReviewHandlers
from podfit.apiserver.subresources.scale import ScaleHandlers
from podfit.apiserver.subresources.tokens import TokenHandlers
from podfit.apiserver.writing import custom_schema
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Unavailable

log = logging.getLogger(__name__)
_INSTALL_AGAIN_S = 5.0


class ApiServer:
    def __init__(self, config: Config) -> None:
        allow_depth()
        self.config = config
        self._tasks = Tasks("API server")
        self.registry = Registry()
        self.hub = Hub(config.store)
        self.objects = Objects(config.store, self.registry, self.hub, config.clock)
        self.pki = Pki(config.data_dir / "pki", [*config.extra_sans, config.advertised])
        self.tokens = ServiceAccountTokens(self.pki.signing_key, self.objects, clock=config.clock)
        self.authenticator = Authenticator(self._token_sources(), anonymous=config.anonymous)
        self.rbac, self.graph = Rbac(self._forget), NodeGraph()
        self.dialects = Dialects(config.resize_dialect, self._dialect_changed)
        self.authorization = Authorization([NodeAuthorizer(self.graph, self._allocates_in_spec), self.rbac])
        self.webhooks = Webhooks(self.objects, self._resolve, _defaulted, self.objects, self.authorization)
        self.policies = ValidatingAdmissionPolicies(self.objects, self.registry.of, self.objects, self.authorization)
        self.mutating_policies = MutatingAdmissionPolicies(
            self.objects, self.registry.of, _defaulted, self.objects, self.authorization
        )
        chain = build(
            self.objects,
            enable=config.enable_admission,
            disable=config.disable_admission,
            always=[RbacEscalation(self.rbac, self.authorization), DeviceAdminAccess(self.objects)],
            webhooks=self.webhooks,
            policies=self.policies,
            mutating_policies=self.mutating_policies,
            authorization=self.authorization,
            clock=config.clock,
        )
        self.core = ServerCore(self.objects, chain, self.authorization, self.pki, config.in_flight, self.dialects)
        self.core.paths.documents["/.well-known/openid-configuration"] = lambda: self.tokens.openid_configuration(
            self.url
        )
        self.core.paths.documents["/openid/v1/jwks"] = self.tokens.jwks
        self.core.paths.documents["/metrics/nodes"] = partial(scrape_targets, self.objects)
        self.addresses = ServiceAddresses(config.service_cidr, config.clock)
        self.node_ports = NodePorts(self.objects)
        self.core.writer.after_write[SERVICE.storage_prefix] = self._service_stored
        self.core.writer.before_create["", "services"] = self._allocate_service
        self.core.writer.before_update["", "services"] = self._reallocate_service
        self.core.writer.after_write[NAMESPACE.storage_prefix] = self.dialects.learn
        self.core.writer.after_write[POLICY.storage_prefix] = PolicyStatuses(self.objects).settle
        self.flow_upkeep = FlowUpkeep(self.objects, self.core.writer)
        self.aggregation = self.core.aggregation
        self.nodes = NodeProxy(_node_context(self.pki), self.authorization, config.advertised)
        self.converters = WebhookCaller(self._resolve)
        self.custom = self._handlers()
        self.groups = CustomGroups(self.objects, self.core.writer)
        self.core.paths.health.checks["watch-hub"] = self.hub.problem
        self.core.paths.health.checks["store"] = lambda: config.store.problem
        context = self.pki.server_tls() if config.tls else None
        self.front = HttpFront(self.core.handle, self.authenticator, context, self.core.parts.long_responses.turns)
        self.derived_state = DerivedState(self.objects, self.rbac, self.graph, self.addresses)

    def _handlers(self) -> CustomResources:
        handlers, scales = self.core.handlers, ScaleHandlers()
        ReviewHandlers(Reviews(self.authorization, self.rbac)).add_to(handlers)
        tokens = TokenHandlers(self.tokens, self.authenticator)
        handlers.kinds["authentication.k8s.io", "tokenreviews"] = tokens.review
        handlers.kinds["", "bindings"] = binding.bind_named
        handlers.kinds["", "componentstatuses"] = ComponentStatuses(self.config.store).answer
        handlers.add("", "pods", "binding", binding.bind)
        handlers.add("", "pods", "eviction", eviction.evict)
        handlers.add("", "pods", "resize", resize.resize)
        handlers.add("", "pods", SUBRESOURCE, migrate.migrate)
        handlers.add("", "serviceaccounts", "token", tokens.request)
        handlers.add_anywhere("scale", scales.handle)
        self.nodes.add_to(handlers)
        tables, discovery = self.core.tables, self.core.discovery
        return CustomResources(self.objects, tables, discovery, scales, self.converters, self.core.notices)

    def _allocate_service(self, service: Object, dry_run: bool) -> None:
        self.addresses.allocate(service, dry_run)
        self.node_ports.allocate(service, dry_run)

    def _service_stored(self, service: Object) -> None:
        self.addresses.learn(service)
        self.node_ports.stored(service)

    def _reallocate_service(self, service: Object, old: Object, dry_run: bool) -> None:
        self.addresses.reallocate(service, old, dry_run)
        self.node_ports.reallocate(service, old, dry_run)

    def _token_sources(self) -> list[TokenAuthenticator]:
        sources: list[TokenAuthenticator] = [self.tokens, BootstrapTokens(self.objects, self.config.clock)]
        if self.config.token_file is not None:
            sources.insert(0, StaticTokens.load(self.config.token_file))
        return sources

    def _resolve(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        return endpoint_of(self.objects, namespace, name, str(port))

    async def _learn_dialects(self) -> None:
        each(NAMESPACE, self.objects.list(NAMESPACE), self.dialects.learn)

    def _dialect_changed(self, namespace: str) -> None:
        """Ends the watches of the namespace: clients have seen its objects in another form, and have to list again."""
        self._forget()
        for watcher in list(self.hub.watchers()):
            if watcher.namespace in ("", namespace) and isinstance(watcher.form, (DialectSpliced, DialectForm)):
                watcher.fail()

    def _allocates_in_spec(self, namespace: str) -> bool:
        dialect = self.dialects.of(namespace)
        return dialect is not None and dialect.allocated_in_spec

    def _forget(self) -> None:
        self.authorization.forget()

    @property
    def url(self) -> str:
        scheme = "https" if self.config.tls else "http"
        return f"{scheme}://{self.config.advertised}:{self.front.port}"

    def handle(self, request: Request) -> Coroutine[None, None, Response]:
        """Handles a request of a client in this process; `request.user` is trusted."""
        return self.core.handle(request)

    def register_local_group(self, group_version: str, handler: Handler) -> None:
        """Registers a component of this process as the server of a group, e.g. `metrics.k8s.io/v1beta1`; it must also
        answer GET on `/apis/<group>/<version>` with its APIResourceList. Call it while the server runs."""
        self.aggregation.register(group_version, handler)

    def show_metrics(self, pages: Mapping[str, Callable[[], bytes]]) -> None:
        """Serves the metrics of other components of this process, by name, at `/metrics/NAME`."""
        self.core.paths.metrics.update({f"/metrics/{name}": text for name, text in pages.items()})

    async def start(self) -> None:
        await self.config.store.open()
        self.derived_state.load()
        await self._learn_dialects()
        listen = self.hub.listen
        listen("roles and addresses", self.derived_state.changed, *FOLLOWED, resync=self.derived_state.resync)
        listen("resize dialects", self.dialects.changed, FOLLOWED_NAMESPACES, resync=self._learn_dialects)
        listen("custom resources", self.custom.changed, resync=self.custom.resync)
        listen("custom groups", self.groups.changed, DEFINITION.storage_prefix, resync=self.groups.follow)
        listen("aggregation", self.aggregation.changed, API_SERVICE.storage_prefix, resync=self.aggregation.resync)
        listen("flow control", self.core.flows.changed, *FOLLOWED_FLOWS, resync=self.core.flows.resync)
        listen("flow upkeep", self.flow_upkeep.changed, *FOLLOWED_FLOWS, resync=self.flow_upkeep.restore)
        self.hub.start()
        await self.custom.start()
        self.aggregation.start()
        await self.front.start(self.config.host, self.config.port)
        self.core.address = f"{self.config.advertised}:{self.front.port}"
        await self._bootstrap()
        self.core.paths.health.ready = True

    async def stop(self) -> None:
        self.core.paths.health.ready = False
        await self._tasks.stop()
        await self.derived_state.stop()
        await self.flow_upkeep.stop()
        self.core.flows.stop()
        await self.groups.stop()
        await self.custom.stop()
        await self.aggregation.stop()
        await self.hub.stop()
        await self.front.stop()
        await self.nodes.stop()
        await self.webhooks.close()
        self.policies.close()
        self.mutating_policies.close()
        await self.converters.close()
        self.core.writer.threads.close()
        await self.config.store.close()

    async def _bootstrap(self) -> None:
        """Creates missing objects. On a full disk the server starts without them, so that users can delete objects, and
        creates them later."""
        store = self.config.store
        first = store.revision
        try:
            await self._install()
        except Unavailable as error:
            log.error("some default objects are missing: %s", error)
            self._tasks.start(self._install_later(), "install default objects")
            return
        if store.revision > first:
            # No client has seen these revisions: the watch history starts with a complete cluster.
            await store.compact(store.revision)

    async def _install_later(self) -> None:
        while True:
            await self.config.clock.sleep(_INSTALL_AGAIN_S)
            try:
                await self._install()
                return
            except Unavailable:
                log.debug("some default objects are still missing")

    async def _install(self) -> None:
        writer, registry = self.core.writer, self.registry
        await bootstrap.create_missing(writer, registry, bootstrap.namespaces())
        host = self.config.advertised
        missing = [
            *local_services(list(registry)),
            *bootstrap.priority_classes(),
            *bootstrap.roles(self._allocates_in_spec("")),
            *bootstrap.kubernetes_service(self.addresses.first, host, self.front.port),
            *bootstrap.extension_authentication(self.pki),
            *bootstrap.flow_control(),
            *bootstrap.service_cidr(self.config.service_cidr, rfc3339(self.config.clock.now())),
        ]
        if self.config.install_vpa:
            missing += bootstrap.vpa_definitions()
        await bootstrap.create_missing(writer, registry, missing)
        await self.flow_upkeep.reconcile()
        self.core.flows.configure()
        await self.custom.start()
        await self.groups.follow()
        await self.aggregation.report_local()
        await self._settled()
        await self.derived_state.collect_rules()
        await self._settled()

    async def _settled(self) -> None:
        """Waits until all writes have been dispatched."""
        while self.hub.seen < self.config.store.revision:
            await asyncio.sleep(0)


def _defaulted(attrs: Attributes, obj: Object) -> Object:
    if obj.get("kind") == attrs.kind.kind:
        # Excludes the body kinds of subresources: Eviction, Binding, PodExecOptions.
        obj = custom_schema.pruned(attrs.kind, obj)
        custom_schema.default(attrs.kind, obj)
    return obj


def _node_context(pki: Pki) -> ssl.SSLContext:
    """The TLS context for connections to nodes. Like Kubernetes by default, it does not verify their certificates.

    The client certificate has the permissions of system:kubelet-api-admin and no more: a node that reports another
    address makes the API server connect there with it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    pair = pki.issue_client_cert(KUBELET_CLIENT)
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder, "client.crt"), Path(folder, "client.key")
        cert.write_bytes(pair.cert)
        key.touch(0o600)
        key.write_bytes(pair.key)
        context.load_cert_chain(cert, key)
    return context
