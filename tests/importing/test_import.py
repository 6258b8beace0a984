import json
import tomllib
from pathlib import Path

import pytest

from autotrainer.cli.app import invoke
from autotrainer.cli.settings import Flags, build_config
from autotrainer.errors import ConfigError
from autotrainer.importing.study import read_file, write_study

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(
    path.name
    for path in FIXTURES.iterdir()
    if path.suffix in (".py", ".yaml") and path.name != "rewards_sums.py"
)


def imported(name: str, folder: Path) -> Path:
    path = folder / "study.toml"
    write_study(read_file(FIXTURES / name), path)
    return path


def test_there_are_ten_public_style_files():
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_an_import_is_a_study_that_can_be_created(name, tmp_path):
    flags = Flags(config=imported(name, tmp_path), budget="2xCPUx6m", model="tiny")
    config = build_config(flags, tmp_path)
    assert config.model == "tiny"
    assert config.recipe["learning_rate"] > 0


def test_the_reward_of_a_script_stands_alone_and_trains_nothing(tmp_path):
    imported("trl_gsm8k.py", tmp_path)
    space: dict = {}
    exec((tmp_path / "study_reward.py").read_text(), space)
    assert space["correctness"]([], [[{"content": "#### 4"}]], ["4"]) == [2.0]
    assert "GRPOTrainer" not in space


def test_a_script_gives_its_settings_under_our_names():
    found = read_file(FIXTURES / "trl_constants.py")
    assert found.recipe == {
        "learning_rate": 1e-4,
        "beta": 0.01,
        "num_generations": 8,
        "prompts_per_step": 8,
        "max_completion_length": 8,
        "warmup_steps": 10,
        "lr_scheduler_type": "cosine",
        "scale_rewards": "none",
    }
    assert found.search == {"steps": 200}
    assert found.values["model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert found.values["reward"].endswith("trl_constants.py:correct")


def test_what_was_not_understood_is_listed():
    assert set(read_file(FIXTURES / "trl_constants.py").unknown) == {"vllm_mode", "reward_funcs"}
    assert "GRPOTrainer.peft_config" in read_file(FIXTURES / "trl_peft.py").unknown
    assert set(read_file(FIXTURES / "verl_dapo.yaml").unknown) == {
        "algorithm.filter_groups.enable",
        "actor_rollout_ref.actor.loss_agg_mode",
    }


def test_defaults_of_argparse_are_the_settings():
    found = read_file(FIXTURES / "trl_argparse.py")
    assert found.values["model"] == "Qwen/Qwen2.5-0.5B-Instruct"
    assert (found.recipe["learning_rate"], found.values["seed"]) == (5e-5, 7)


def test_verl_names_its_own():
    found = read_file(FIXTURES / "verl_grpo.yaml")
    assert found.recipe["beta"] == 0.001
    assert found.recipe["prompts_per_step"] == 8
    assert found.values["reward"].endswith("rewards_sums.py:compute_score")


def test_the_command_writes_the_file_and_lists_the_rest(tmp_path, capsys):
    output = tmp_path / "s.toml"
    assert invoke(["import", str(FIXTURES / "trl_argparse.py"), "-o", str(output), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["not_understood"]) == {"top_k", "use_vllm"}
    assert "# not understood:" in output.read_text()
    assert tomllib.loads(output.read_text())["recipe"]["loss_type"] == "dr_grpo"
    assert invoke(["import", str(FIXTURES / "trl_argparse.py"), "-o", str(output)]) == 2


@pytest.mark.parametrize(
    ("name", "text"), [("a.py", "x = 1"), ("b.yaml", "- 1"), ("c.txt", ""), ("d.py", "def")]
)
def test_what_is_no_training_is_refused(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError):
        read_file(tmp_path / name)
