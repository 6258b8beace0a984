"""Shaping rewards: `rewards/<file>.py:<function>`. The verifier's own reward is not here: it is frozen.

A reward is `f(completions, **columns, **params) -> list[float | None]`, one value a completion, None where it
does not apply. `completions` are texts; columns are lists as long: prompts (messages), completion_ids (lists
of token ids), prompt_id, answer, columns (dicts); besides there are the scalars step and
max_completion_length. A reward takes what it needs and the rest as `**_`.
"""
