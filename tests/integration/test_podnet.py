"""Networks of pods in real namespaces: connected, reachable, completely removed, also after a crash at any step."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.kernelnet import leftovers, links, run, skip_without_networks

from podfit.podnet.attachment import Attachments, PodRequest
from podfit.podnet.failures import NetworkFailure, PortTaken, RangeExhausted
from podfit.podnet.kernel import firewall, forwarding, namespaces
from podfit.podnet.kernel.netlink import Netlink
from podfit.podnet.kernel.redirects import Redirects
from podfit.podnet.leases import Leases
from podfit.podnet.network import NetworkSettings, PodNetwork
from podfit.podnet.ports import PortMapping

NO_CNI = NetworkSettings(cni_conf_dir=Path("/nonexistent"))


class Node:
    """A node's network, which can be recreated as after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder / "network", uuid.uuid4().hex[:8]
        self.network = self.make()

    def make(self, settings: NetworkSettings = NO_CNI) -> PodNetwork:
        return PodNetwork(self.folder, self.mark, settings)

    async def restart(self, settings: NetworkSettings = NO_CNI) -> None:
        await self.network.close()
        self.network = self.make(settings)
        await self.network.open()

    async def pod(self, uid: str = "", ports: tuple[PortMapping, ...] = ()) -> str:
        """Connects a pod and returns its address."""
        got = await self.network.connect(PodRequest(uid or uuid.uuid4().hex, "default", "web", ports))
        assert got is not None
        return got.ips[0]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    skip_without_networks()
    made = Node(tmp_path)
    await made.network.open()
    yield made
    await made.network.purge()
    await made.network.close()
    assert leftovers(made.mark) == []


async def answer_in(node: Node, uid: str, port: int, text: bytes) -> asyncio.Task[None]:
    """A server inside the pod."""
    attachment = node.network.of(uid)
    assert attachment is not None
    listener = await namespaces.socket_in(Path(attachment.namespace), socket.AF_INET)
    listener.bind(("", port))
    listener.listen(16)
    listener.setblocking(False)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        with listener:
            while True:
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    await loop.sock_sendall(connection, text)

    return asyncio.create_task(serve())


async def ask(address: str, port: int, inside: str = "") -> bytes:
    made = await namespaces.socket_in(Path(inside), socket.AF_INET) if inside else socket.socket()
    with made:
        made.setblocking(False)
        async with asyncio.timeout(10):
            await asyncio.get_running_loop().sock_connect(made, (address, port))
            return await asyncio.get_running_loop().sock_recv(made, 100)


async def test_pods_answer_on_the_same_port_each_under_its_own_address(node: Node) -> None:
    addresses = [await node.pod(uid) for uid in ("a", "b", "c")]
    servers = [await answer_in(node, uid, 8080, uid.encode()) for uid in ("a", "b", "c")]
    assert [await ask(address, 8080) for address in addresses] == [b"a", b"b", b"c"]
    attachment = node.network.of("a")
    assert attachment is not None
    assert await ask(addresses[1], 8080, attachment.namespace) == b"b", "pods reach each other"
    for server in servers:
        server.cancel()


async def test_a_pod_that_is_connected_again_keeps_no_second_address(node: Node) -> None:
    await node.pod("a")
    await node.pod("a")
    assert len([name for name in links() if name.startswith(f"pf{node.mark}-")]) == 1


async def test_a_pod_keeps_its_address_and_its_connection_over_a_restart(node: Node) -> None:
    address = await node.pod("a")
    server = await answer_in(node, "a", 8080, b"a")
    await node.restart()
    assert node.network.is_connected("a")
    assert await ask(address, 8080) == b"a"
    assert await node.pod("b") != address
    server.cancel()


async def test_a_host_port_leads_to_the_pod_from_loopback_and_from_another_pod(node: Node) -> None:
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    await node.pod("a", (PortMapping(port, 8080),))
    await node.pod("b")
    server = await answer_in(node, "a", 8080, b"a")
    own, other = node.network.of("a"), node.network.of("b")
    assert own is not None and other is not None
    gateway = f"{own.ips[0].rpartition('.')[0]}.1"
    assert await ask("127.0.0.1", port) == b"a"
    assert await ask(gateway, port, other.namespace) == b"a"
    assert await ask(gateway, port, own.namespace) == b"a", "also from the pod itself"
    await node.restart()
    assert await ask("127.0.0.1", port) == b"a"
    await node.network.disconnect("a")
    with pytest.raises(OSError):
        await ask("127.0.0.1", port)
    server.cancel()


