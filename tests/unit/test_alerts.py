"""Every alert rule fires when it should and does not when it should not, according to Prometheus' own test runner."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

PROMETHEUS = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
TESTS = PROMETHEUS / "tests" / "alerts.yaml"

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def alerts() -> list[str]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def checks(alert: str) -> list[dict[str, Any]]:
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    return [check for test in tests for check in test["alert_rule_test"] if check["alertname"] == alert]


@pytest.mark.parametrize("alert", alerts())
def test_an_alert_is_tested_to_fire_and_to_keep_quiet(alert: str) -> None:
    fires = [bool(check["exp_alerts"]) for check in checks(alert)]
    assert any(fires), f"no test in {TESTS.name} in which {alert} fires"
    assert not all(fires), f"no test in {TESTS.name} in which {alert} keeps quiet"


def run(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@needs_promtool
def test_alerts_do_as_their_tests_say() -> None:
    assert run("test", "rules", str(TESTS)) == ""


@needs_promtool
def test_an_alert_that_joins_different_labels_fails_its_test(tmp_path: Path) -> None:
    """The runner evaluates the rules: an `and` between series that share no labels is never true."""
    (tmp_path / "tests").mkdir()
    text = (PROMETHEUS / "alerts.yaml").read_text()
    broken = text.replace(
        "and sum by (instance) (vpa_recommender_vpa_objects_count",
        "and sum by (job) (vpa_recommender_vpa_objects_count",
    )
    assert broken != text
    (tmp_path / "alerts.yaml").write_text(broken)
    shutil.copy(TESTS, tmp_path / "tests")
    assert "RecommenderStuck" in run("test", "rules", str(tmp_path / "tests" / TESTS.name))
