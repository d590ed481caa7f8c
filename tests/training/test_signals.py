import signal
import threading

import pytest

from minitxl.training import signals


@pytest.fixture(autouse=True)
def handlers():
    """The handlers before and after each test, which must be the same."""
    numbers = [getattr(signal, name) for name in signals.STOPPING]
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.mark.parametrize("name", signals.STOPPING)
def test_a_burst_of_signals_is_noted_as_its_first(name):
    with signals.watching() as stop:
        assert stop.number == 0
        for other in (name, *signals.STOPPING, "SIGINT", "SIGINT", "SIGINT"):
            signal.raise_signal(getattr(signal, other))
        assert stop.number == getattr(signal, name)


def test_a_block_within_another_writes_on_its_note_and_leaves_its_handlers():
    with signals.watching() as outer:
        with signals.watching(outer) as inner:
            signal.raise_signal(signal.SIGUSR1)
        assert inner is outer
        signal.raise_signal(signal.SIGHUP)
    assert outer.number == signal.SIGUSR1
    with signals.watching() as another:
        assert another.number == 0


def test_ctrl_c_again_after_a_while_stops_at_once_and_a_repeated_order_does_not(monkeypatch):
    with signals.watching() as stop:
        signal.raise_signal(signal.SIGTERM)
        monkeypatch.setattr(signals.time, "monotonic", lambda: stop.arrived + signals.AGAIN + 1)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.number == signal.SIGTERM


def test_a_signal_that_the_process_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals.watching() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.number == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_has_no_signals_and_leaves_them_alone():
    seen = []

    def inside():
        with signals.watching() as stop:
            seen.append((stop.number, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [(0, signal.getsignal(signal.SIGINT))]
