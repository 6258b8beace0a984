"""The page's server: what it shows, to whom, and that it never writes."""

import hashlib
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from autotrainer.testing.sample_study import SampleStudy, write_sample_study, write_wide_study
from autotrainer.tree.proposal import Purpose
from autotrainer.ui.web.app import build_app


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = write_sample_study(tmp_path_factory.mktemp("runs") / "sample")
    folder = root / "nodes" / "n007" / "1" / "rollouts"
    folder.mkdir(parents=True)
    rows = [
        {
            "step": step, "prompt_id": f"p{group}", "group": group, "prompt": f"{group}+1=?", "tokens": 3,
            "completion": f"<script>alert({place})</script>", "finish_reason": "stop",
            "reward": float(place == 1), "advantage": 0.5, "components": '{"accuracy": 1.0}',
        }
        for step in (1, 2) for group in (0, 1) for place in (0, 1)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "1.parquet")
    return root


@pytest.fixture
def client(root) -> TestClient:
    return TestClient(build_app(root), base_url="http://127.0.0.1")


def test_the_study_has_its_winner_its_places_and_its_budget(client):
    study = client.get("/api/study").json()
    assert study["promoted"] == "n015"
    assert study["headline"].startswith("Search paid")
    places = {(node["x"], node["y"]) for node in study["nodes"]}
    assert len(places) == len(study["nodes"]) == 17
    assert study["budget"]["spent"][-1][1] == pytest.approx(study["budget"]["used"], abs=1)
    gains = {skill["id"]: skill["gain"] for skill in study["skills"]}
    assert gains["dapo-clip-higher"] == pytest.approx(0.553 - 0.514, abs=0.002)


def test_a_node_tells_why_it_exists_and_what_came_of_it(client):
    node = client.get("/api/nodes/n007").json()
    assert "upper clip" in node["hypothesis"]
    assert node["came_of_it"] == "dev 55.3 %, +3.9 points from n005"
    assert node["lineage"] == ["n000", "n001", "n005", "n007"]
    assert [curve["name"] for curve in node["curves"]][:2] == ["reward", "probe accuracy"]
    assert node["rollout_steps"] == [1, 2]


def test_a_node_shows_what_a_language_model_decided(tmp_path):
    study = SampleStudy(tmp_path / "asked")
    study.start()
    study.base()
    answer = {"hypothesis": "<b>warmer</b>", "knobs": {"temperature": 1.1}}
    study.emit(
        "llm_decision", decision="d001", node="n001", outcome="accepted", reason="", model="m", answer=answer
    )
    study.seed(Purpose.CAREFUL, 3)
    client = TestClient(build_app(study.root), base_url="http://127.0.0.1")
    (trace,) = client.get("/api/nodes/n001").json()["traces"]
    assert trace["outcome"] == "accepted"
    assert "<b>warmer</b>" in trace["answer"]


def test_rollouts_come_by_group_the_best_first(client):
    groups = client.get("/api/nodes/n007/rollouts/2").json()
    assert [group["prompt"] for group in groups] == ["0+1=?", "1+1=?"]
    assert [row["reward"] for row in groups[0]["completions"]] == [1.0, 0.0]
    assert groups[0]["mean"] == 0.5


def test_a_comparison_has_the_settings_that_differ_and_no_others(client):
    both = client.get("/api/compare/n005/n007").json()
    assert {row["key"] for row in both["recipe"]} == {
        "learning_rate",
        "epsilon_high",
        "temperature",
        "starts from",
    }
    assert both["scores"][0]["a"]["mean"] == pytest.approx(0.514, abs=0.002)


@pytest.mark.parametrize(
    "path", ["/api/nodes/n999", "/api/nodes/..%2f..%2fetc", "/api/nodes/n007/rollouts/9", "/x"]
)
def test_what_is_not_there_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_no_answer_allows_scripts_from_elsewhere_or_inline(client):
    for path in ("/", "/api/study", "/static/app.js", "/report"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert answer.status_code == 200
        assert policy.startswith("default-src 'none'")
        assert "unsafe-eval" not in policy
        assert "script-src 'unsafe-inline'" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in client.get("/report").text
    assert "innerHTML" not in "".join(
        client.get(f"/static/{name}.js").text for name in ("app", "dom", "node", "tree")
    )


def test_the_page_only_reads(client, root):
    def digest() -> str:
        files = sorted(path for path in root.rglob("*") if path.is_file())
        return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()

    before = digest()
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)("/api/study").status_code == 405
    for path in ("/", "/report", "/api/study", "/api/nodes/n003"):
        client.get(path)
    assert digest() == before


def test_another_host_name_is_refused_on_the_loopback(root):
    client = TestClient(build_app(root), base_url="http://evil.example")
    assert client.get("/api/study").status_code == 421


def test_elsewhere_than_on_the_loopback_the_token_is_needed_once(root):
    client = TestClient(build_app(root, token="right", hosts=("*",)), base_url="http://10.0.0.5:8420")
    assert client.get("/api/study").status_code == 401
    assert client.get("/?token=wrong").status_code == 401
    assert client.get("/?token=right").status_code == 200
    assert client.get("/api/study").status_code == 200


def test_five_hundred_nodes_are_answered_quickly(tmp_path):
    client = TestClient(build_app(write_wide_study(tmp_path / "wide", 500)), base_url="http://127.0.0.1")
    client.get("/api/study")
    began = time.perf_counter()
    study = client.get("/api/study").json()
    assert time.perf_counter() - began < 2.0
    assert len(study["nodes"]) == 501
    assert len({(node["x"], node["y"]) for node in study["nodes"]}) == 501
