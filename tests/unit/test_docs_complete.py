"""The documentation covers every flag, metric and reason of the code, and deploy/ refers only to what exists."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import inventory

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SUFFIXES = ("_bucket", "_sum", "_count")
PROMQL = frozenset(("sum", "rate", "increase", "histogram_quantile", "and", "or", "unless", "max", "min", "avg", "up"))
"""Keywords of the query language, and the one metric that Prometheus adds itself."""


def words_of(page: Path) -> set[str]:
    return set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", page.read_text()))


@pytest.mark.parametrize("command", sorted(inventory.flags()))
def test_every_flag_of_a_command_is_on_its_page(command: str) -> None:
    page = DOCS / "commands" / f"{command.split()[0]}.md"
    assert page.exists(), f"docs/commands/{page.name} is missing: write it, then run scripts/doc-tables"
    text = page.read_text()
    missing = sorted(flag for flag in inventory.flags()[command] if f"`{flag}`" not in text)
    assert not missing, f"{page.name} lacks {missing}: run scripts/doc-tables"


def test_every_command_is_in_the_index() -> None:
    index = (DOCS / "commands" / "README.md").read_text()
    assert not [name for name in inventory.flags() if f"({name.split()[0]}.md)" not in index]


def test_every_page_is_about_a_command_that_exists() -> None:
    known = {name.split()[0] for name in inventory.flags()} | {"README"}
    assert not {page.stem for page in (DOCS / "commands").glob("*.md")} - known


def test_every_metric_is_documented_and_nothing_else() -> None:
    listed = set(re.findall(r"^\| `([a-z0-9_]+)` \| [a-z]+ \|", (DOCS / "metrics.md").read_text(), re.MULTILINE))
    assert not inventory.metrics() - listed
    assert not listed - inventory.metrics()


def test_every_metric_is_documented_with_its_labels() -> None:
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| [a-z]+ \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    documented = {name: tuple(labels.replace(",", " ").split()) for name, labels in rows}
    assert documented == inventory.metric_labels(), "run scripts/doc-tables"


def test_every_fixed_set_of_label_values_is_documented() -> None:
    assert inventory.label_table() in (DOCS / "metrics.md").read_text(), "run scripts/doc-tables"


OPEN = frozenset(
    (
        *("container", "group", "host", "id", "image", "name", "namespace", "pod", "pod_uid", "resource"),
        *("subresource", "url", "version", "vpa", "vpa_name", "vpa_namespace", "code", "reason", "numa_node"),
        *("priority_level", "flow_schema"),
    )
)
"""Labels whose values are names, numbers of the machine, HTTP status codes or reasons."""


def test_labels_that_are_not_names_declare_their_values() -> None:
    declared = inventory.label_values()
    free = {
        (metric, label)
        for metric, labels in inventory.metric_labels().items()
        for label in labels
        if label not in OPEN and label not in declared.get(metric, {})
    }
    assert not free


def test_every_reason_and_condition_is_documented() -> None:
    missing = inventory.reasons() - words_of(DOCS / "conditions.md")
    assert not missing, f"docs/conditions.md lacks {sorted(missing)}"


def quoted_messages() -> list[str]:
    """Code spans of several words that are neither command lines nor settings."""
    spans = re.findall(r"`([^`\n]+)`", (DOCS / "conditions.md").read_text())
    return [span for span in spans if " " in span and not re.match(r"(podfit|kubectl|--)|[a-z./-]+: \S+$", span)]


@pytest.mark.parametrize("message", quoted_messages())
def test_every_message_quoted_in_the_conditions_exists(message: str) -> None:
    assert inventory.is_written(message)


@pytest.mark.parametrize(
    "message",
    [
        "needs 300m cpu, node n1 has 120m free",
        "Node ran short of resource: cpu, requested: 300, used: 1880, capacity: 2000",
        "cannot decrease memory limits: the container uses more than that",
    ],
)
def test_a_message_that_no_component_writes_is_noticed(message: str) -> None:
    assert quoted_messages() and not inventory.is_written(message)


def test_the_conditions_name_no_cause_that_the_differences_deny() -> None:
    [infeasible] = re.findall(
        r"^\| its reason \| `Infeasible` \|.*$", (DOCS / "conditions.md").read_text(), re.MULTILINE
    )
    denied = (DOCS / "differences.md").read_text()
    for cause in ("swap", "static memory polic"):
        assert f"no {cause}" in denied and cause not in infeasible


def test_the_inventory_finds_what_is_known_to_be_there() -> None:
    assert {"PodResizePending", "ResizeStarted", "FailedScheduling", "PanicButton"} <= inventory.reasons()
    assert {"apiserver_request_total", "container_oom_events_total"} <= inventory.metrics()
    assert "--dry-run" in inventory.flags()["resize"] and "--min-replicas" in inventory.flags()["vpa updater"]


PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_the_readme_leads_to_every_guide() -> None:
    text = (ROOT / "README.md").read_text()
    guides = [page for page in DOCS.glob("*.md") if page.name != "performance.md"]
    assert not [page.name for page in guides if f"docs/{page.name}" not in text]


# --- deploy


def names_in(expression: str) -> set[str]:
    bare = re.sub(r'"[^"]*"', "", re.sub(r"\{[^}]*\}", "", expression))
    bare = re.sub(r"\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring)\s*\([^)]*\)", "", bare)
    found = set(re.findall(r"[a-z_][a-z0-9_]+", bare)) - PROMQL
    return {_family(name) for name in found}


def _family(name: str) -> str:
    """A histogram's series belong to the histogram."""
    if name in inventory.metrics():
        return name
    return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: str(rule["alert"]))
