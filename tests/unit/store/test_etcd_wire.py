"""Without its packages the etcd store reports what to install; the other stores work without them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import podfit

PROGRAM = """
import sys
sys.modules["aetcd"] = sys.modules["grpc"] = None
from podfit.store.backend import Unusable
from podfit.store.etcd import EtcdStore
try:
    EtcdStore(["127.0.0.1:2379"])
except Unusable as error:
    print(error)
"""


def test_a_missing_package_is_named() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(podfit.__file__).parent.parent)}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=True)
    assert "aetcd" in ran.stdout and "pip install" in ran.stdout
