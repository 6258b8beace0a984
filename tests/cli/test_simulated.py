import json


def test_a_simulated_study_plays_to_its_report_and_says_so_everywhere(cli, tmp_path):
    ended = cli(
        "run", "--task", "math", "--budget", "8xH100x24h", "--executor", "simulated", "--id", "s",
        "--set", "search.max_nodes=12",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    assert "SIMULATED" in ended.err
    told = [line for line in ended.out.splitlines() if line.endswith(" runs") or ", dev 0." in line]
    assert len(told) > 20
    assert all(line.startswith("SIMULATED ") for line in told)
    assert "Simulated: no model was trained." in ended.out
    report = (tmp_path / "runs" / "s" / "report.html").read_text()
    assert "simulated" in report.lower()
    shown = json.loads(cli("show", "s", "--json").out)
    assert shown["study"]["simulated"] is True
    assert shown["study"]["state"] == "finished"


def test_an_unknown_executor_is_refused_and_nothing_is_created(cli, tmp_path):
    ended = cli("run", "--task", "math", "--budget", "2xCPUx6m", "--executor", "mars")
    assert ended.code == 2
    assert "executor = 'mars'" in ended.err
    assert list(tmp_path.iterdir()) == []