def test_alerts_query_metrics_that_exist_and_say_what_to_do(rule: dict[str, Any]) -> None:
    assert names_in(rule["expr"]) <= inventory.metrics()
    assert rule["annotations"]["summary"] and rule["annotations"]["action"]


def test_the_dashboard_queries_metrics_that_exist() -> None:
    board = json.loads((ROOT / "deploy/grafana/podfit.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) > 10
    assert not {name for item in asked for name in names_in(item)} - inventory.metrics()


@pytest.mark.parametrize("unit", ["podfit", "podfit-agent"])
def test_units_start_commands_that_exist_and_leave_pods_running(unit: str) -> None:
    parser = configparser.ConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(ROOT / f"deploy/systemd/{unit}.service")
    words = parser["Service"]["ExecStart"].split()
    assert words[0].endswith("/podfit") and parser["Service"]["KillMode"] == "process"
    known = inventory.flags()[words[1]]
    assert all(word in known for word in words if word.startswith("--"))


def test_the_containerfile_copies_existing_files_only() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "deploy/Containerfile").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def design_statements() -> list[list[str]]:
    """The rows of the table about the autoscaler's design document: statement, how it is met, tests."""
    text = (DOCS / "vpa.md").read_text().partition("| statement | how it is met | test |\n|---|---|---|\n")[2]
    return [line.strip().strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]


def test_every_statement_of_the_autoscalers_design_has_a_way_and_a_test() -> None:
    rows = design_statements()
    assert len(rows) > 75
    assert not [row for row in rows if len(row) != 3 or not all(cell.strip() for cell in row)]
    assert not [row[0] for row in rows if not re.search(r"`test_\w+`", row[2])]
    assert len({row[0] for row in rows}) == len(rows), "a statement stands once"


def test_every_test_that_the_statements_name_exists_in_its_file() -> None:
    there: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        found = re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
        there.setdefault(path.name, set()).update(found)
    missing = []
    for row in design_statements():
        file = ""
        for name in re.findall(r"`(test_\w+(?:\.py)?)`", row[2]):
            if name.endswith(".py"):
                file = name
            elif name not in there.get(file, set()):
                missing.append((file, name))
    assert not missing
