"""A generation batch when it is scored: reward and group hooks, and what the recorder keeps of it. Frozen.

Under several processes hooks see the batch of all of them; what the main process's hooks return counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from harness import processes
from harness.drawing import Drawn
from harness.hooks.api import GroupInputs, RewardInputs
from harness.statistics import GenerationBatch
from harness.trainers.rewards import VERIFIER, texts

if TYPE_CHECKING:
    from harness.stage import StageRun

Rows = Sequence[Mapping[str, Any]]


class Scoring:
    """The scoring half of a stage."""

    def __init__(self, stage: StageRun) -> None:
        """Belong to a stage."""
        self._stage = stage
        self.masks: list[list[int]] | None = None
        """Of this process's last generation, as TRL has them: 0 at tokens that the policy did not write."""
        self.sampler_logps: list[list[float]] | None = None

    def score(
        self,
        trainer: Any,
        inputs: Rows,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        scores_N_F: torch.Tensor,
    ) -> tuple[Rows, list[str], list[list[int]], torch.Tensor]:
        """The batch of all processes, with the reward components after the hooks, column by column."""
        stage = self._stage
        kept = [{name: row[name] for name in ("prompt", "prompt_id", "prompt_index")} for row in inputs]
        local = (kept, texts(completions), [list(ids) for ids in completion_ids])
        parts = processes.gather(local)
        rows, answers, ids = ([one for part in parts for one in part[place]] for place in range(3))
        stage.items.remember(row["prompt_index"] for row in rows)
        if not stage.hooks.has("components"):
            return rows, answers, ids, scores_N_F
        names = list(stage.rewards.weights)
        prompt_ids = [row["prompt_id"] for row in rows]
        columns = stage.rewards.columns(prompt_ids)
        found = stage.hooks.components(
            RewardInputs(
                step=stage.rewards.step,
                prompts_N=[row["prompt"] for row in rows],
                completions_N=answers,
                completion_ids_N=ids,
                prompt_ids_N=prompt_ids,
                answers_N=columns["answer"],
                columns_N=columns["columns"],
                group_size=trainer.num_generations,
                components_N={name: scores_N_F[:, place] for place, name in enumerate(names)},
                max_completion_length=trainer.max_completion_length,
            )
        )
        stacked = torch.stack([found[name] for name in names], dim=1)
        return rows, answers, ids, _from_main(stacked)

    def advantages(
        self,
        trainer: Any,
        advantages: torch.Tensor,
        drawn: Drawn | None,
        rows: Rows,
        completions: list[str],
        completion_ids: list[list[int]],
        scores_N_F: torch.Tensor,
    ) -> torch.Tensor:
        """This process's advantages, after baselines of a draw and the group hooks; the batch is recorded."""
        stage, size, device = self._stage, trainer.num_generations, advantages.device
        advantages_N = torch.cat([part.to(device) for part in processes.gather(advantages.cpu())])
        weights_F = trainer.reward_weights.to(scores_N_F.device)
        rewards_N = (scores_N_F * weights_F).nansum(dim=1)
        rewards_N[torch.isnan(scores_N_F).all(dim=1)] = torch.nan
        components = {name: scores_N_F[:, place] for place, name in enumerate(stage.rewards.weights)}
        draws = [draw for draw in processes.gather(drawn) if draw is not None]
        if draws and draws[0].baselines_P is not None:
            advantages_N = _rebased(rewards_N, draws, size)
        ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}
        stopped = [ids[-1] in ends for ids in completion_ids]
        tags = [tag for draw in draws for tag in draw.tags]
        if stage.hooks.has("group"):
            advantages_N = self._grouped(
                trainer, advantages_N, rewards_N, components, rows, completion_ids, stopped, tags
            )
        batch = GenerationBatch(
            prompts=[_text(row["prompt"]) for row in rows],
            prompt_ids=[row["prompt_id"] for row in rows],
            completions=completions,
            completion_ids=completion_ids,
            stopped=stopped,
            rewards=rewards_N.tolist(),
            components={name: value.tolist() for name, value in components.items()},
            advantages=advantages_N.tolist(),
            group_size=size,
            verifier=VERIFIER if VERIFIER in components else None,
            prompt_indices=[row["prompt_index"] for row in rows[::size]],
            tags=tags if any(tags) else [],
            masks=[list(mask) for part in processes.gather(self.masks) for mask in part or ()],
            sampler_logp_means=_means(self.sampler_logps),
        )
        self._record(batch, draws)
        first = processes.rank() * len(advantages)
        return advantages_N[first : first + len(advantages)]

    def _grouped(
        self,
        trainer: Any,
        advantages_N: torch.Tensor,
        rewards_N: torch.Tensor,
        components: Mapping[str, torch.Tensor],
        rows: Rows,
        completion_ids: list[list[int]],
        stopped: list[bool],
        tags: list[str],
    ) -> torch.Tensor:
        """The advantages after the group hooks."""
        size, device = trainer.num_generations, advantages_N.device
        shape = (-1, size)
        lengths_N = torch.tensor([len(ids) for ids in completion_ids], device=device)
        inputs = GroupInputs(
            step=self._stage.rewards.step,
            advantages_P_G=advantages_N.view(shape),
            rewards_P_G=rewards_N.view(shape),
            components_P_G={name: value.view(shape) for name, value in components.items()},
            lengths_P_G=lengths_N.view(shape),
            truncated_P_G=torch.tensor([not stop for stop in stopped], device=device).view(shape),
            prompt_ids_P=[row["prompt_id"] for row in rows[::size]],
            max_completion_length=trainer.max_completion_length,
            tags_P_G=[tags[first : first + size] for first in range(0, len(tags), size)],
        )
        return _from_main(self._stage.hooks.group(inputs).reshape(-1))

    def _record(self, batch: GenerationBatch, draws: list[Drawn]) -> None:
        stage = self._stage
        _judge(stage.session.task, batch, stage.rewards)
        extra = stage.histories.add(batch)
        if draws:
            extra["rollouts/drawn"] = float(sum(draw.completions for draw in draws))
            extra["rollouts/surplus_tokens"] = float(sum(draw.surplus_tokens for draw in draws))
        stage.recorder.batch(stage.rewards.step, batch, stage.rewards.nonfinite, extra)
        stage.rewards.nonfinite = 0


