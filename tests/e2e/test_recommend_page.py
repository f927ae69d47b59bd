"""`podfit recommend` as a user runs it: against `podfit up` and a real Prometheus, and its page in a real browser."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.support.servers.prometheus import Prometheus, backfill, installed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MI = 1 << 20
pytestmark = [
    pytest.mark.skipif(not installed(), reason="prometheus and promtool are not installed"),
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
]
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "i",
                        "command": ["java", "-Xmx384m", "-jar", "<script>alert(1)</script>"],
                        "resources": {
                            "requests": {"cpu": "1", "memory": "1Gi"},
                            "limits": {"cpu": "2", "memory": "2Gi"},
                        },
                    }
                ]
            },
        },
    },
}


class Site:
    """A cluster whose Deployment has eight days of history in a Prometheus."""

    def __init__(self, running: Running, url: str) -> None:
        self.running, self.url = running, url

    def recommend(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "podfit.cli.main", "recommend", "--kubeconfig", str(self.running.kubeconfig)]
        command += ["--prometheus", self.url, "--fresh", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=180, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


def history(pods: list[str], end: int) -> Iterator[str]:
    instants = range(end - 8 * 86400, end + 1, 300)
    series = [f'namespace="default",pod="{pod}",container="main"' for pod in pods]
    yield "# TYPE container_cpu_usage_seconds counter"
    for row in series:
        for at in instants:
            yield f"container_cpu_usage_seconds_total{{{row}}} {0.2 * (at - instants[0])} {at}"
    yield "# TYPE container_memory_working_set_bytes gauge"
    for row in series:
        for number, at in enumerate(instants):
            yield f"container_memory_working_set_bytes{{{row}}} {(200 + number % 50) * MI} {at}"
    yield "# EOF"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    running = Running(tmp_path_factory.mktemp("up"), "--node-name", "n1", "--runtime", "fake", "--node-cpu", "8")
    folder = tmp_path_factory.mktemp("prometheus")
    loop = asyncio.new_event_loop()
    prometheus: Prometheus | None = None
    try:
        running.start()
        running.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(WEB))
        eventually(lambda: len(_running(running)) == 2, "two pods run")
        backfill(folder, history(_running(running), int(time.time()) // 300 * 300))
        prometheus = Prometheus(folder)
        loop.run_until_complete(prometheus.start())
        yield Site(running, prometheus.url)
    finally:
        if prometheus is not None:
            loop.run_until_complete(prometheus.stop())
        loop.close()
        running.stop()


def _running(up: Running) -> list[str]:
    pods = up.json("get", "pods", "-l", "app=web")["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]


def _sizes(up: Running) -> set[tuple[str, str]]:
    pods = up.json("get", "pods", "-l", "app=web")["items"]
    asked = [pod["spec"]["containers"][0]["resources"]["requests"] for pod in pods]
    return {(entry["cpu"], entry["memory"]) for entry in asked}


def test_the_page_draws_its_charts_in_a_browser_and_sends_no_request(site: Site, tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    page = tmp_path / "report.html"
    page.write_text(site.recommend("-o", "html", "--price-cpu", "0.03", "--price-memory", "0.004").stdout)
    text = page.read_text()
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:|#)""", text)
    assert "http://" not in text and "https://" not in text
    log = tmp_path / "net.json"
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=3000", "--enable-logging=stderr", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    log.write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count('class="chart"') == 2, "cpu and memory of one container"
    assert 'href="#c0"' in done.stdout and 'id="c0"' in done.stdout, "the table leads to the charts"
    assert 'data-resource="memory"' in done.stdout and 'class="fits"' in done.stdout
    assert "CONSOLE" not in done.stderr, "no error of a script, no address refused"
    assert "default/deployment/web" in done.stdout and "<script>alert" not in text


def test_heap_settings_are_a_floor_and_say_so(site: Site) -> None:
    [one] = json.loads(site.recommend("deployment/web", "-o", "json").stdout)["containers"]
    assert one["recommended"]["requests"]["memory"] == "423Mi"
    assert any("-Xmx384m" in why for why in one["why"]) and any("restart" in words for words in one["notes"])
    [free] = json.loads(site.recommend("deployment/web", "-o", "json", "--no-runtimes").stdout)["containers"]
    assert int(free["recommended"]["requests"]["memory"].removesuffix("Mi")) < 423


def test_without_a_yes_nothing_is_changed(site: Site) -> None:
    before = _sizes(site.running)
    refused = site.recommend("--apply", code=1)
    assert "nothing was changed" in refused.stderr and _sizes(site.running) == before
    for how in ("--dry-run", "--dry-run=server"):
        assert "would be resized" in (out := site.recommend("--apply", how, "-y").stdout) or "dry run" in out
        assert _sizes(site.running) == before


def test_patches_can_be_applied_by_kubectl(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "patches"
    site.recommend("--patch-dir", str(folder))
    [patch] = [path for path in folder.iterdir() if "deployment-web" in path.name]
    content = yaml.safe_load(patch.read_text())
    assert content["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] == "423Mi"
    words = site.running.kubectl("patch", "deploy/web", "--patch-file", str(patch), "--dry-run=server")
    assert "patched" in words


def test_applying_resizes_running_pods_in_place_and_leaves_a_template_that_would_recreate_them(site: Site) -> None:
    names = _running(site.running)
    done = site.recommend("deployment/web", "--apply", "--yes")
    assert done.stdout.count("resized") == 2 and "the template stays" in done.stderr
    assert _running(site.running) == names
    assert {memory for _, memory in _sizes(site.running)} == {"423Mi"}


def test_wrong_options_are_refused_before_anything_is_sent(site: Site) -> None:
    for wrong in (("--sort", "size"), ("--history", "soon"), ("--min-cpu", "x"), ("--source", "crystal ball")):
        site.recommend(*wrong, code=2)
    assert "is above" in site.recommend("--min-cpu", "2", "--max-cpu", "1", code=2).stderr
