"""Workloads, Jobs and CronJobs: every error with Kubernetes' message and field."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

SELECTOR = {"matchLabels": {"a": "b"}}
BAD_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Foo"}]}
_OPERATOR = 'spec.selector.matchExpressions[0].operator: Invalid value: "Foo": not a valid selector operator'
_SHOWN = '{"matchExpressions":[{"key":"a","operator":"Foo"}]}'
_NEGATIVE = "must be greater than or equal to 0"


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def made(kind: str, spec: dict[str, Any], name: str = "w") -> dict[str, Any]:
    strategy = strategy_for(kind_named(kind))
    obj = {"metadata": {"name": name, "namespace": "d", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    obj = copy.deepcopy(obj)
    strategy.default(obj)
    strategy.prepare_create(obj)
    return obj


def workload(kind: str, name: str = "w", **spec: Any) -> list[str]:
    whole = {"selector": SELECTOR, "template": template(), **spec}
    return [str(each) for each in strategy_for(kind_named(kind)).validate_create(made(kind, whole, name))]


def job(name: str = "w", **spec: Any) -> list[str]:
    whole = {"template": template(restartPolicy="Never"), **spec}
    return [str(each) for each in strategy_for(kind_named("Job")).validate_create(made("Job", whole, name))]


def cron(name: str = "w", **spec: Any) -> list[str]:
    inner = {"spec": {"template": template(restartPolicy="Never")}}
    whole = {"schedule": "* * * * *", "jobTemplate": inner, **spec}
    return [str(each) for each in strategy_for(kind_named("CronJob")).validate_create(made("CronJob", whole, name))]


@pytest.mark.parametrize(
    ("kind", "spec", "wanted"),
    [
        (
            "Deployment",
            {"strategy": {"type": "X"}},
            [
                'spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: "Recreate", '
                '"RollingUpdate"'
            ],
        ),
        (
            "Deployment",
            {"selector": BAD_SELECTOR},
            [_OPERATOR, f"spec.selector: Invalid value: {_SHOWN}: invalid label selector"],
        ),
        ("StatefulSet", {"selector": BAD_SELECTOR}, [_OPERATOR, f"spec.selector: Invalid value: {_SHOWN}"]),
        ("DaemonSet", {"selector": BAD_SELECTOR}, [_OPERATOR]),
        ("StatefulSet", {"ordinals": {"start": -1}}, [f"spec.ordinals.start: Invalid value: -1: {_NEGATIVE}"]),
        (
            "StatefulSet",
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
            [
                'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed '
                "for updateStrategy 'RollingUpdate'"
            ],
        ),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, []),
        (
            "StatefulSet",
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}},
            [
                'spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "X": supported values: '
                '"Retain", "Delete"'
            ],
        ),
        (
            "DaemonSet",
            {"updateStrategy": {"type": "X"}},
            [
                'spec.updateStrategy: Unsupported value: {"Type":"X","RollingUpdate":null}: supported values: '
                '"RollingUpdate", "OnDelete"'
            ],
        ),
        (
            "DaemonSet",
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
                "non-zero"
            ],
        ),
        (
            "DaemonSet",
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        ),
    ],
)
def test_a_workload_is_refused_in_kubernetes_words(kind: str, spec: dict[str, Any], wanted: list[str]) -> None:
    assert workload(kind, **spec) == wanted


def test_a_stateful_set_may_mount_its_claims() -> None:
    mounts = {"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    assert workload("StatefulSet", template=template(**mounts), volumeClaimTemplates=[claim]) == []
    lacking = workload("StatefulSet", template=template(**mounts))
    assert lacking == ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"']


@pytest.mark.parametrize(
    ("kind", "status", "wanted"),
    [
        (
            "Deployment",
            {"readyReplicas": 2},
            ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "ReplicaSet",
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
        ),
        (
            "StatefulSet",
            {"replicas": 2, "readyReplicas": 1, "availableReplicas": 2},
            ["status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas"],
        ),
        ("DaemonSet", {"numberReady": -1}, [f"status.numberReady: Invalid value: -1: {_NEGATIVE}"]),
        (
            "Deployment",
            {"replicas": 0, "collisionCount": 0},
            ["status.collisionCount: Invalid value: 0: cannot be decremented"],
        ),
    ],
)
def test_numbers_of_a_status_must_agree(kind: str, status: dict[str, Any], wanted: list[str]) -> None:
    strategy = strategy_for(kind_named(kind))
    old = made(kind, {"selector": SELECTOR, "template": template()})
    old["status"] = {"collisionCount": 1} if "collisionCount" in status else {}
    assert [str(each) for each in strategy.validate_status({**old, "status": status}, old)] == wanted


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet"])
def test_a_name_that_makes_odd_host_names_gets_a_warning(kind: str) -> None:
    found = strategy_for(kind_named(kind)).warnings_create(made(kind, {"template": template()}, "a.b"))
    assert found == [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label "
        "is recommended: [must not contain dots]"
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"completionMode": "X"},
            ['spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"'],
        ),
        (
            {"maxFailedIndexes": 1},
            [
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        ),
        (
            {"podFailurePolicy": {"rules": [{"action": "FailJob"}]}},
            [
                "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is "
                "required"
            ],
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2, 1]}}]
                }
            },
            [
                'spec.podFailurePolicy.rules[0].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex '
                "to be set",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,1]: must be ordered",
            ],
        ),
        (
            {"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": [{"succeededIndexes": "0,5"}]}},
            [
                'spec.successPolicy.rules[0].succeededIndexes: Invalid value: "0,5": error parsing succeededIndexes: '
                'too large index: "5"'
            ],
        ),
        (
            {"managedBy": "x"},
            ['spec.managedBy: Invalid value: "x": must be a domain-prefixed path (such as "acme.io/foo")'],
        ),
    ],
)
def test_a_job_is_refused_in_kubernetes_words(spec: dict[str, Any], wanted: list[str]) -> None:
    assert job(**spec) == wanted


def test_labels_the_server_gives_a_job_may_not_be_set_otherwise() -> None:
    wrong = template(restartPolicy="Never")
    wrong["metadata"]["labels"]["job-name"] = "other"
    found = job(template=wrong)
    assert found[0].startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert found[0].endswith("must be 'w'")


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("a b c", "expected exactly 5 fields, found 3: [a b c]"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("99 * * * *", "end of range (99) above maximum (59): 99"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("@often", "unrecognized descriptor: @often"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("TZ=UTC * * * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_the_parsers_message(schedule: str, wanted: str) -> None:
    assert cron(schedule=schedule) == [f'spec.schedule: Invalid value: "{schedule}": {wanted}']


@pytest.mark.parametrize(
    "schedule", ["*/5 0-6 1,15 jan-mar MON", "@hourly", "@every 1h30m", "? ? ? ? ?", "0/15 * * * *"]
)
def test_every_schedule_that_cron_accepts_is_accepted(schedule: str) -> None:
    assert cron(schedule=schedule) == []


@pytest.mark.parametrize(
    ("zone", "wanted"),
    [
        ("Nowhere", ["unknown time zone Nowhere"]),
        ("", ["timeZone must be nil or non-empty string"]),
        ("../etc", ["unknown time zone ../etc"]),
        ("Europe/Berlin", []),
    ],
)
def test_a_time_zone_is_one_that_is_known(zone: str, wanted: list[str]) -> None:
    assert cron(timeZone=zone) == [f'spec.timeZone: Invalid value: "{zone}": {text}' for text in wanted]


def _true(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True"} for kind in kinds]


START, END = "2021-01-01T00:00:00Z", "2021-01-01T00:01:00Z"


@pytest.mark.parametrize(
    ("before", "now", "wanted"),
    [
        ({}, {"active": -1}, [f"status.active: Invalid value: -1: {_NEGATIVE}"]),
        ({"failed": 2}, {"failed": 1}, ["status.failed: Invalid value: 1: cannot decrease the failed counter"]),
        ({}, {"ready": 1}, ["status.ready: Invalid value: 1: cannot set more ready pods than active"]),
        (
            {},
            {"startTime": START, "completionTime": END},
            [
                f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no '
                "Complete=True condition"
            ],
        ),
        (
            {},
            {"startTime": START, "completionTime": END, "conditions": _true("Complete")},
            [
                "status.conditions: Invalid value: cannot set Complete=True condition without the "
                "SuccessCriteriaMet=true condition"
            ],
        ),
        (
            {"startTime": START, "conditions": _true("FailureTarget")},
            {"startTime": START},
            ["status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition"],
        ),
        (
            {},
            {"completedIndexes": "0"},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode"
            ],
        ),
        (
            {},
            {"startTime": START, "completionTime": END, "conditions": _true("SuccessCriteriaMet", "Complete")},
            [],
        ),
    ],
)
def test_a_job_ends_only_once_and_reports_it(before: dict[str, Any], now: dict[str, Any], wanted: list[str]) -> None:
    strategy = strategy_for(kind_named("Job"))
    old = made("Job", {"template": template(restartPolicy="Never")})
    old["status"] = before
    assert [str(each) for each in strategy.validate_status({**old, "status": now}, old)] == wanted


def test_a_daemon_set_counts_its_templates() -> None:
    key, strategy = "deprecated.daemonset.template.generation", strategy_for(kind_named("DaemonSet"))
    old = made("DaemonSet", {"selector": SELECTOR, "template": template()})
    assert old["metadata"]["annotations"] == {key: "1"}
    new = copy.deepcopy(old)
    new["metadata"]["annotations"] = {}
    new["spec"]["minReadySeconds"] = 5
    strategy.prepare_update(new, old)
    assert new["metadata"]["annotations"] == {key: "1"}
    new["spec"]["template"]["spec"]["hostNetwork"] = True
    strategy.prepare_update(new, old)
    assert new["metadata"]["annotations"] == {key: "2"}


def test_policies_of_a_job_that_may_not_change_are_shown_by_their_go_names() -> None:
    def policies(code: int) -> dict[str, Any]:
        rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [code]}}]
        return {"podFailurePolicy": {"rules": rules}, "successPolicy": {"rules": [{"succeededCount": code}]}}

    whole = {"template": template(restartPolicy="Never"), "completionMode": "Indexed", "completions": 3}
    old, new = (made("Job", {**whole, **policies(code)}) for code in (1, 2))
    new["spec"]["selector"], new["spec"]["template"] = old["spec"]["selector"], old["spec"]["template"]
    found = strategy_for(kind_named("Job")).validate_update(new, old)
    assert [str(error) for error in found] == [
        'spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"FailJob","OnExitCodes":{"ContainerName":null,'
        '"Operator":"In","Values":[2]},"OnPodConditions":null}]}: field is immutable',
        'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":2}]}: '
        "field is immutable",
    ]


def test_a_negative_total_is_less_than_the_unreported_parts() -> None:
    strategy = strategy_for(kind_named("ReplicaSet"))
    words = [str(each) for each in strategy.validate_status({"status": {"replicas": -1}}, {})]
    less = "Invalid value: 0: cannot be greater than status.replicas"
    assert words == [
        "status.replicas: Invalid value: -1: must be greater than or equal to 0",
        f"status.fullyLabeledReplicas: {less}",
        f"status.readyReplicas: {less}",
        f"status.availableReplicas: {less}",
    ]


def test_warnings_of_templates_claims_and_large_indexed_jobs() -> None:
    old_label = template()
    old_label["spec"]["nodeSelector"] = {"beta.kubernetes.io/os": "x"}
    advice = 'deprecated since v1.14; use "kubernetes.io/os" instead'
    templates, obj = strategy_for(kind_named("PodTemplate")), {"metadata": {"name": "a"}, "template": old_label}
    wanted = [f"template.spec.nodeSelector[beta.kubernetes.io/os]: {advice}"]
    assert templates.warnings_create(obj) == wanted
    assert templates.warnings_update(obj, {}) == wanted
    assert templates.warnings_update(obj, obj) == []
    claim = {"spec": {"resources": {"requests": {"storage": "500m"}}}}
    sets = strategy_for(kind_named("StatefulSet"))
    assert sets.warnings_create({"metadata": {"name": "a"}, "spec": {"volumeClaimTemplates": [claim]}}) == [
        'spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "500m" is invalid, '
        "must be an integer"
    ]
    large = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001, "template": template()}
    assert "might not be able to track" in strategy_for(kind_named("Job")).warnings_create(made("Job", large))[0]


def test_an_update_of_a_job_repeats_the_errors_of_its_spec() -> None:
    owner = strategy_for(kind_named("Job"))
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "manualSelector": True, "template": template, "parallelism": -1}
    job = {"metadata": {"name": "j"}, "spec": spec}
    wrong = "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"
    said = [str(error) for error in owner.validate_update(job, job)]
    assert said.count(wrong) == 2


def test_the_count_of_collisions_is_not_forgotten_and_names_of_services_are_checked_once() -> None:
    owner = strategy_for(kind_named("StatefulSet"))
    old, new = {"status": {"collisionCount": 0}}, {"status": {}}
    assert "status.collisionCount: Invalid value: 0: cannot be decremented" in map(str, owner.validate_status(new, old))
    named = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"serviceName": "Bad_"}}
    assert any(error.path == "spec.serviceName" for error in owner.validate_create(named))
    assert not any(error.path == "spec.serviceName" for error in owner.validate(named))


def test_ports_of_a_template_in_the_hosts_network_stay_as_stated_and_those_of_its_pods_are_host_ports() -> None:
    stated = template(hostNetwork=True)
    stated["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    stored = made("Deployment", {"selector": SELECTOR, "template": stated})["spec"]["template"]["spec"]
    pod = made("Pod", copy.deepcopy(stored))["spec"]
    assert "hostPort" not in stored["containers"][0]["ports"][0]
    assert pod["containers"][0]["ports"][0]["hostPort"] == 80


def test_the_host_names_of_a_stateful_template_are_not_validated() -> None:
    assert workload("StatefulSet", template=template(hostname="No_Name", subdomain="No_Name")) == []
    assert len(workload("Deployment", template=template(hostname="No_Name"))) == 1


def test_the_template_of_an_invalid_stateful_set_may_stay_invalid() -> None:
    strategy = strategy_for(kind_named("StatefulSet"))
    valid = made("StatefulSet", {"selector": SELECTOR, "template": template()})
    invalid = made("StatefulSet", {"selector": SELECTOR, "template": template(containers=[])})
    assert [str(each) for each in strategy.validate_update(invalid, valid)] == [
        "spec.template.spec.containers: Required value"
    ]
    assert strategy.validate_update(invalid, invalid) == []


def test_labels_of_a_stateful_template_are_reported_twice() -> None:
    labelled = {**template(), "metadata": {"labels": {"a": "b", "No=": "x"}}}
    assert len(workload("StatefulSet", template=labelled)) == 2


def test_an_index_that_is_no_integer_of_64_bits_cannot_be_read() -> None:
    policy = {"rules": [{"succeededIndexes": "1" * 5000}]}
    found = job(completionMode="Indexed", completions=5, parallelism=1, successPolicy=policy)
    assert found == [
        "spec.successPolicy.rules[0].succeededIndexes: Invalid value: "
        f'"{"1" * 5000}": error parsing succeededIndexes: cannot convert string to integer for index: "{"1" * 5000}"'
    ]