def _judge(task: Any, batch: GenerationBatch, rewards: Any) -> None:
    """What the task says of the completions beyond their score, where it has the methods for it."""
    if not processes.is_main() or batch.verifier is None:
        return
    if hasattr(task, "parses"):
        batch.parsed = [bool(task.parses(text)) for text in batch.completions]
    if hasattr(task, "second_verify"):
        columns = rewards.columns(batch.prompt_ids)
        verdicts = [
            task.second_verify(text, answer, own)
            for text, answer, own in zip(
                batch.completions, columns["answer"], columns["columns"], strict=True
            )
        ]
        batch.second = [math.nan if one.score is None else float(one.score) for one in verdicts]


def _means(logps: list[list[float]] | None) -> list[float | None]:
    """Mean log-prob of each completion of all processes; empty where the sampler gave none."""
    found: list[float | None] = []
    for part in processes.gather(logps):
        for values in part or ():
            known = [value for value in values if value is not None and math.isfinite(value)]
            found.append(sum(known) / len(known) if known else None)
    return found


def _rebased(rewards_N: torch.Tensor, draws: list[Drawn], size: int) -> torch.Tensor:
    """(reward - baseline) / scale; 0 for a reward that does not apply."""
    baselines = [value for draw in draws for value in draw.baselines_P or ()]
    scales = [value for draw in draws for value in draw.scales_P or [1.0] * len(draw.baselines_P or ())]
    baselines_P = torch.tensor(baselines, device=rewards_N.device, dtype=rewards_N.dtype)
    scales_P = torch.tensor(scales, device=rewards_N.device, dtype=rewards_N.dtype)
    rebased_P_G = (rewards_N.view(-1, size) - baselines_P[:, None]) / scales_P[:, None]
    return torch.nan_to_num(rebased_P_G.reshape(-1), nan=0.0)


def _from_main(value: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = processes.from_main(value.cpu() if processes.world() > 1 else value)
    return found.to(value.device)


def _text(prompt: Any) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(message["content"] for message in prompt)
