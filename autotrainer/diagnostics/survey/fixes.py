"""Ordered fixes by class of the taxonomy: what to try first, and the skills that do it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "P01": "zero-advantage groups",
        "P02": "reward bug or parse failure",
        "P03": "truncation starvation",
        "P04": "no termination",
        "P05": "length explosion or repetition",
        "P06": "length shrink",
        "P07": "reward hacking",
        "P08": "reward part saturated, dead or dominating",
        "P09": "entropy collapse",
        "P10": "entropy explosion",
        "P11": "policy divergence",
        "P12": "learning rate far too high",
        "P13": "under-training",
        "P14": "NaN or overflow",
        "P15": "train-inference mismatch",
        "P16": "sampling distribution or ratio semantics",
        "P17": "stale or wrong rollout weights",
        "P18": "async staleness",
        "P19": "loss normalisation or backend",
        "P20": "critic failure",
        "P21": "mask, padding or reward placement",
        "P22": "group indexing or data duplication",
        "P23": "ratio spike or too many updates",
        "P24": "token drift in multi-turn",
        "P25": "tool-format collapse or avoidance",
        "P26": "generation mode corruption",
        "P27": "reference or KL anchor",
        "P28": "zero gradient in spite of a signal",
        "P29": "memory, hang or resume",
        "P30": "benign or a metric's artefact",
    }
)

FIXES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "P01": ("read 20 completions by group", "a graded reward", "temperature 0.7-1.0 and G of 8-16",
                "drop prompts that are always or never solved", "SFT warm start"),
        "P02": ("run the reward on gold, shuffled and hand-made answers", "check the data column and the row order",
                "give no score where gold cannot be parsed", "relax the pattern that extracts answers"),
        "P03": ("cap at the 95th percentile of the untrained length", "a shorter prompt or thinking off",
                "mask truncated completions", "a soft overlong penalty"),
        "P04": ("chat template and stop ids", "SFT with the end token in the loss", "pay for a clean end",
                "mask truncated completions"),
        "P05": ("read the tails", "a loss with a constant denominator, or token level", "overlong penalty",
                "one update a batch", "lower learning rate, some KL"),
        "P06": ("a larger cap", "stop ids at step 0", "dr_grpo or token-level loss"),
        "P07": ("an evaluation that is not paid for, at every checkpoint", "close the hole in the reward",
                "a second judge", "back to the last good checkpoint, some KL"),
        "P08": ("log every part by group", "drop dead and finished parts, format at most a fifth of the task",
                "normalise parts apart", "gate format by correctness"),
        "P09": ("lower learning rate", "clip-higher", "temperature 1, larger G", "entropy bonus with a target",
                "restart from an earlier checkpoint"),
        "P10": ("stop and go back to before the onset", "learning rate down 3-10 times", "no entropy bonus",
                "a small KL coefficient", "larger batch"),
        "P11": ("lower learning rate", "KL coefficient up", "stop early on the trend", "larger batch"),
        "P12": ("a tenth to a hundredth of the learning rate", "warm-up", "clip gradients", "from the start weights again"),
        "P13": ("learning rate times 5-10", "a warm-up shorter than the run", "larger G or batch",
                "check that parameters are trainable"),
        "P14": ("back to the last finite checkpoint", "bf16 instead of fp16", "clamp log-ratios before exp",
                "skip updates that are not finite", "filter NaN rewards"),
        "P15": ("compare log-probs at step 0 with equal weights", "equal padding and batches in both passes",
                "recompute old log-probs in the trainer", "truncated importance sampling"),
        "P16": ("one temperature on both sides", "top_p 1, top_k 0, no repetition penalty", "token-level ratio"),
        "P17": ("hash the engine's weights around a sync", "push adapter or merged weights", "sleep mode off"),
        "P18": ("a clipped loss or importance weights", "a smaller lag", "log staleness by sample"),
        "P19": ("accumulation 1 and 4 on one batch must agree", "a global token denominator"),
        "P20": ("warm the critic up alone", "critic learning rate 5 times the actor's", "check masks and shifts",
                "value clipping, whitened returns"),
        "P21": ("print tokens, mask and reward of one sample", "score at the last real token"),
        "P22": ("group by prompt text and count copies", "a uid a prompt"),
        "P23": ("one epoch a batch", "skip batches with huge ratios, two-sided clip", "lower learning rate"),
        "P24": ("tokens in, tokens out", "mask observation tokens"),
        "P25": ("replay a failing call by hand", "SFT data rendered by the very template", "a small reward for a valid call"),
        "P26": ("gradient checkpointing off while generating", "eval mode and cache on"),
        "P27": ("merge the SFT adapter first", "a full copy as reference", "beta 0"),
        "P28": ("requires_grad and optimiser groups", "upgrade the backend", "a weight's norm over ten steps"),
        "P29": ("smaller micro-batch", "the longest sample first", "save and load optimiser, scheduler, RNG"),
        "P30": ("nothing: the run is in order",),
    }
)  # fmt: skip

SKILLS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "P01": ("dapo-dynamic-sampling", "larger-groups", "vcrl", "reinforce-ada", "rl-zvp"),
        "P03": ("overlong",),
        "P04": ("overlong", "kimi-length"),
        "P05": ("kimi-length", "overlong"),
        "P07": ("kl-anchor",),
        "P09": ("adaptive-entropy", "dapo-clip-higher", "aent"),
        "P10": ("lr-backoff", "kl-anchor"),
        "P11": ("lr-backoff", "kl-anchor"),
        "P12": ("lr-backoff",),
        "P13": ("lr-raise",),
        "P14": ("lr-backoff",),
        "P23": ("off-policy-mask",),
    }
)
"""Shipped skills that answer a class."""
