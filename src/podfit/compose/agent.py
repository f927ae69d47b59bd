"""Builds a node agent that runs as a separate process."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.client import Client
from podfit.client.transport import HttpTransport, load_pair
from podfit.compose_runtimes import RuntimeSettings, make_runtime
from podfit.kit.clock import RealClock
from podfit.kit.concurrency.tasks import Tasks

if TYPE_CHECKING:
    import ssl

    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
    from podfit.agent.agent import Agent
    from podfit.agent.config import AgentConfig
    from podfit.agent.server.server import NodeServer
    from podfit.client.kubeconfig import Access

log = logging.getLogger(__name__)


async def agent_alone(
    access: Access, runtime: RuntimeSettings, config: AgentConfig, identity: Path | None = None, serving: bool = False
) -> Agent:
    """Starts an agent; the caller stops it. `identity` is the file of a client certificate to renew, `serving` whether
    to request the node's serving certificate from the cluster's signer."""
    from podfit.agent.agent import Agent

    clock = RealClock()
    config = replace(config, api_server=config.api_server or access.server)
    transport = access.transport(f"podfit-agent-{config.node_name}")
    client = Client(transport)
    made = make_runtime(runtime, config.data_dir, clock, config.address)
    agent = Agent(client, made, config, clock)
    node = await _serve_alone(agent, access, client, runtime.kind != "fake")
    agent.at_stop.append(node.stop)
    await agent.start()
    _rotate(agent, access, transport, identity, node.tls if serving else None)
    return agent


def _rotate(
    agent: Agent, access: Access, transport: HttpTransport, identity: Path | None, serving: ssl.SSLContext | None
) -> None:
    from podfit.agent.node.join import keep_identity
    from podfit.agent.node.rotation import CLIENT, SERVING, Rotation

    tasks, name, client = Tasks("rotation"), agent.config.node_name, agent.client
    agent.at_stop.append(tasks.stop)

    def renew_identity(cert: bytes, key: bytes) -> None:
        assert identity is not None
        keep_identity(replace(access, cert=cert, key=key), name, identity)
        transport.show_certificate(cert, key)

    if identity is not None:
        rotation = Rotation(client, name, CLIENT, renew_identity, agent.clock)
        tasks.start(rotation.run(access.cert), "client certificate")
    if serving is not None:
        rotation = Rotation(client, name, SERVING, partial(load_pair, serving), agent.clock, (name, agent.node.address))
        tasks.start(rotation.run(None), "serving certificate")


async def _serve_alone(agent: Agent, access: Access, client: Client, machine: bool) -> NodeServer:
    """Starts the node's server with a self-signed certificate, as a kubelet does until its certificate is signed."""
    from podfit.agent.config import DEFAULT_PORT
    from podfit.agent.server.access import Gate, serving_tls
    from podfit.agent.server.server import NodeServer
    from podfit.apiserver.auth.certs.selfsigned import self_signed

    name, address = agent.config.node_name, agent.node.address
    pair = await self_signed(name, (name, address))
    tls = serving_tls(pair.cert, pair.key, access.ca)
    gate = Gate(client, name, agent.clock)
    node = NodeServer(agent, tls, agent.config.listen_address or address, agent.config.port, gate, machine)
    try:
        await node.start()
    except OSError as error:
        if agent.config.port != DEFAULT_PORT:
            raise
        # Several agents may run on one machine, so the Node reports the port of this one.
        log.warning("%s; another one is used", error.strerror)
        node.port = 0
        await node.start()
    return node
