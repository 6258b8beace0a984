"""Weight averaging, and a merge node that starts from it."""

import json

import pytest
import torch
from safetensors.torch import load_file

from harness.average import average, main
from harness.contract import ContractError


def test_an_average_is_the_weighted_sum_and_a_fork_starts_from_it(run, straight, tmp_path):
    one, other = straight.checkpoint(4), straight.checkpoint(8)
    spec = {
        "schema_version": 1,
        "paths": [str(one), str(other)],
        "shares": [1, 3],
        "output": str(tmp_path / "m"),
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert main([str(tmp_path / "spec.json")]) == 0
    parts = [load_file(path / "model.safetensors") for path in (one, other)]
    merged = load_file(tmp_path / "m" / "model.safetensors")
    assert merged.keys() == parts[0].keys()
    for name, value in merged.items():
        torch.testing.assert_close(value, 0.25 * parts[0][name] + 0.75 * parts[1][name])
    assert json.loads((tmp_path / "m" / "checkpoint.json").read_text())["kind"] == "weights"
    start = {"mode": "weights", "node": "n001", "step": 8, "path": str(tmp_path / "m")}
    done = run(steps=2, job={"start": start}, fork={"optimizer": "reset"})
    assert done.result["status"] == "completed"
    assert done.result["start"]["logprob_gap"] == pytest.approx(0.0, abs=1e-6)
    kept = run(steps=2, job={"start": start})
    assert "has no optimiser state; use 'reset'" in kept.result["reason"]
    exact = run(steps=2, job={"start": start | {"mode": "exact"}})
    assert exact.result["status"] == "failed"


def test_what_cannot_be_averaged_is_refused(straight, tmp_path, capsys):
    one, other = straight.checkpoint(4), straight.checkpoint(8)
    with pytest.raises(ContractError, match="at least two checkpoints"):
        average([one], None, tmp_path / "m")
    with pytest.raises(ContractError, match="must be 2 numbers above 0"):
        average([one, other], [1.0, 0.0], tmp_path / "m")
    (tmp_path / "there").mkdir()
    with pytest.raises(ContractError, match="is there already"):
        average([one, other], None, tmp_path / "there")
    assert main([]) == 2
    assert main([str(tmp_path / "none.json")]) == 2
    assert "usage" in capsys.readouterr().err
