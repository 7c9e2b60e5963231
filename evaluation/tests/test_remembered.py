"""What is remembered, for how long, and that nothing is made twice."""

from evaluation.remembered import Remembered


def test_a_value_is_made_once_and_the_oldest_is_let_go():
    made: list[str] = []
    known = Remembered[str](2)

    def ask(key: str) -> str:
        return known.of(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in "abab"] == ["A", "B", "A", "B"]
    ask("a")
    ask("c")  # in place of b, which was asked for longest ago
    assert made == ["a", "b", "c"]
    ask("a")
    ask("b")
    assert made == ["a", "b", "c", "b"]


def test_what_fails_is_not_remembered():
    known = Remembered[int](2)
    for _ in range(2):
        try:
            known.of("x", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError
    assert known.of("x", lambda: 3) == 3
