"""LlmSettings: which language model proposes, what it may spend, and who has to agree."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class LlmSettings(BaseModel):
    """The language model of a study; `--llm*` options and `--set llm.KEY=VALUE`.

    Keys and tokens never stand here: they come from the environment (AUTOTRAINER_LLM_API_KEY, or the
    provider's own variable).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    model: str | None = Field(None, min_length=1)
    """The proposer, as litellm names it: anthropic/..., openai/..., ollama/...; None: no language model."""
    coder: str | None = Field(None, min_length=1)
    """Who repairs rejected decisions and edits; default: the proposer."""
    base_url: str | None = Field(None, pattern=r"^https?://\S+$")
    """Address of an OpenAI-compatible server, as http://127.0.0.1:8000/v1."""
    budget_usd: float = Field(5.0, ge=0, le=1_000_000)
    """What all calls of the study together may cost; a call that could cost more is not made."""
    price_in: float | None = Field(None, ge=0)
    """USD a million prompt tokens, where litellm does not know the model's price."""
    price_out: float | None = Field(None, ge=0)
    """USD a million completion tokens."""
    timeout_s: float | None = Field(None, gt=0, le=86_400)
    """Seconds until an unanswered call is given up; default: 15 % of the time left, 10 to 180 s."""
    max_retries: int = Field(3, ge=0, le=10)
    """Repetitions of a call after 429, 5xx or a broken connection; a time-out is repeated once."""
    max_failures: int = Field(3, ge=1, le=100)
    """Calls in a row that fail before the model is left alone and the rules planner goes on."""
    rest_decisions: int = Field(3, ge=1, le=1000)
    """Decisions that the rules planner then takes before the model is asked again."""
    digest_tokens: int | None = Field(None, ge=600, le=200_000)
    """Size of the digest; default: a quarter of the model's context, 3,000 to 12,000."""
    decision_tokens: int = Field(4000, ge=64, le=64_000)
    """Longest answer; an answer that writes code needs a few thousand."""
    temperature: float | None = Field(None, ge=0, le=2)
    """Default: the provider's."""
    edits: bool = True
    """Whether the model may edit the harness."""
    approve: str = Field("none", pattern="^(none|edits|all)$")
    """Decisions that wait for a person: none, those with edits, all."""
