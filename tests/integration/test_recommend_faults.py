"""A Prometheus that is down, slow, truncates responses, is overloaded or warns: the report names the cause and
is marked as partial.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.servers.lying import NOW, Impatient, Lying, serving

from podfit.cli.recommending.collecting import Collector, NothingKnown, ReportRequest
from podfit.cli.recommending.progress import ProgressLine
from podfit.cli.recommending.texts import as_csv, as_data
from podfit.kit.clock import FakeClock
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.report.decide.findings import Report


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Autoscaled]:
    async with autoscaled(tmp_path, FakeClock(NOW)) as made:
        await made.deployment("web", 1, cpu="2", memory="1Gi")
        yield made


async def reported(cluster: Autoscaled, url: str, timeout_s: float = 2.0, **more: Any) -> Report:
    config = PrometheusConfig(
        prometheus_address=url,
        prometheus_queries_per_second=0,
        history_length=2 * 86400.0,
        prometheus_query_timeout=timeout_s,
    )
    asked = replace(ReportRequest("default", prometheus=config, share=1.0, source="prometheus"), **more)
    return await Collector(cluster.client, asked, Impatient(NOW), ProgressLine(shown=False)).report()


async def test_a_prometheus_that_is_down_is_named(cluster: Autoscaled) -> None:
    with pytest.raises(NothingKnown, match="Prometheus http://127.0.0.1:9: Connection refused"):
        await reported(cluster, "http://127.0.0.1:9")


async def test_an_ordinary_answer_is_whole(cluster: Autoscaled) -> None:
    async with serving(Lying()) as url:
        report = await reported(cluster, url)
    assert not report.missing and report.findings[0].recommended.requests["cpu"] > 500


async def test_an_answer_that_is_cut_off_makes_the_report_partial(cluster: Autoscaled) -> None:
    lying = Lying()

    def cut(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        if float(asked["start"]) < NOW - 86400:
            return web.Response(text=json.dumps(answer, separators=(",", ":"))[:-200])
        return None

    lying.fault = cut
    async with serving(lying) as url:
        report = await reported(cluster, url)
    assert report.missing and "response of Prometheus was cut off" in report.missing[0]
    assert report.findings[0].recommended.requests, "what was read counts"
    assert as_data(report)["partial"] is True and ",yes," in as_csv(report)


async def test_an_answer_cut_between_two_series_is_noticed(cluster: Autoscaled) -> None:
    lying = Lying()

    def cut(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        text = json.dumps(answer, separators=(",", ":"))
        return web.Response(text=text[: text.rfind("]]}") + 3]) if answer["data"]["result"] else None

    lying.fault = cut
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="response of Prometheus was cut off"):
            await reported(cluster, url)


async def test_warnings_of_an_answer_make_the_report_partial(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.tail = {"warnings": ["store 10.0.0.7 did not answer"]}
    async with serving(lying) as url:
        report = await reported(cluster, url)
    assert report.missing == ("Prometheus warns: store 10.0.0.7 did not answer",)


async def test_too_many_samples_are_requested_in_smaller_parts(cluster: Autoscaled) -> None:
    lying = Lying()

    def refuse(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        if float(asked["end"]) - float(asked["start"]) > 20000:
            error = {
                "status": "error",
                "errorType": "execution",
                "error": "query processing would load too many samples",
            }
            return web.json_response(error, status=422)
        return None

    lying.fault = refuse
    async with serving(lying) as url:
        report = await reported(cluster, url)
    assert not report.missing and report.findings[0].evidence is not None
    assert report.findings[0].evidence.days > 1.9


async def test_a_prometheus_that_fails_permanently_is_not_queried_forever(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.fault = lambda asked, answer: web.Response(status=503, text="overloaded")
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="Prometheus answered 503: overloaded"):
            await reported(cluster, url)
    assert lying.ranges <= 9


async def test_a_rate_limit_is_not_answered_with_more_and_smaller_queries(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.fault = lambda asked, answer: web.Response(status=429, text="the request rate limit is exceeded")
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="Prometheus answered 429: the request rate limit is exceeded"):
            await reported(cluster, url)
    assert lying.ranges <= 9


async def test_a_limit_that_smaller_queries_exceed_too_ends_the_reading(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.fault = lambda asked, answer: web.Response(status=422, text="exceeded series limit")
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="reading stopped at .*, 3 parts failed in a row: .*series limit"):
            await reported(cluster, url)
    assert lying.ranges <= 20


async def test_the_end_of_the_data_is_where_the_first_part_failed(cluster: Autoscaled) -> None:
    lying = Lying()
    begin = NOW // 1800 * 1800 - 86400

    def refuse(asked: dict[str, str], answer: dict[str, Any]) -> web.StreamResponse | None:
        if float(asked["end"]) <= begin:
            return None
        if float(asked["end"]) - float(asked["start"]) > 1800:
            return web.Response(status=422, text="too many samples")
        return web.Response(status=501)

    lying.fault = refuse
    async with serving(lying) as url:
        report = await reported(cluster, url)
    words = next(one for one in report.missing if "reading" in one)
    until = to_rfc3339(begin)
    assert words.startswith("reading stopped at ") and words.split()[3].rstrip(",") <= until, (words, until)
    assert words.endswith("Prometheus answered 501: Not Implemented")


async def test_an_error_page_of_a_proxy_is_one_line(cluster: Autoscaled) -> None:
    page = "<html>\n<style>a { color: red }</style>\n<h1>No  backend</h1>\n</html>"
    lying = Lying()
    lying.fault = lambda asked, answer: web.Response(status=501, text=page, content_type="text/html")
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="Prometheus answered 501: No backend$"):
            await reported(cluster, url)


async def test_answers_that_are_no_json_are_an_error_not_a_zero(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.fault = lambda asked, answer: web.Response(text="<html>login</html>")
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match="cannot be read"):
            await reported(cluster, url)


async def test_a_prometheus_that_does_not_answer_in_time_is_named(cluster: Autoscaled) -> None:
    lying = Lying()
    lying.delay_s = 600.0
    async with serving(lying) as url:
        with pytest.raises(NothingKnown, match=f"{url}.*no answer within 0.2 s"):
            await reported(cluster, url, timeout_s=0.2)
