import json
from importlib import metadata

from autotrainer.cli import checks


def test_the_doctor_finds_this_environment_fit(cli):
    ended = cli("doctor", "--json")
    answer = json.loads(ended.out)
    found = {check["name"]: check for check in answer["checks"]}
    assert ended.code == 0
    assert answer["ok"]
    assert {"python", "torch", "trl", "mlflow", "devices", "isolation", "disk"} <= set(found)
    assert found["trl"]["wanted"] == "==1.16.0"
    assert found["devices"]["found"] == "2 CPU cores and no NVIDIA GPU"
    assert "pytest" not in found


def test_a_wrong_version_is_named_with_what_is_wanted(cli, monkeypatch):
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1.0.0" if name == "trl" else real(name))
    ended = cli("doctor")
    line = next(line for line in ended.out.splitlines() if " trl " in line)
    assert ended.code == 1
    assert line.startswith("fail")
    assert "1.0.0 (wanted ==1.16.0): pip install 'autotrainer[train]'" in line


def test_missing_isolation_is_a_warning_with_a_way_out(cli, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    check = checks.check_isolation()
    assert (check.status, check.wanted) == ("warn", "A")
    assert "bubblewrap" in check.advice
