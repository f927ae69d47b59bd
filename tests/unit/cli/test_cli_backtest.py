"""`podfit backtest`: files in, sizes and reports out; bad files are named in one line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from podfit.cli.backtesting.history import BadHistory, History, read_csv, read_local, read_npz, with_samples
from podfit.cli.backtesting.results import check_effects, judged, what_if_of
from podfit.cli.backtesting.texts import cells
from podfit.cli.commands.workloads import backtest
from podfit.vpa.history.base import NONE, Batch
from podfit.vpa.history.base import Series as Pod
from podfit.vpa.history.local import LocalHistory
from podfit.vpa.policies.base import UsageSeries
from podfit.vpa.policies.krr import KRR
from podfit.vpa.policies.table import POLICIES


def podfit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "podfit.cli.main", *words], capture_output=True, text=True, timeout=120, check=False
    )


def saved(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def usage(days: int = 3, rows: int = 2, scale: float = 1.0) -> np.ndarray:
    values = np.random.default_rng(0).lognormal(0, 0.2, (rows, days * 288)) * scale
    return values.astype(np.float32)


def test_run_writes_sizes_of_the_same_shape(tmp_path: Path) -> None:
    cpu, memory = usage(), usage(scale=2.0**30)
    source = saved(tmp_path / "in.npz", cpu=cpu, memory=memory, step_s=300)
    done = podfit("backtest", "run", "--series", str(source), "--policy", "auto", "--out", str(tmp_path / "out.npz"))
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found.files) == ["cpu_size", "memory_size"]
        assert found["cpu_size"].shape == cpu.shape
        assert found["cpu_size"].dtype == np.float32
        assert np.isfinite(found["memory_size"][:, 288:]).all()


def test_run_names_a_policy_that_does_not_exist(tmp_path: Path) -> None:
    done = podfit("backtest", "run", "--series", "x.npz", "--policy", "best", "--out", str(tmp_path / "out.npz"))
    assert done.returncode == 2
    assert done.stderr == "podfit: unknown policy 'best': it is one of default, krr, window, rhythm, auto\n"


def test_run_does_not_replace_its_input(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, cpu=usage(2), step_s=300.0)
    before = path.read_bytes()
    done = podfit("backtest", "run", "--series", str(path), "--out", str(tmp_path / ".." / tmp_path.name / "in.npz"))
    assert done.returncode == 2 and "is the file of --series" in done.stderr
    assert path.read_bytes() == before


def test_run_leaves_no_file_behind_when_the_input_is_bad(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.npz", cpu=-usage(), step_s=300)
    done = podfit("backtest", "run", "--series", str(source), "--out", str(tmp_path / "out.npz"))
    assert done.returncode == 1
    assert done.stderr == f"podfit: {source}: `cpu` of container 0 at sample 0 is negative\n"
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"cpu": usage()}, "lacks `step_s`"),
        ({"cpu": usage(), "step_s": 0}, "step_s is 0; it must be above 0"),
        ({"cpu": usage(), "step_s": "often"}, "step_s is not a number"),
        ({"disk": usage(), "step_s": 300}, "has neither `cpu` nor `memory`: it has disk, step_s"),
        ({"cpu": usage()[0], "step_s": 300}, "`cpu` has 1 dimensions, not two"),
        ({"cpu": np.array([["a"]]), "step_s": 300}, "`cpu` has type <U1, not numbers"),
        ({"cpu": np.array([[1.0, np.inf]]), "step_s": 300}, "`cpu` of container 0 at sample 1 is infinite"),
        ({"cpu": usage(), "memory": usage(2), "step_s": 300}, r"`cpu` has shape \(2, 864\), `memory` \(2, 576\)"),
        ({"cpu": usage(), "names": np.array(["a"]), "step_s": 300}, "1 names for 2 containers"),
        ({"cpu": usage()[None], "step_s": 300}, "`cpu` has 3 dimensions, not two"),
        ({"cpu": usage().astype(complex), "step_s": 300}, "`cpu` has type complex128, not numbers"),
        ({"cpu": usage(), "step_s": [300, 300]}, "step_s is not a number"),
        ({"cpu": usage(), "step_s": np.nan}, "step_s is nan; it must be above 0"),
        ({"cpu": usage(), "names": np.array(5), "step_s": 300}, "`names` is not a list of names"),
        ({"cpu": np.array([[1, None]], object), "step_s": 300}, "is not an npz file with plain arrays"),
    ],
)
def test_an_npz_file_that_cannot_be_used_is_refused_with_the_cause(
    tmp_path: Path, arrays: dict[str, object], message: str
) -> None:
    with pytest.raises(BadHistory, match=message):
        read_npz(saved(tmp_path / "in.npz", **arrays))


def test_a_file_that_is_not_an_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    path.write_text("time,container,cpu\n")
    with pytest.raises(BadHistory, match="is not an npz file"):
        read_npz(path)


@pytest.mark.parametrize("cpu", [usage() * np.nan, usage()[:0], usage()[:, :0], usage()[:, :1]])
@pytest.mark.parametrize("step_s", [300, np.array([300.0])])
def test_run_sizes_a_series_however_short_and_empty(tmp_path: Path, cpu: np.ndarray, step_s: object) -> None:
    """The sizes for a prefix of a series are the prefix of its sizes; a prefix may have no samples."""
    source = saved(tmp_path / "in.npz", cpu=cpu, step_s=step_s)
    out = tmp_path / "out.npz"
    backtest.run(series=source, out=out, policy="auto")
    with np.load(out) as found:
        assert found["cpu_size"].shape == cpu.shape
        assert np.isnan(found["cpu_size"]).all()


@pytest.mark.parametrize("cpu", [usage() * np.nan, usage()[:0], usage()[:, :0]])
def test_nothing_is_compared_without_samples(tmp_path: Path, cpu: np.ndarray) -> None:
    source = saved(tmp_path / "in.npz", cpu=cpu, step_s=300)
    with pytest.raises(BadHistory, match="has no samples"):
        with_samples(read_npz(source), "in.npz")


def test_run_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cpu = usage()
    cpu[1] = np.nan
    backtest.run(series=saved(tmp_path / "in.npz", cpu=cpu, step_s=300), out=tmp_path / "out.npz", policy="krr")
    assert capsys.readouterr().err == "partial: 1 of 2 containers have no cpu sample\n"


@pytest.mark.parametrize(("out", "named"), [("none/out.npz", "none"), ("folder", "folder")])
def test_run_names_a_place_where_it_cannot_write(tmp_path: Path, out: str, named: str) -> None:
    (tmp_path / "folder").mkdir()
    source = saved(tmp_path / "in.npz", cpu=usage(), step_s=300)
    with pytest.raises(OSError, match=named) as caught:
        backtest.run(series=source, out=tmp_path / out, policy="krr")
    assert caught.value.filename == str(tmp_path / named)


def test_csv_samples_of_one_step_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("time,container,cpu,memory\n600,web/app,1,100\n1970-01-01T00:12:00Z,web/app,3,50\n900,db/app,,70\n")
    found = read_csv(path)
    assert found.names == ("db/app", "web/app")
    np.testing.assert_array_equal(found.series["cpu"].usage, [[np.nan, np.nan], [2.0, np.nan]])
    np.testing.assert_array_equal(found.series["memory"].usage, [[np.nan, 70.0], [100.0, np.nan]])
    assert found.missing == (
        "1 of 2 containers have no cpu sample",
        "50% of the cpu samples are missing",
        "50% of the memory samples are missing",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("when,container,cpu\n", "wrong columns when, container, cpu: `time`, `container`, and `cpu`"),
        ("", r"wrong columns \(none\)"),
        ("time,container,cpu\n", "has no samples"),
        ("time,container,cpu\n1,a,1\nsoon,a,1\n", "line 3: time is 'soon', neither Unix seconds nor RFC 3339"),
        ("time,container,cpu\n1,a,much\n", "line 2: cpu is 'much', not a number"),
        ("time,container,cpu\n1,a,-1\n", "line 2: cpu is -1"),
        ("time,container,cpu\n1,a\n", "has no samples"),
        ("time,container,cpu\n1700000000000,a,1\n", "time is 1700000000000, not Unix seconds; milliseconds"),
        ("time,container,cpu\ninf,a,1\n", "time is inf, not Unix seconds$"),
        ("time,container,cpu\n1,a,NaN\n", "has no samples"),
        ("time,container,cpu\n1,a,1\n99999999999,a,1\n", "333333334 steps of 300 s apart; is a time wrong"),
    ],
)
def test_a_csv_file_that_cannot_be_used_is_refused_with_the_cause(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(text)
    with pytest.raises(BadHistory, match=message):
        read_csv(path)


def test_a_csv_file_of_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbftime, container, cpu\r\n0, web, 1\r\n")
    found = read_csv(path)
    assert found.names == ("web",) and found.series["cpu"].usage.tolist() == [[1.0]]


def test_nothing_that_was_not_scored_is_zero() -> None:
    past = History(("a",), {"memory": UsageSeries(np.ones((1, 4), np.float32), 300.0, "memory")})
    [result] = judged(past, [KRR], what_if_of(["mode=recreate"]))
    row = result.row(result.total)
    assert {name for name, value in row.items() if value is not None} == {"partial"} and row["partial"]
    assert set(cells(result, result.total)[2:]) == {"-"}


def test_policies_are_compared_side_by_side(tmp_path: Path) -> None:
    source = saved(
        tmp_path / "in.npz", cpu=usage(4), memory=usage(4, scale=2.0**30), step_s=300, names=np.array(["a", "b"])
    )
    done = podfit("backtest", "--series", str(source), "--policy", "default", "--policy", "auto", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert [(policy["policy"], policy["resource"]) for policy in found["policies"]] == [
        ("default", "cpu"),
        ("default", "memory"),
        ("auto", "cpu"),
        ("auto", "memory"),
    ]
    assert [container["name"] for container in found["policies"][0]["containers"]] == ["a", "b"]
    assert not found["partial"]
    again = podfit("backtest", "--series", str(source), "--policy", "default", "--policy", "auto", "-o", "json")
    assert again.stdout == done.stdout


def test_results_of_a_history_with_gaps_are_marked_as_partial(tmp_path: Path) -> None:
    cpu = usage(4)
    cpu[0, 600:900] = np.nan
    source = saved(tmp_path / "in.npz", cpu=cpu, step_s=300)
    done = podfit("backtest", "--series", str(source), "--policy", "krr", "-o", "json")
    assert done.stderr == "partial: 13% of the cpu samples are missing\n"
    assert json.loads(done.stdout)["partial"]


def test_samples_without_a_size_and_holes_of_one_container_are_named(tmp_path: Path) -> None:
    cpu = np.tile(usage(4)[:1], (40, 1))
    cpu[3, :700] = np.nan
    cpu[4, 800:1100] = np.nan
    names = np.array([f"container-{at}" for at in range(40)])
    source = saved(tmp_path / "in.npz", cpu=cpu, step_s=300, names=names)
    words = ("backtest", "--series", str(source), "--policy", "krr", "--policy", "auto")
    done = podfit(*words)
    holes = "of 1 of 40 containers more than a fifth of the cpu samples is missing"
    assert done.stderr.splitlines() == [
        "partial: 2% of the cpu samples are missing",
        "partial: 8 cpu samples were taken before their container had a size (krr, auto)",
    ]
    assert "krr (partial)" in done.stdout
    cpu[3] = cpu[0]
    cpu[4, 850:] = cpu[0, 850:]
    cpu[4, 700:1000] = np.nan
    cpu = np.concatenate([cpu, cpu[:1].repeat(20, 0)])
    done = podfit("backtest", "--series", str(saved(source, cpu=cpu, step_s=300)), "--policy", "krr", "-o", "html")
    assert holes.replace("40", "60") in done.stderr and holes.replace("40", "60") in done.stdout


def test_a_short_history_has_hours_in_its_charts(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.npz", cpu=usage(1), step_s=300)
    page = podfit("backtest", "--series", str(source), "--policy", "krr", "-o", "html").stdout
    assert ">21 h<" in page and ">day 1<" in page and ">24 h<" not in page


def test_the_page_names_no_address_and_draws_every_container(tmp_path: Path) -> None:
    source = saved(tmp_path / "in.npz", cpu=usage(4), step_s=300, names=np.array(["<web>", "db"]))
    page = podfit("backtest", "--series", str(source), "--policy", "auto", "-o", "html").stdout
    assert page.count("<svg") == 2 and page.count("<details>") == 2
    assert "&lt;web&gt;" in page
    assert page.count(">day 4<") == 2 and ">day 5<" not in page
    assert "http://" not in page and "https://" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["colour=red"], "'red' is no quantity"),
        (["size=1"], "unknown setting 'size'"),
        (["percentile=2"], "percentile cannot be 2"),
        (["mode=never"], "it is one of in-place, recreate"),
        (["min-cpu=2", "max-cpu=1"], "min-cpu is above max-cpu"),
    ],
)
def test_a_what_if_that_makes_no_sense_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(BadHistory, match=message):
        what_if_of(words)


def test_a_what_if_that_makes_no_sense_is_a_wrong_command_line() -> None:
    done = podfit("backtest", "--series", "x.npz", "--what-if", "size=1")
    assert done.returncode == 2
    assert done.stderr.startswith("podfit: --what-if size=1: unknown setting 'size'")


def test_settings_that_no_policy_has_are_refused_and_those_that_some_lack_are_named() -> None:
    overrides = what_if_of(["percentile=0.99", "max-cpu=2"])
    with pytest.raises(BadHistory, match="default and krr have percentile, auto chooses by cost"):
        check_effects(overrides, [POLICIES["auto"]])
    assert check_effects(overrides, [KRR, POLICIES["auto"]]) == ["--what-if percentile does not apply to auto"]
    assert not check_effects(what_if_of(["max-cpu=2"]), list(POLICIES.values()))


def test_what_if_changes_percentiles_margins_and_bounds() -> None:
    used = usage(4)
    past = History(("a", "b"), {"cpu": UsageSeries(used, 300.0, "cpu")})
    plain, other = (
        judged(past, [KRR], what_if_of(words))[0].sizes for words in ([], ["percentile=0.5", "max-cpu=1010m"])
    )
    assert (other[:, 12:] < plain[:, 12:]).all()
    assert float(np.nanmax(other)) <= np.float32(1.01)


def test_the_recommenders_own_history_is_read(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"

    async def keep() -> None:
        store = LocalHistory(file)
        times = 1_700_000_000.0 + 300.0 * np.arange(20)
        one = Pod("default", "web-1", "app", "app=web")
        index, cpu = np.zeros(20, np.int64), np.arange(20, dtype=np.int64) * 100
        store.record(Batch([one], index, times, cpu, np.full(20, NONE, np.int64)))
        await store.close()

    asyncio.run(keep())
    found = asyncio.run(read_local(file))
    assert found.names == ("default/web-1/app",)
    assert np.nansum(found.series["cpu"].usage) == pytest.approx(19.0)


def test_a_local_history_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    file.write_text("not a database" * 100)
    with pytest.raises(BadHistory, match="file is not a database"):
        asyncio.run(read_local(file))
