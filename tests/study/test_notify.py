import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from autotrainer.study.notify import notify
from autotrainer.testing.trees import TreeBuilder


def a_study() -> TreeBuilder:
    builder = TreeBuilder()
    builder.base()
    builder.careful_seeds(0.4)
    return builder


def promote(runtime) -> None:
    runtime.record("node_verdict", node="n001", verdict="promoted", reason="it is best", figures={})


@pytest.fixture
def hook():
    """A webhook on loopback and what was posted to it."""
    posted: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", posted
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_webhook_is_told_of_a_promotion_once(opened, hook):
    url, posted = hook
    runtime = opened(a_study(), notify={"webhook": url})
    promote(runtime)
    notify(runtime)
    notify(runtime)
    assert [body["text"] for body in posted] == ["autotrainer s: n001 is promoted: it is best"]


def test_a_command_gets_the_message_on_its_standard_input(opened, tmp_path):
    out = tmp_path / "out.json"
    script = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    (tmp_path / "tell.py").write_text(script)
    runtime = opened(a_study(), notify={"command": f"{sys.executable} {tmp_path / 'tell.py'}"})
    runtime.record("study_paused", reason="the disk is nearly full")
    notify(runtime)
    assert json.loads(out.read_text())["text"] == "autotrainer s: paused: the disk is nearly full"


@pytest.mark.parametrize(
    "settings",
    [{"webhook": "http://127.0.0.1:9/nobody"}, {"command": "/no/such/program"}, {"command": "false"}],
)
def test_nobody_there_is_noted_and_stops_nothing(opened, settings):
    runtime = opened(a_study(), notify=settings)
    promote(runtime)
    notify(runtime)
    assert "a notification failed" in list(runtime.journal)[-1].data["text"]
