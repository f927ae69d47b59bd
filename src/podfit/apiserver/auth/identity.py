"""All of a server's authentication in one object: what to hand to the socket, and what to ask with a request."""

from __future__ import annotations

from pathlib import Path

from podfit.apiserver.admission.base import Cluster
from podfit.apiserver.auth.authenticate import Authenticator, TokenAuthenticator
from podfit.apiserver.auth.other_tokens import BootstrapTokens, StaticTokens
from podfit.apiserver.auth.pki import FRONT_PROXY_CA, FRONT_PROXY_CLIENT, Pki
from podfit.apiserver.auth.tokens import ServiceAccountTokens
from podfit.kit.clock import Clock


class Identity:
    """`tokens` issues and checks service-account tokens; `authenticator` tells who a request comes from."""

    def __init__(
        self,
        pki: Pki,
        cluster: Cluster,
        *,
        static_tokens: Path | None = None,
        anonymous: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self.pki = pki
        self.tokens = ServiceAccountTokens(pki.signing_key, cluster, clock=clock)
        sources: list[TokenAuthenticator] = [self.tokens, BootstrapTokens(cluster, clock)]
        if static_tokens is not None:
            sources.append(StaticTokens.load(static_tokens))
        self.authenticator = Authenticator(
            sources,
            anonymous=anonymous,
            proxy_authority=FRONT_PROXY_CA,
            proxy_names=[FRONT_PROXY_CLIENT],
            clock=clock,
        )
