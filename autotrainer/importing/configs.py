"""YAML files: TRL's (`trl grpo --config`) and verl's (`python -m verl.trainer.main_ppo`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from autotrainer.errors import ConfigError
from autotrainer.importing.datasets import take_dataset, take_file
from autotrainer.importing.found import Found
from autotrainer.importing.settings import take_trl
from autotrainer.recipe.knobs import KNOBS

_VERL_KNOBS = {
    "actor_rollout_ref.actor.optim.lr": "learning_rate",
    "actor_rollout_ref.actor.optim.lr_warmup_steps": "warmup_steps",
    "actor_rollout_ref.actor.optim.weight_decay": "weight_decay",
    "actor_rollout_ref.actor.clip_ratio": "epsilon",
    "actor_rollout_ref.actor.clip_ratio_high": "epsilon_high",
    "actor_rollout_ref.actor.entropy_coeff": "entropy_coef",
    "actor_rollout_ref.actor.kl_loss_coef": "beta",
    "actor_rollout_ref.actor.grad_clip": "max_grad_norm",
    "actor_rollout_ref.actor.ppo_epochs": "num_iterations",
    "actor_rollout_ref.rollout.temperature": "temperature",
    "actor_rollout_ref.rollout.n": "num_generations",
    "data.train_batch_size": "prompts_per_step",
    "data.max_response_length": "max_completion_length",
}
_VERL_OURS: tuple[str, ...] = (
    "trainer.project_name",
    "trainer.experiment_name",
    "trainer.logger",
    "trainer.save_freq",
)
_VERL_OURS += ("trainer.test_freq", "trainer.n_gpus_per_node", "trainer.nnodes", "trainer.default_local_dir")
_VERL_OURS += ("actor_rollout_ref.rollout.name", "actor_rollout_ref.rollout.gpu_memory_utilization")
_VERL_OURS += ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "trainer.critic_warmup")


def read_yaml(path: Path) -> Found:
    """What a YAML file of TRL or verl says.

    Raises:
        ConfigError: it is not YAML, or of neither tool.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a mapping of settings")
    if "actor_rollout_ref" in value or "algorithm" in value:
        return _verl(value, Found(path))
    return _trl(value, Found(path))


def _trl(value: dict[str, Any], found: Found) -> Found:
    settings = dict(value)
    if "model_name_or_path" in settings:
        found.values["model"] = settings.pop("model_name_or_path")
    name, subset = settings.pop("dataset_name", None), settings.pop("dataset_config", None)
    split = settings.pop("dataset_train_split", None)
    mixture = settings.pop("datasets", None)
    if isinstance(mixture, list) and len(mixture) == 1 and isinstance(mixture[0], dict):
        one = mixture[0]
        name, subset, split = one.get("path"), one.get("name"), one.get("split")
        if one.get("data_files"):
            take_dataset([str(name or "json")], {"data_files": one["data_files"]}, found)
            name = None
    elif mixture is not None:
        found.not_understood("datasets", mixture)
    if name is not None:
        if str(name).endswith((".jsonl", ".json", ".parquet", ".csv")):
            take_file(str(name), found)
        else:
            take_dataset([name, *([subset] if subset else [])], {"split": split} if split else {}, found)
    rewards = settings.pop("reward_funcs", None)
    for reward in rewards if isinstance(rewards, list) else [rewards] if rewards else []:
        _dotted_reward(str(reward), found)
    take_trl(settings, found)
    return found


def _dotted_reward(text: str, found: Found) -> None:
    """TRL's CLI names a reward as `module.function`, found beside the config."""
    module, _, function = text.rpartition(".")
    path = found.source.parent / f"{module.replace('.', '/')}.py"
    if module and path.is_file():
        found.rewards.append(f"{path.resolve()}:{function}")
    else:
        found.not_understood("reward_funcs", text)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            yield from _flat(item, f"{name}.")
        else:
            yield name, item


def _verl(value: dict[str, Any], found: Found) -> Found:
    settings = dict(_flat(value))
    estimator = settings.pop("algorithm.adv_estimator", "gae")
    if estimator != "grpo":
        found.not_understood("algorithm.adv_estimator", f"{estimator!r}: the study uses grpo")
    if settings.pop("algorithm.norm_adv_by_std_in_grpo", True) is False:
        found.recipe["scale_rewards"] = "none"
    if not settings.pop("actor_rollout_ref.actor.use_kl_loss", False):
        settings.pop("actor_rollout_ref.actor.kl_loss_coef", None)
        found.recipe["beta"] = 0.0
    if (model := settings.pop("actor_rollout_ref.model.path", None)) is not None:
        found.values["model"] = model
    files = settings.pop("data.train_files", None)
    files = files[0] if isinstance(files, list) and len(files) == 1 else files
    if isinstance(files, str):
        known = next((task for task in ("gsm8k", "math500") if f"/{task}/" in files), None)
        if known is not None:
            found.values["task"] = known
        else:
            take_file(files, found)
    settings.pop("data.val_files", None)
    file, name = (
        settings.pop("custom_reward_function.path", None),
        settings.pop("custom_reward_function.name", None),
    )
    if file:
        place = Path(str(file)).expanduser()
        place = place if place.is_absolute() else found.source.parent / place
        found.rewards.append(f"{place.resolve()}:{name or 'compute_score'}")
    if isinstance(steps := settings.pop("trainer.total_training_steps", None), int) and steps >= 2:
        found.search["steps"] = steps
    if isinstance(seed := settings.pop("trainer.seed", None), int):
        found.values["seed"] = seed
    for key, item in settings.items():
        if key in _VERL_OURS:
            found.remark(f"{key} = {item!r} is the study's own business: dropped")
        elif key in _VERL_KNOBS:
            try:
                number = float(item) if isinstance(item, str) else item
                found.recipe[_VERL_KNOBS[key]] = KNOBS[_VERL_KNOBS[key]].check(number)
            except (ConfigError, ValueError) as error:
                found.not_understood(key, f"{item!r} ({error})")
        else:
            found.not_understood(key, item)
    return found
