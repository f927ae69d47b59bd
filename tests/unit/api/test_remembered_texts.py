"""Caches by text are bounded in the number and the length of entries."""

from __future__ import annotations

from podfit.api.text.remember import LONGEST, remembered


def counted(most: int) -> tuple[list[str], object]:
    worked_out: list[str] = []

    @remembered(most)
    def double(text: str) -> str:
        worked_out.append(text)
        return text * 2

    return worked_out, double


def test_a_text_is_worked_out_once() -> None:
    worked_out, double = counted(4)
    assert [double("a"), double("a")] == ["aa", "aa"] and worked_out == ["a"]  # type: ignore[operator]


def test_a_long_text_is_not_kept() -> None:
    worked_out, double = counted(4)
    for _ in range(2):
        assert double("a" * (LONGEST + 1)) == "a" * 2 * (LONGEST + 1)  # type: ignore[operator]
    assert len(worked_out) == 2 and len(double.__self__) == 0  # type: ignore[attr-defined]


def test_more_texts_than_there_is_room_for_do_not_pile_up() -> None:
    _, double = counted(4)
    for at in range(100):
        double(str(at))  # type: ignore[operator]
        assert len(double.__self__) <= 4  # type: ignore[attr-defined]
