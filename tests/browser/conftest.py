"""A headless Chromium of the system, and pages of studies."""

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from autotrainer.ui.web.app import build_app

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, request):
    """A page that fails the test on any script error or refusal; $SCREENSHOTS keeps its last picture."""
    context = browser.new_context(viewport={"width": 1400, "height": 860}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(15_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    yield page
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{request.node.name}.png")
    context.close()
    assert faults == []


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[[Path], str]]:
    """Serve a study; the address of its page."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(root: Path) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(build_app(root), log_level="error", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server, _ in servers:
        server.should_exit = True
    for _, thread in servers:
        thread.join(5)
