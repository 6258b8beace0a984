import sys
import threading

import pytest

from sandboxes import selfcheck
from sandboxes.attacks import ATTACKS
from sandboxes.backends import ProcessBackend, backend
from sandboxes.broker import SOCKET_VARIABLE, Broker
from sandboxes.functions import call_function
from sandboxes.program import Ending, Limits, Program, SandboxError


@pytest.fixture(scope="module")
def bubblewrap():
    try:
        return backend("bubblewrap")
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_every_shipped_attack_fails(bubblewrap):
    found = selfcheck.check("bubblewrap")
    assert found["attacks"] >= 40
    assert found["failed"] == {}


@pytest.mark.parametrize(
    "name", ["read a secret by its path", "write outside", "reach a local port", "reach an abstract socket"]
)
def test_the_check_can_fail_attacks_get_through_a_plain_process(name):
    attack = next(attack for attack in ATTACKS if attack.name == name)
    with selfcheck.targets() as place:
        assert selfcheck.try_attack(attack, ProcessBackend(), place) is not None


def test_a_plain_process_runs_an_interpreter_below_tmp(tmp_path):
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    program = Program((str(python), "/tmp/a.py"), files={"a.py": b"print('ran')"})
    assert ProcessBackend().run(program, Limits()).stdout == b"ran\n"


def test_a_program_gets_its_files_and_its_input(bubblewrap):
    program = Program((sys.executable, "-c", "print(open('a').read(), input())"), b"in", {"a": b"file"})
    assert bubblewrap.run(program, Limits()).stdout == b"file in\n"


def test_limits_end_a_program_and_say_which(bubblewrap):
    sleep = Program((sys.executable, "-c", "import time; time.sleep(60)"))
    assert bubblewrap.run(sleep, Limits(wall_s=0.5)).ending is Ending.WALL
    shout = Program((sys.executable, "-c", "while True: print('x' * 9999)"))
    assert bubblewrap.run(shout, Limits(output_bytes=1000)).ending is Ending.OUTPUT


def test_the_plain_process_is_never_chosen_by_itself(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="unknown sandbox 'x'"):
        backend("x")
    assert backend("process").name == "process"


def test_a_function_is_called_and_gives_plain_values(bubblewrap):
    assert call_function("def f(a, b=1): return {'x': [a + b, (1,)]}", "f", [[1], [2, 3]]).values == [
        {"x": [2, (1,)]},
        {"x": [5, (1,)]},
    ]
    assert call_function("import os\nos._exit(0)", "f", [[1]]).values is None
    assert call_function("print('VALUES [9]')\ndef f(x): return 1", "f", [[1]]).values == [1]


def test_the_broker_runs_programs_for_isolated_jobs(bubblewrap, tmp_path, monkeypatch):
    place = tmp_path / "s"
    with Broker(place) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(SOCKET_VARIABLE, str(place))
        assert call_function("def f(x): return x * 2", "f", [[4]]).values == [8]
        server.shutdown()
        thread.join()
    assert call_function("def f(x): return x", "f", [[4]]).sandbox_failed
