"""LitellmBackend: any provider that litellm knows, and any OpenAI-compatible server by its address."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from typing import Any

from autotrainer.errors import ConfigError
from autotrainer.planners.llm.backend import CallError, Fault, Reply, Request
from autotrainer.planners.llm.prices import Price
from autotrainer.planners.llm.settings import LlmSettings

KEY_VARIABLE = "AUTOTRAINER_LLM_API_KEY"
MAX_ANSWER_CHARS = 400_000
_KEYS = re.compile(r"(sk-|key-|Bearer\s+)[A-Za-z0-9_\-\.]{6,}")


def _litellm() -> Any:
    """The library, without its telemetry and without fetching its price list."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    os.environ.setdefault("LITELLM_LOG", "CRITICAL")
    # Its own type declarations, which pydantic reads at the first import and at the first call.
    warnings.filterwarnings("ignore", message=r".*using the `ReadOnly` qualifier", category=UserWarning)
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = True
    litellm.num_retries = 0
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


class LitellmBackend:
    """One call without litellm's own retries; the client above repeats, charges and gives up."""

    def __init__(self, settings: LlmSettings) -> None:
        """Nothing is imported or connected before the first call."""
        self._settings = settings
        self._plain: set[str] = set()

    def complete(self, request: Request, timeout_s: float) -> Reply:
        """The answer; the schema is passed on, and left out for a server that refuses it.

        Raises:
            CallError: there is none.
        """
        try:
            return self._call(request, timeout_s, with_schema=request.model not in self._plain)
        except CallError as error:
            if error.fault is not Fault.REFUSED or not request.schema or request.model in self._plain:
                raise
        reply = self._call(request, timeout_s, with_schema=False)
        self._plain.add(request.model)
        return reply

    def _call(self, request: Request, timeout_s: float, *, with_schema: bool) -> Reply:
        litellm = _litellm()
        arguments: dict[str, Any] = {
            "model": request.model,
            "messages": [{"role": role, "content": text} for role, text in request.messages],
            "max_tokens": request.max_tokens,
            "timeout": timeout_s,
            "num_retries": 0,
            "max_retries": 0,
        }
        key = os.environ.get(KEY_VARIABLE)
        if request.base_url:
            arguments["api_base"] = request.base_url
            arguments["api_key"] = key or "none"  # a local server wants some key
        elif key:
            arguments["api_key"] = key
        if request.temperature is not None:
            arguments["temperature"] = request.temperature
        if with_schema and request.schema:
            arguments["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "decision", "strict": True, "schema": json.loads(request.schema)},
            }
        try:
            answer = litellm.completion(**arguments)
        except Exception as error:
            raise _typed(error) from error
        return _reply(answer)


def _reply(answer: Any) -> Reply:
    """The reply in a provider's answer; anything may be missing from it."""
    try:
        choice = answer.choices[0]
        text = choice.message.content
    except (AttributeError, IndexError, KeyError, TypeError):
        raise CallError(Fault.MALFORMED, "the answer has no choices with a message") from None
    if not isinstance(text, str) or not text.strip():
        refusal = getattr(choice.message, "refusal", None)
        raise CallError(Fault.MALFORMED, f"the answer is empty{f': {str(refusal)[:200]}' if refusal else ''}")
    usage = getattr(answer, "usage", None)
    return Reply(
        text=text[:MAX_ANSWER_CHARS],
        prompt_tokens=_count(getattr(usage, "prompt_tokens", None)),
        completion_tokens=_count(getattr(usage, "completion_tokens", None)),
        finish_reason=str(getattr(choice, "finish_reason", "") or "stop")[:40],
    )


def _count(value: Any) -> int | None:
    """A count of tokens; litellm writes 0 where the server gave none, and no call has none."""
    good = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value) if good else None


def _typed(error: Exception) -> CallError:
    """The fault behind an exception of litellm, by its HTTP status and its class's name."""
    status = getattr(error, "status_code", None)
    name = type(error).__name__
    words = _KEYS.sub("(key)", " ".join(str(error).split()))[:300]
    if "Timeout" in name or status == 408:
        fault = Fault.TIMEOUT
    elif status == 429 or "RateLimit" in name:
        fault = Fault.RATE
    elif "Connection" in name:
        fault = Fault.CONNECTION
    elif isinstance(status, int) and 400 <= status < 500:
        fault = Fault.REFUSED
    elif isinstance(status, int) and status >= 500:
        fault = Fault.SERVER
    else:
        fault = Fault.MALFORMED
    return CallError(fault, f"{name}: {words}", retry_after_s=_retry_after(error))


def _retry_after(error: Exception) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        return max(0.0, float(str(headers.get("retry-after"))))
    except (AttributeError, ValueError):
        return None


def price_of(model: str, settings: LlmSettings) -> Price:
    """USD a token: as asked, else litellm's list, else free where the server has an address of its own.

    Raises:
        ConfigError: a hosted model of unknown price: what it spends could not be bounded.
    """
    if settings.price_in is not None or settings.price_out is not None:
        return Price((settings.price_in or 0.0) / 1e6, (settings.price_out or 0.0) / 1e6)
    known = _litellm().model_cost
    entry = known.get(model) or known.get(model.partition("/")[2])
    if entry and (entry.get("input_cost_per_token") or entry.get("output_cost_per_token")):
        return Price(
            float(entry.get("input_cost_per_token") or 0.0), float(entry.get("output_cost_per_token") or 0.0)
        )
    if settings.base_url or model.startswith(("ollama/", "ollama_chat/", "hosted_vllm/", "lm_studio/")):
        return Price(0.0, 0.0, known=False)
    raise ConfigError(
        f"the price of {model} is not known, so that its spending could not be bounded: "
        "give --set llm.price_in and llm.price_out (USD a million tokens)"
    )


def context_of(model: str) -> int | None:
    """Tokens of the model's context, where litellm knows it."""
    known = _litellm().model_cost
    entry = known.get(model) or known.get(model.partition("/")[2]) or {}
    value = entry.get("max_input_tokens") or entry.get("max_tokens")
    return int(value) if isinstance(value, int | float) else None
