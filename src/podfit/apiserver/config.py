"""The configuration of an API server. `podfit.compose` fills it in; nothing else reads flags or files for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from podfit.api.resize.dialects import NATIVE
from podfit.kit.clock import Clock, RealClock
from podfit.kit.web.addresses import reached_at
from podfit.store.backend import Store

BODY_LIMIT = 3 * 1024 * 1024


@dataclass
class Config:
    store: Store
    data_dir: Path
    """Certificates and keys are stored here; created at the first start."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 picks a free port; see `ApiServer.url`."""
    tls: bool = True
    extra_sans: tuple[str, ...] = ()
    advertise_host: str = ""
    """The advertised address; "": the listening address, or the machine's address if the server listens on all."""
    enable_admission: tuple[str, ...] = ()
    disable_admission: tuple[str, ...] = ()
    anonymous: bool = True
    service_cidr: str = "10.96.0.0/16"
    token_file: Path | None = None
    in_flight: tuple[int, int] = (400, 200)
    """The most requests in flight: reads and writes."""
    install_vpa: bool = True
    resize_dialect: str = NATIVE
    """The dialect of in-place resize in namespaces without a label."""
    clock: Clock = field(default_factory=RealClock)

    @property
    def advertised(self) -> str:
        return self.advertise_host or reached_at(self.host)
