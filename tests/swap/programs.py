"""Runs the components of a cluster as processes, each Kubernetes' own or podfit's, in the network namespace of a test's
containerd.

The real programs are read from the folder that `$PODFIT_KUBERNETES` names; no package contains them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from podfit.apiserver.auth.certs.kubeconfigs import write_kubeconfig
from podfit.apiserver.auth.certs.pki import Pki
from tests.support.containers.containerd import Containerd

from . import cgroups

PROGRAMS = Path(os.environ.get("PODFIT_KUBERNETES", "/nonexistent"))
PARTS = {
    "apiserver": "kube-apiserver",
    "controllers": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "node": "kubelet",
}
NODE = "n1"
LINKS = Path("/var/log/containers")
"""The folder in which every kubelet of a machine links to the logs of its containers."""
PORT = 6443
RANGE = "10.96.0.0/16"
USERS = {"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler"}
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: /{group}
containerRuntimeEndpoint: {endpoint}
clusterDNS: [10.96.0.10]
resolvConf: /etc/resolv.conf
podLogsDir: {logs}
makeIPTablesUtilChains: false
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%}}
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: true}}, x509: {{clientCAFile: {ca}}}}}
authorization: {{mode: Webhook}}
featureGates: {{KubeletInUserNamespace: true}}
syncFrequency: 10s
"""


