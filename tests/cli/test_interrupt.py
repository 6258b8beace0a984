import os
import signal

import pytest

from autotrainer.cli.interrupt import StopOnInterrupt


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interrupt_asks_once_and_goes_on():
    said: list[str] = []
    with StopOnInterrupt(lambda: said.append("stopping")) as guard:
        assert not guard.asked()
        interrupt()
        assert guard.asked()
        assert guard.asked()
    assert said == ["stopping"]


def test_the_second_interrupt_leaves():
    with StopOnInterrupt(lambda: None):
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            interrupt()


def test_a_termination_asks_too_and_a_second_one_changes_nothing():
    with StopOnInterrupt(lambda: None) as guard:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert guard.asked()


def test_signals_are_given_back():
    before = signal.getsignal(signal.SIGINT)
    with StopOnInterrupt(lambda: None):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) is before
