"""Caches keep recent values and make no value twice."""

from threading import Barrier, Thread

from evaluation.caches import LruCache, computed_once


def test_a_value_is_made_once_and_the_least_recently_used_is_dropped():
    made: list[str] = []
    known = LruCache[str](2)

    def ask(key: str) -> str:
        return known.get(key, lambda: made.append(key) or key.upper())

    assert [ask(key) for key in "abab"] == ["A", "B", "A", "B"]
    ask("a")
    ask("c")  # replaces b, the least recently used
    assert made == ["a", "b", "c"]
    ask("a")
    ask("b")
    assert made == ["a", "b", "c", "b"]


def test_a_failure_is_not_cached():
    known = LruCache[int](2)
    for _ in range(2):
        try:
            known.get("x", lambda: 1 // 0)
        except ZeroDivisionError:
            continue
        raise AssertionError
    assert known.get("x", lambda: 3) == 3


def test_a_property_is_computed_once_and_threads_do_not_wait_for_another_instance():
    computed = []
    both = Barrier(2, timeout=10)

    class Thing:
        @computed_once
        def value(self) -> int:
            """The value."""
            both.wait()  # returns only if both are being computed
            computed.append(self)
            return len(computed)

    things = Thing(), Thing()
    threads = [Thread(target=getattr, args=(thing, "value")) for thing in things]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {thing.value for thing in things} == {1, 2}
    assert len(computed) == 2
    assert Thing.value.__doc__ == "The value."