class Programs:
    """Processes in the network namespace of a containerd; each writes to its own log file."""

    def __init__(self, folder: Path, containerd: Containerd, *node_options: str) -> None:
        """`node_options`: further arguments of podfit's agent."""
        self.folder, self._containerd = folder, containerd
        self.address = containerd.node_address
        self.url = f"https://{self.address}:{PORT}"
        self._running: list[subprocess.Popen[bytes]] = []
        self._group = f"podfit-swap-{containerd.network.rpartition('-')[2]}"
        self.pod_logs = folder / "pod-logs"
        """Not the machine's folder: a kubelet deletes the logs there of pods it does not know."""
        self._node_options = node_options
        self.manifests: Path | None = None
        """The folder of static pods of podfit's node."""

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def config(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"

    def start(self, name: str, *command: str | Path) -> subprocess.Popen[bytes]:
        within = ("nsenter", f"--net=/run/netns/{self._containerd.network}")
        with self.log(name).open("ab") as log:
            made = subprocess.Popen([*within, *map(str, command)], stdout=log, stderr=log, cwd=self.folder)
        self._running.append(made)
        return made

    def podfit(self, name: str, *words: str | Path) -> None:
        self.start(name, sys.executable, "-m", "podfit.cli.main", *words)

    def real(self, name: str, program: str, *flags: str) -> None:
        self.start(name, PROGRAMS / program, *flags)

    def stop(self) -> None:
        for item in reversed(self._running):
            if item.poll() is None:
                item.send_signal(signal.SIGTERM)
                try:
                    item.wait(20)
                except subprocess.TimeoutExpired:
                    item.kill()
                    item.wait(20)
        self._containerd.end_pods()
        cgroups.remove(self._group)
        self._remove_links()
        # Volumes of pods that a kubelet had no time to unmount.
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.folder}/kubelet"):
                subprocess.run(["umount", "-l", place], capture_output=True, timeout=60, check=False)

    def _remove_links(self) -> None:
        """Removes dangling links: the next kubelet would query its own runtime about each one, and keep it."""
        for link in LINKS.glob("*.log"):
            if link.is_symlink() and link.readlink().is_relative_to(self.pod_logs):
                link.unlink(missing_ok=True)

    # --- API servers
    def real_apiserver(self) -> None:
        pki = Pki(self.folder / "pki", [self.address])
        keys = self.folder / "pki"
        public = pki.signing_key.public_key()
        (keys / "sa.pub").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        kubelet = pki.issue_client_cert("kube-apiserver-kubelet-client", ["system:masters"])
        (keys / "to-kubelet.crt").write_bytes(kubelet.cert)
        (keys / "to-kubelet.key").write_bytes(kubelet.key)
        etcd = ("--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379")
        peers = ("--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380")
        first = "--initial-cluster=default=http://127.0.0.1:2380"
        self.start(
            "etcd",
            str(shutil.which("etcd")),
            f"--data-dir={self.folder}/etcd",
            *etcd,
            *peers,
            first,
            "--unsafe-no-fsync",
        )
        self.real(
            "apiserver",
            "kube-apiserver",
            *("--etcd-servers=http://127.0.0.1:2379", f"--secure-port={PORT}", f"--bind-address={self.address}"),
            *(f"--advertise-address={self.address}", f"--service-cluster-ip-range={RANGE}", "--allow-privileged"),
            *(f"--tls-cert-file={keys}/apiserver.crt", f"--tls-private-key-file={keys}/apiserver.key"),
            *(f"--client-ca-file={keys}/ca.crt", "--service-account-issuer=https://kubernetes.default.svc"),
            *(f"--service-account-key-file={keys}/sa.pub", f"--service-account-signing-key-file={keys}/sa.key"),
            *(
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--enable-bootstrap-token-auth",
            ),
            *(f"--kubelet-client-certificate={keys}/to-kubelet.crt", f"--kubelet-client-key={keys}/to-kubelet.key"),
            *("--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing"),
            *(f"--requestheader-client-ca-file={keys}/front-proxy-ca.crt", "--requestheader-allowed-names="),
            *("--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={keys}/front-proxy-client.crt",
            f"--proxy-client-key-file={keys}/front-proxy-client.key",
        )
        self._write_configs(pki)
        write_kubeconfig(self.config("admin"), self.url, pki.ca, pair=pki.admin)

    def own_apiserver(self) -> None:
        # Kubernetes enables this plugin by default.
        plugins = ("--enable-admission-plugins", "PodResizeValidator")
        listen = ("--listen", f"{self.address}:{PORT}")
        self.podfit("apiserver", "apiserver", "--data-dir", self.folder, *listen, *plugins)

    def own_configs(self) -> None:
        """Returns as soon as the API server has created its keys."""
        self._write_configs(Pki(self.folder / "pki", [self.address]))

    def _write_configs(self, pki: Pki) -> None:
        for name, user in USERS.items():
            write_kubeconfig(self.config(name), self.url, pki.ca, pair=pki.issue_client_cert(user))
        write_kubeconfig(self.config("node"), self.url, pki.ca, pair=pki.node(NODE))

    # --- the other parts
    def real_controllers(self) -> None:
        keys, config = self.folder / "pki", f"--kubeconfig={self.config('controllers')}"
        signing = (f"--cluster-signing-cert-file={keys}/ca.crt", f"--cluster-signing-key-file={keys}/ca.key")
        tokens = (f"--service-account-private-key-file={keys}/sa.key", f"--root-ca-file={keys}/ca.crt")
        flags = ("--leader-elect=false", "--use-service-account-credentials", "--allocate-node-cidrs=false")
        self.real("controllers", "kube-controller-manager", config, *flags, *signing, *tokens)

    def own_controllers(self) -> None:
        keys = self.folder / "pki"
        signing = ("--cluster-signing-cert-file", keys / "ca.crt", "--cluster-signing-key-file", keys / "ca.key")
        self.podfit("controllers", "controllers", "--kubeconfig", self.config("controllers"), *signing)

    def real_scheduler(self) -> None:
        config = self.config("scheduler")
        delegated = (f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}")
        self.real("scheduler", "kube-scheduler", f"--kubeconfig={config}", *delegated, "--leader-elect=false")

    def own_scheduler(self) -> None:
        self.podfit("scheduler", "scheduler", "--kubeconfig", self.config("scheduler"))

    def real_node(self) -> None:
        settings = self.folder / "kubelet.yaml"
        cgroups.make(self._group)
        ca = self.folder / "pki" / "ca.crt"
        made = KUBELET.format(endpoint=self._containerd.endpoint, ca=ca, group=self._group, logs=self.pod_logs)
        settings.write_text(made)
        place = (f"--root-dir={self.folder}/kubelet", f"--node-ip={self.address}", f"--hostname-override={NODE}")
        self.real("node", "kubelet", f"--config={settings}", f"--kubeconfig={self.config('node')}", *place)

    def own_node(self) -> None:
        place = ("--node-name", NODE, "--node-ip", self.address, "--data-dir", self.folder / "agent")
        runtime = ("--runtime", "cri", "--container-runtime-endpoint", self._containerd.endpoint)
        static = ("--pod-manifest-path", self.manifests) if self.manifests is not None else ()
        self.podfit(
            "node", "agent", "--kubeconfig", self.config("node"), *place, *runtime, *static, *self._node_options
        )

    def starter(self, part: str, real: bool) -> Callable[[], None]:
        found: Callable[[], None] = getattr(self, f"{'real' if real else 'own'}_{part}")
        return found


def lacking(parts: Sequence[str]) -> list[str]:
    """The real programs that these components need and that are missing."""
    names = [PARTS[part] for part in parts if not (PROGRAMS / PARTS[part]).exists()]
    tools = ["kubectl", *(["etcd"] if "apiserver" in parts else [])]
    return [*names, *(name for name in tools if shutil.which(name) is None)]
