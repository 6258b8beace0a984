"""The one table of key names: what each framework calls the metrics that diagnostics read."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_ALIASES: dict[str, tuple[str, ...]] = {
    "step": (
        "global_step", "current_steps", "_step", "training/global_step", "trainer/global_step", "iteration",
        "training_step", "train/global_step", "rollout/step", "update", "episode_step", "train/step", "Step",
    ),
    "reward": (
        "reward_mean", "mean_reward", "rewards/mean", "critic/score/mean", "critic/rewards/mean",
        "rollout/raw_reward", "objective/scores", "train/reward", "reward/mean", "score_mean", "avg_reward",
        "env/reward/total", "rm", "train/rewards/mean", "rollout/reward", "score", "mean_score", "accuracy_reward_mean",
        "return", "rewards", "rollout/rewards", "train_reward", "objective/rlhf_reward", "total_reward", "env/all/reward/total",
    ),
    "reward_std": (
        "rewards/std", "critic/score/std", "rewards_std", "reward/std", "train/reward_std", "score_std",
        "rollout/raw_reward_std", "group_reward_std",
    ),
    "frac_reward_zero_std": (
        "frac_zero_std", "zero_std_frac", "group/zero_std_ratio", "zero_adv_group_ratio", "zero_variance_ratio",
        "frac_zero_std_groups", "rollout/zero_std/ratio", "zero_std_groups",
    ),
    "kl": (
        "kl_mean", "mean_kl", "actor/kl_loss", "objective/kl", "critic/kl", "approx_kl", "policy/approxkl_avg",
        "train/kl", "actor/reward_kl_penalty", "kl_loss", "train/kl_loss", "rollout/kl", "kl_penalty", "ppo/mean_kl",
        "kl_divergence", "train/approx_kl",
    ),
    "entropy": (
        "actor/entropy", "actor/entropy_loss", "entropy_mean", "mean_entropy", "policy/entropy_avg",
        "objective/entropy", "train/entropy", "entropy_loss", "train/entropy_loss", "policy_entropy", "approx_entropy",
    ),
    "grad_norm": ("actor/grad_norm", "train/grad_norm", "gradient_norm", "total_norm", "grad_norm_mean", "policy/grad_norm"),
    "loss": ("actor/pg_loss", "train/loss", "policy_loss", "pg", "loss/policy_avg", "train_loss", "actor/loss", "pg_loss"),
    "learning_rate": ("actor/lr", "lr", "train/learning_rate", "actor_lr", "act_lr", "train/lr-pg_0"),
    "completions/mean_length": (
        "completion_length", "response_length/mean", "mean_length", "response_length", "gen_len", "glen",
        "rollout/response_lengths", "rollout/response_len/mean", "completion_len", "mean_completion_length",
        "mean_gen_tokens_per_sample", "response_length_mean", "val/response_length", "avg_length",
    ),
    "completions/min_length": ("response_length/min", "rollout/response_len/min", "min_length"),
    "completions/max_length": ("response_length/max", "rollout/response_len/max", "max_length"),
    "completions/clipped_ratio": (
        "response_length/clip_ratio", "truncated", "rollout/truncated", "truncation_rate", "truncated_ratio",
        "rollout/truncated_ratio", "truncation", "clipped_ratio", "overlong_ratio", "frac_truncated", "truncation_ratio",
    ),
    "completions/mean_terminated_length": ("mean_terminated_length",),
    "clip_ratio/region_mean": (
        "clip_ratio", "clip_frac", "clipfrac", "actor/pg_clipfrac", "policy/clipfrac_avg", "train/pg_clipfrac",
        "ppo_clip_ratio", "pg_clipfrac", "clip_fraction",
    ),
    "sampling/sampling_logp_difference/mean": (
        "train_rollout_logprob_abs_diff", "train/train_rollout_logprob_abs_diff", "logprob_diff_mean", "rollout_probs_diff_mean",
        "training/rollout_probs_diff_mean", "rollout_corr/log_ppl_abs_diff", "sampling_logp_difference_mean", "logp_diff",
        "sampler_gap/mean", "mismatch/logp_abs_diff",
    ),
    "sampling/importance_sampling_ratio/mean": (
        "rollout_corr/rollout_is_mean", "importance_sampling_ratio_mean", "is_ratio_mean", "tis_ratio", "train/tis",
    ),
    "token_mult_prob_error": ("train/token_mult_prob_error",),
    "ratio/mean": ("policy/ratio", "val/ratio", "actor/ratio_mean", "importance_ratio/mean", "mean_ratio", "train/ratio", "ppo_ratio"),
    "ratio/max": ("actor/ratio_max", "importance_ratio/max", "max_ratio", "val/ratio_max"),
    "critic/vf_loss": ("value_loss", "loss/value_avg", "vf_loss", "train/value_loss", "critic_loss", "cri"),
    "critic/vf_explained_var": ("explained_variance", "vf_explained_var", "value/explained_variance", "train/explained_variance"),
    "critic/values/mean": ("critic/vpred_mean", "values/mean", "value_mean"),
    "turns/mean": ("num_turns", "num_turns/mean", "mean_turns", "avg_turns", "env/turns"),
    "tools/calls": ("tool_calls", "num_tool_calls", "tool_calls/mean", "tools/call_frequency", "tool_call_rate"),
    "tools/failures": ("tool_errors", "tool_failure_rate", "tools/failure_frequency"),
    "probe/accuracy": (
        "eval_accuracy", "eval/accuracy", "val/accuracy", "eval_reward", "eval/reward", "val-core/acc/mean", "test_score",
        "validation/accuracy", "eval_score", "val/test_score", "test/accuracy", "val_accuracy", "eval/score", "ndcg", "win_rate",
        "test_accuracy", "eval_acc",
    ),
    "text/repetition": ("repetition", "repetition_rate", "repetition_ratio", "rep_ratio"),
    "staleness/mean": ("staleness", "mean_staleness", "async/staleness", "version_lag", "off_policy_steps", "rollout_staleness"),
    "step_time": ("timing_s/step", "time/step", "perf/time_per_step", "step_time_s"),
    "memory/peak_gib": ("memory(GiB)", "perf/max_memory_allocated_gb", "gpu_memory_gb"),
}  # fmt: skip
ALIASES = MappingProxyType({alias: name for name, aliases in _ALIASES.items() for alias in aliases})
"""By what others write: the name under which diagnostics look for it."""
KNOWN = frozenset(_ALIASES)
_PREFIXES = ("train/", "metrics/", "actor_rollout/", "trainer/")
_NONFINITE = {
    "nan": math.nan,
    "inf": math.inf,
    "+inf": math.inf,
    "-inf": -math.inf,
    "infinity": math.inf,
    "-infinity": -math.inf,
}
_OF = re.compile(r"^\s*(\d+)\s*/\s*\d+\s*$")


def normalised(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row under TRL's names; a key that is there under its own name wins over its aliases.

    Values become numbers where they are: texts of numbers, NaN in any spelling, `9/547` of a step counter.
    """
    found: dict[str, Any] = {}
    for key, value in row.items():
        number = numeric(value)
        if number is None:
            continue
        name = canonical(str(key))
        if name == str(key) or name not in found:
            found[name] = number
    if "global_step/max_steps" in row and "step" not in found:
        match = _OF.match(str(row["global_step/max_steps"]))
        if match:
            found["step"] = int(match[1])
    return found


def canonical(key: str) -> str:
    """The name under which diagnostics know a key; the key itself where they do not."""
    name = key.strip()
    if name in KNOWN:
        return name
    if name in ALIASES:
        return ALIASES[name]
    for prefix in _PREFIXES:
        rest = name.removeprefix(prefix)
        if rest != name:
            return rest if rest in KNOWN else ALIASES.get(rest, rest)
    lowered = name.lower()
    if lowered in KNOWN:
        return lowered
    return ALIASES.get(lowered, name)


def numeric(value: Any) -> float | int | None:
    """A number, however it was written; None for anything else."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return value
    if not isinstance(value, str) or len(value) > 40:
        return None
    text = value.strip().lower().removeprefix("tensor(").removesuffix(")")
    if text in _NONFINITE:
        return _NONFINITE[text]
    match = _OF.match(text)
    if match:
        return int(match[1])
    try:
        return float(text)
    except ValueError:
        return None