async def test_a_host_port_of_one_address_does_not_answer_at_another(node: Node) -> None:
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    await node.pod("a", (PortMapping(port, 8080, host_ip="127.0.0.2"),))
    server = await answer_in(node, "a", 8080, b"a")
    assert await ask("127.0.0.2", port) == b"a"
    with pytest.raises(ConnectionRefusedError):
        await ask("127.0.0.1", port)
    server.cancel()


async def test_a_host_port_in_use_is_refused_by_name_and_available_later(node: Node) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"host port {port}/TCP is in use"):
            await node.pod("a", (PortMapping(port, 80),))
        assert node.network.of("a") is None
    assert await node.pod("a", (PortMapping(port, 80),))


async def test_nothing_else_can_listen_on_a_pods_host_port(node: Node) -> None:
    with socket.create_server(("", 0)) as free:
        port = free.getsockname()[1]
    await node.pod("a", (PortMapping(port, 80),))
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("", port))


async def test_a_service_address_leads_to_the_hosts_loopback(node: Node) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        await node.network.redirect("10.96.0.1", 443, "127.0.0.1", port)
        await node.pod("a")
        attachment = node.network.of("a")
        assert attachment is not None

        async def serve() -> None:
            while True:
                connection, peer = await asyncio.get_running_loop().sock_accept(server)
                with connection:
                    await asyncio.get_running_loop().sock_sendall(connection, peer[0].encode())

        task = asyncio.create_task(serve())
        assert await ask("10.96.0.1", 443, attachment.namespace) == attachment.ips[0].encode()
        task.cancel()


async def test_pods_of_another_network_are_redirected_once_they_are_followed(node: Node) -> None:
    """As for a container runtime whose pods are connected by CNI."""
    ip = await node.pod("a")
    attachment = node.network.of("a")
    assert attachment is not None
    redirects = Redirects(f"podfit-{node.mark}_cri-vm.fast")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        await redirects.redirect("10.96.0.1", 443, *server.getsockname())
        await redirects.follow(("fd00::1", ip))

        async def serve() -> None:
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
            with connection:
                await asyncio.get_running_loop().sock_sendall(connection, b"reached")

        task = asyncio.create_task(serve())
        assert await ask("10.96.0.1", 443, attachment.namespace) == b"reached"
        await task
    await redirects.purge()
    assert not [line for line in leftovers(node.mark) if "cri" in line]


async def test_packets_of_pods_for_the_hosts_loopback_are_dropped(node: Node) -> None:
    """The redirect above needs route_localnet on the bridge, which alone would let pods reach the host's loopback."""
    await node.pod("a")
    attachment = node.network.of("a")
    assert attachment is not None
    inside, gateway = ("nsenter", f"--net={attachment.namespace}"), f"{attachment.ips[0].rpartition('.')[0]}.1"
    for destination in ("127.0.0.0/8", "127.0.0.1"):
        run("ip", "route", "del", "local", destination, "table", "local", within=inside)
    run("ip", "route", "add", "127.0.0.1/32", "via", gateway, within=inside)
    run("sysctl", "-qw", "net.ipv4.conf.eth0.route_localnet=1", within=inside)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as guarded,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as reached,
    ):
        guarded.bind(("127.0.0.1", 0))
        reached.bind((gateway, 0))
        reached.settimeout(10)

        def send() -> None:
            namespaces.enter(Path(attachment.namespace))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"to loopback", guarded.getsockname())
                sender.sendto(b"to the gateway", reached.getsockname())

        await namespaces.in_thread(send)
        assert reached.recv(100) == b"to the gateway"
        guarded.setblocking(False)
        with pytest.raises(BlockingIOError):
            guarded.recv(100)


async def test_kernel_parameters_are_set_for_the_pod_alone(node: Node) -> None:
    host = Path("/proc/sys/net/ipv4/tcp_keepalive_time")
    before = host.read_text()
    request = PodRequest("a", "default", "web", sysctls={"net.ipv4.tcp_keepalive_time": "1234"})
    attachment = await node.network.connect(request)
    assert attachment is not None
    assert run("cat", str(host), within=("nsenter", f"--net={attachment.namespace}")) == "1234\n"
    assert host.read_text() == before
    with pytest.raises(NetworkFailure, match='cannot set sysctl "net.ipv4.tcp_keepalive_time" to "soon"'):
        await node.network.connect(PodRequest("b", "default", "web", sysctls={"net.ipv4.tcp_keepalive_time": "soon"}))
    assert node.network.of("b") is None


