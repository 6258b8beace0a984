"""Decision: what the language model answers, as a strict schema; read from whatever it wrapped it in."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autotrainer.errors import PlannerError

MAX_EDIT_CHARS = 40_000
_COMPACT = ("verdict", "edge", "use_suggestion", "changes", "skills", "hypothesis")
_NOT_STRICT = (
    "default",
    "title",
    "maxLength",
    "minLength",
    "maxItems",
    "pattern",
    "minimum",
    "maximum",
)
Edge = Literal["draft", "continue", "transition", "restart", "repair"]
StartPoint = Literal["last", "before_onset", "base"]
Scalar = bool | int | float | str
_FENCE = re.compile(r"```[A-Za-z0-9_-]*\s*\n(.*?)```", re.DOTALL)
_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_REFUSAL = re.compile(
    r"\b(I can['\u2019]?t|I cannot|I['\u2019]m sorry|I am (?:sorry|unable)|unable to (?:help|assist))"
)


class DecisionError(PlannerError):
    """An answer is no decision; the message says what to change, for the model that wrote it."""


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)


class KnobChange(_Part):
    """One knob that the model sets."""

    knob: str
    value: Scalar
    why: str = Field("", max_length=2000)


class Param(_Part):
    """One keyword argument of a hook or reward."""

    name: str
    value: Scalar


class UseHook(_Part):
    """A hook class of the harness that the node uses (or, `remove`, uses no longer)."""

    point: Literal["sampler", "rollouts", "rewards", "advantages", "loss", "callbacks"]
    ref: str = Field(pattern=r"^hooks/[a-z][a-z0-9_]*\.py:[A-Za-z_][A-Za-z0-9_]*$")
    params: tuple[Param, ...] = ()
    remove: bool = False


class UseReward(_Part):
    """A shaping reward that is added beside the verifier (or, `remove`, taken away)."""

    ref: str = Field(pattern=r"^rewards/[a-z][a-z0-9_]*\.py:[A-Za-z_][A-Za-z0-9_]*$")
    weight: float = Field(1.0, ge=-10, le=10)
    params: tuple[Param, ...] = ()
    remove: bool = False


class Edit(_Part):
    """One edit of a file: replace `search` (which must be there exactly once), or write the whole file."""

    path: str = Field(max_length=200)
    search: str | None = Field(None, max_length=MAX_EDIT_CHARS)
    replace: str | None = Field(None, max_length=MAX_EDIT_CHARS)
    content: str | None = Field(None, max_length=MAX_EDIT_CHARS)


class Predicted(_Part):
    """A metric movement that the decision expects of the node against its parent."""

    metric: str
    direction: Literal["up", "down", "flat"]
    why: str = Field("", max_length=2000)


class Decision(_Part):
    """One decision: the next node, or that nothing is worth trying any more."""

    verdict: Literal["go_on", "stop"]
    parent: str = ""
    edge: Edge | None = None
    """None: what fits the parent."""
    start: StartPoint | None = None
    use_suggestion: bool = False
    changes: tuple[KnobChange, ...] = ()
    skills: tuple[str, ...] = Field((), max_length=3)
    hooks: tuple[UseHook, ...] = Field((), max_length=6)
    rewards: tuple[UseReward, ...] = Field((), max_length=6)
    edits: tuple[Edit, ...] = Field((), max_length=8)
    hypothesis: str = Field(min_length=1, max_length=4000)
    predictions: tuple[Predicted, ...] = Field((), max_length=8)
    refuted_by: str = Field("", max_length=2000)


def schema(
    *, compact: bool = False, knobs: Sequence[str] = (), skills: Sequence[str] | None = None
) -> dict[str, Any]:
    """The JSON schema of a decision in the strict form that providers take: every key is required.

    With names, only these knobs and skills can be named by a model whose provider enforces the schema.

    A compact one, for answers of a few hundred tokens, has the keys without code, short texts, and at most
    one change, of a number.
    """
    value: dict[str, Any] = Decision.model_json_schema()
    if compact:
        value["properties"] = {key: value["properties"][key] for key in _COMPACT}
        value["$defs"] = {"KnobChange": value["$defs"]["KnobChange"]}
    for part in [value, *value.get("$defs", {}).values()]:
        part["required"] = list(part["properties"])
        for name, entry in part["properties"].items():
            for key in _NOT_STRICT:
                entry.pop(key, None)
            if compact and entry.get("type") == "array":
                entry["maxItems"] = 1
            if compact and name in ("hypothesis", "why", "knob", "parent"):
                entry["maxLength"] = 160 if name == "hypothesis" else 40
    if compact:
        value["$defs"]["KnobChange"]["properties"]["value"] = {"type": "number"}
    if knobs:
        value["$defs"]["KnobChange"]["properties"]["knob"]["enum"] = list(knobs)
    if skills is not None:
        value["properties"]["skills"]["items"]["enum"] = list(skills) or [""]
    return value


def read(text: str) -> Decision:
    """The decision in an answer, with or without a fence, thoughts or words around it.

    Raises:
        DecisionError: there is none, or it breaks the schema; the message names every place.
    """
    value = _object(text)
    if isinstance(value.get("skills"), list):
        value["skills"] = [
            name for name in value["skills"] if name != ""
        ]  # what a schema without skills allows
    try:
        return Decision.model_validate(value)
    except ValidationError as error:
        rows = []
        for item in error.errors()[:8]:
            where = ".".join(str(part) for part in item["loc"]) or "the object"
            shown = json.dumps(item.get("input"), default=str)[:120]
            if item["type"] == "extra_forbidden":
                rows.append(f"{where}: there is no such key")
            elif item["type"] == "missing":
                rows.append(f"{where} is missing")
            else:
                rows.append(f"{where} = {shown}: {item['msg']}")
        raise DecisionError("; ".join(dict.fromkeys(rows))) from error


def _object(text: str) -> dict[str, Any]:
    """The first JSON object of an answer that has the keys of a decision."""
    bare = _THOUGHT.sub("", text).strip()
    candidates = [bare, *_FENCE.findall(bare)]
    found: list[dict[str, Any]] = []
    trouble = ""
    for candidate in candidates:
        try:
            value = json.loads(candidate, parse_constant=_refuse, strict=False)
        except (ValueError, RecursionError) as error:
            trouble = str(error)
            continue
        if isinstance(value, dict):
            found.append(value)
    found += [value for value in _embedded(bare) if "verdict" in value or "hypothesis" in value]
    for value in found:
        if "verdict" in value or "hypothesis" in value:
            return value
    if found:
        return found[0]
    if "{" not in bare:
        kind = "a refusal" if _REFUSAL.search(bare) else "text"
        raise DecisionError(f"the answer is {kind} without a JSON object: answer with one JSON object alone")
    raise DecisionError(
        "the answer has no complete JSON object with verdict and hypothesis "
        f"({trouble[:160]}): was it cut off?"
    )


def _embedded(text: str) -> list[dict[str, Any]]:
    """JSON objects inside of other text, at the first places where one could begin."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    found: list[dict[str, Any]] = []
    place, tries = text.find("{"), 0
    while place >= 0 and tries < 50:
        tries += 1
        try:
            value, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(value, dict):
            found.append(value)
        place = text.find("{", place + 1)
    return found


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not a number that JSON has")
