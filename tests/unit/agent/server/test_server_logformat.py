"""CRI log entries as readers of logs see them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.server.logformat import BadLogOptions, LogOptions, LogPrinter, nanos_of

T0, T1, T2 = (f"2026-01-01T00:00:0{second}.000000000Z" for second in range(3))


def entry(stamp: str, text: str, stream: str = "stdout", tag: str = "F") -> bytes:
    return f"{stamp} {stream} {tag} {text}\n".encode()


def printed(data: bytes, **options: object) -> bytes:
    printer = LogPrinter(LogOptions(**options))  # type: ignore[arg-type]
    return printer.feed(data) + printer.finish()


def test_lines_come_without_their_heads() -> None:
    assert printed(entry(T0, "one") + entry(T1, "two words", "stderr")) == b"one\ntwo words\n"


def test_parts_of_a_line_are_joined() -> None:
    assert printed(entry(T0, "long", tag="P") + entry(T0, "er", tag="F")) == b"longer\n"


def test_a_timestamp_precedes_lines_not_partial_lines() -> None:
    data = entry(T0, "a", tag="P") + entry(T1, "b") + entry(T2, "c")
    assert printed(data, timestamps=True) == f"{T0} ab\n{T2} c\n".encode()


def test_empty_lines_stay() -> None:
    assert printed(f"{T0} stdout F \n{T0} stdout F\n".encode()) == b"\n\n"


def test_only_the_wanted_stream_is_shown() -> None:
    data = entry(T0, "out") + entry(T0, "err", "stderr")
    assert printed(data, stream=b"stderr") == b"err\n"


def test_entries_before_the_given_time_are_left_out() -> None:
    data = entry(T0, "old") + entry(T1, "new") + entry(T2, "newer")
    assert printed(data, since_nanos=nanos_of(T1)) == b"new\nnewer\n"


def test_bytes_are_limited_to_the_byte() -> None:
    printer = LogPrinter(LogOptions(limit_bytes=5))
    assert printer.feed(entry(T0, "abc") + entry(T0, "def")) == b"abc\nd"
    assert printer.full
    assert printer.feed(entry(T0, "more")) == b""


def test_invalid_entries_are_skipped() -> None:
    assert printed(b"\x00\xff garbage\n" + entry(T0, "fine") + b"half an ent") == b"fine\n"


def test_an_entry_whose_end_is_missing_is_shown() -> None:
    assert printed(entry(T0, "cut off")[:-1]) == b"cut off\n"


@given(st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_how_a_file_is_cut_into_pieces_does_not_matter(cuts: list[int], timestamps: bool) -> None:
    data = b"".join(entry(T0, f"line {n}", tag="P" if n % 3 == 0 else "F") for n in range(6))
    places = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    printer = LogPrinter(LogOptions(timestamps=timestamps))
    pieces = [printer.feed(data[a:b]) for a, b in itertools.pairwise(places)]
    assert b"".join(pieces) + printer.finish() == printed(data, timestamps=timestamps)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.000000001Z", 1_000_000_001),
        ("1970-01-01T01:00:01.25+01:00", 1_250_000_000),
    ],
)
def test_times_are_read_to_the_nanosecond(text: str, nanos: int) -> None:
    assert nanos_of(text) == nanos


def test_options_are_read_as_the_api_spells_them() -> None:
    query = {"follow": ["true"], "tailLines": ["5"], "sinceSeconds": ["10"], "stream": ["Stdout"], "limitBytes": ["9"]}
    options = LogOptions.parse(query, 1000.0)
    assert options == LogOptions(True, False, False, 5, 990 * 10**9, 9, b"stdout")


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": ["-1"]},
        {"tailLines": ["x"]},
        {"limitBytes": ["0"]},
        {"sinceTime": ["yesterday"]},
        {"sinceTime": ["2026-01-01T00:00:00Z"], "sinceSeconds": ["5"]},
        {"stream": ["stdin"]},
    ],
)
def test_options_that_make_no_sense_are_refused(query: dict[str, list[str]]) -> None:
    with pytest.raises(BadLogOptions):
        LogOptions.parse(query, 0.0)
