"""Requests as service accounts, like kube-controller-manager's --use-service-account-credentials.

The token of an account is requested from the API server (TokenRequest) and renewed before it expires; missing accounts
are created.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from podfit.api.registry.kinds import kind_named
from podfit.api.resize.dialects import NATIVE_HEADERS
from podfit.api.status import ApiError
from podfit.client.kubeconfig import Access
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, HttpTransport, Reply, Stream
from podfit.kit.clock import Clock, RealClock, parse_rfc3339

NAMESPACE = "kube-system"
_ACCOUNT = kind_named("ServiceAccount")
_LIFETIME_S = 3600
_USED_PART = 0.8
"""The fraction of its lifetime for which a token is used."""


class AccountToken:
    """A service account's token, cached for most of its lifetime."""

    def __init__(self, asker: Client, name: str, clock: Clock) -> None:
        """`asker` needs permission to create service accounts and their tokens in kube-system."""
        self._asker, self._name, self._clock = asker, name, clock
        self._renewing = asyncio.Lock()
        self._token, self._until = "", 0.0

    async def current(self) -> str:
        if self._clock.now() >= self._until:
            async with self._renewing:
                if self._clock.now() >= self._until:
                    await self._renew()
        return self._token

    def refused(self, token: str) -> None:
        """Called when the server rejected this token."""
        if token == self._token:
            self._until = 0.0

    async def _renew(self) -> None:
        try:
            await self._ask()
        except ApiError as error:
            if error.code != 404:
                raise
            await self._create()
            await self._ask()

    async def _ask(self) -> None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _LIFETIME_S},
        }
        sent_at = self._clock.now()
        answer = await self._asker.create(_ACCOUNT, body, NAMESPACE, self._name, "token")
        ends = parse_rfc3339(answer["status"]["expirationTimestamp"])
        # The server may have shortened the lifetime, and its clock may differ from ours, so never use more than was
        # requested.
        lifetime = min(_LIFETIME_S, max(ends - sent_at, 0.0))
        self._token, self._until = str(answer["status"]["token"]), sent_at + _USED_PART * lifetime

    async def _create(self) -> None:
        meta = {"name": self._name, "namespace": NAMESPACE}
        try:
            await self._asker.create(_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        except ApiError as error:
            if error.code != 409:
                raise


class AccountTransport(HttpTransport):
    """HTTPS as one service account. A token that is rejected is renewed once."""

    def __init__(self, server: str, tls: ssl.SSLContext | None, token: AccountToken, user_agent: str) -> None:
        super().__init__(server, tls=tls, user_agent=user_agent, headers=NATIVE_HEADERS)
        self._source = token

    async def request(self, request: ClientRequest) -> Reply:
        self._token = await self._source.current()
        used = self._token
        reply = await super().request(request)
        if reply.status != 401:
            return reply
        self._source.refused(used)
        self._token = await self._source.current()
        return await super().request(request)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncIterator[Stream]:
        self._token = used = await self._source.current()
        async with super().stream(request) as stream:
            if stream.status == 401:
                self._source.refused(used)
            yield stream


class Accounts:
    """Clients by account, each created once."""

    def __init__(self, access: Access, asker: Client, user_agent: str, clock: Clock | None = None) -> None:
        # A client certificate would take precedence over the token.
        bare = replace(access, cert=None, key=None, token="", token_file="")
        self._server, self._agent = access.server, user_agent
        self._tls = bare.tls() if access.server.startswith("https") else None
        self._asker, self._clock = asker, clock or RealClock()
        self._clients: dict[str, Client] = {}

    def client(self, account: str) -> Client:
        known = self._clients.get(account)
        if known is None:
            token = AccountToken(self._asker, account, self._clock)
            transport = AccountTransport(self._server, self._tls, token, f"{self._agent}/{account}")
            known = self._clients[account] = Client(transport)
        return known

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