async def test_an_exhausted_range_refuses_and_takes_pods_again_when_one_is_freed(node: Node) -> None:
    node.network.set_range("10.63.255.0/30")
    assert await node.pod("a") == "10.63.255.2"
    with pytest.raises(RangeExhausted, match=r"10\.63\.255\.0/30"):
        await node.pod("b")
    assert node.network.of("b") is None
    await node.network.disconnect("a")
    assert await node.pod("b") == "10.63.255.2"


async def test_another_range_is_used_when_no_pod_has_an_address_of_the_old_one(node: Node) -> None:
    old = await node.pod("a")
    node.network.set_range("10.63.254.0/24")
    assert (await node.pod("b")).rpartition(".")[0] == old.rpartition(".")[0], "the range in use stays"
    await node.network.disconnect("a")
    await node.network.disconnect("b")
    node.network.set_range("")
    node.network.set_range("10.63.254.0/24")
    assert (await node.pod("c")).startswith("10.63.254.")


async def test_a_node_that_stops_without_pods_leaves_nothing(node: Node) -> None:
    await node.pod("a")
    await node.network.close()
    assert any("link podfit-" in leftover for leftover in leftovers(node.mark)), "the pod keeps its network"
    await node.restart()
    await node.network.disconnect("a")
    await node.network.close()
    assert leftovers(node.mark) == []
    await node.restart()
    assert await node.pod("b")


async def test_a_removed_bridge_is_recreated(node: Node) -> None:
    await node.pod("a")
    run("ip", "link", "delete", f"podfit-{node.mark}")
    with pytest.raises(NetworkFailure):
        await node.pod("b")
    address = await node.pod("b")
    server = await answer_in(node, "b", 80, b"b")
    assert await ask(address, 80) == b"b"
    server.cancel()


class Killed(BaseException):
    """Stands for SIGKILL: nothing is cleaned up."""


STEPS = ((Netlink, "_send"), (Attachments, "save"), (Leases, "_write"), (Leases, "_persist"), (firewall, "_nft"))


async def test_a_crash_at_any_step_leaves_nothing_that_cannot_be_taken_back(node: Node) -> None:
    crashes = step = 0
    while True:
        with pytest.MonkeyPatch.context() as patched:
            calls = [0]
            for owner, name in STEPS:
                patched.setattr(owner, name, killing(getattr(owner, name), calls, step))
            try:
                await node.pod(f"crash-{step}", (PortMapping(0, 80),))
            except Killed:
                crashes += 1
        await node.restart()
        if calls[0] <= step:
            break
        address = await node.pod(f"crash-{step}")
        assert node.network.is_connected(f"crash-{step}")
        assert address != await node.pod(f"next-{step}")
        await node.network.purge()
        assert leftovers(node.mark) == []
        step += 1
    assert crashes > 10


def killing(real: Callable[..., object], calls: list[int], last: int) -> Callable[..., object]:
    def counted(*given: object) -> object:
        calls[0] += 1
        if calls[0] > last:
            raise Killed
        return real(*given)

    return counted


async def test_forwarding_is_on_while_pods_need_it_and_then_as_before(node: Node) -> None:
    """Other podfits on the machine use the setting as well, so it is checked only while it is on."""
    switch = Path("/proc/sys/net/ipv4/ip_forward")
    await node.pod("a")
    assert switch.read_text().strip() == "1"
    with forwarding.shared() as folder:
        assert (folder / "users" / node.mark).exists()
    await node.network.purge()
    with forwarding.shared() as folder:
        assert not (folder / "users" / node.mark).exists()


def test_links_of_others_are_left_as_they_were(tmp_path: Path) -> None:
    skip_without_networks()
    mark = uuid.uuid4().hex[:8]
    ours, theirs = f"pfa{mark}", f"pfb{mark}"
    switch = "/proc/sys/net/ipv4/conf/{}/route_localnet"
    for name in (ours, theirs):
        run("ip", "link", "add", name, "type", "bridge")
    try:
        Path(switch.format(theirs)).write_text("1")
        table = firewall.Firewall(mark)
        table.open([ours, theirs])
        assert Path(switch.format(ours)).read_text() == "1\n"
        again = firewall.Firewall(mark)
        again.open([ours, theirs])
        again.close()
        assert [Path(switch.format(name)).read_text() for name in (ours, theirs)] == ["0\n", "1\n"]
    finally:
        for name in (ours, theirs):
            run("ip", "link", "delete", name)
    assert leftovers(mark) == []
