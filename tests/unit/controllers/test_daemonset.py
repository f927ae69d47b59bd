"""The tolerations of daemon pods."""

from podfit.controllers.workloads.sets.daemonset import with_tolerations

NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}


def test_a_daemon_stays_for_good_whatever_its_template_says() -> None:
    own = {"key": "own", "operator": "Exists"}
    for_a_time = {**NOT_READY, "tolerationSeconds": 30}
    found = with_tolerations({"tolerations": [own, for_a_time]})["tolerations"]
    assert found[:2] == [own, NOT_READY] and found.count(NOT_READY) == 1 and len(found) == 7


def test_a_toleration_of_another_form_stays_beside_the_daemons_own() -> None:
    other = {"key": NOT_READY["key"], "operator": "Equal", "value": "x", "effect": "NoExecute"}
    found = with_tolerations({"tolerations": [other], "hostNetwork": True})["tolerations"]
    assert found[:2] == [other, NOT_READY] and len(found) == 8
