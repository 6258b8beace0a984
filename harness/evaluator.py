"""Evaluator: scores one checkpoint on one split of the vault; frozen.

Equal requests get equal answers, whatever was served before. Weights are read as safetensors only and no code
of a checkpoint is run: a checkpoint comes from a job that nobody trusts.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from harness.contract import SCHEMA_VERSION, ContractError, read_json, sha256_of
from harness.tasks.api import Item, Task

if TYPE_CHECKING:
    from harness.generation import Generation

SPLITS = ("probe", "dev", "holdout", "test")
_HEADER = {"id": "", "node": "", "step": 0, "split": "", "samples": 0, "temperature": 0.0, "seed": 0}
_Checked = TypeVar("_Checked")
_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """One request, checked; `n` 0 means all items of the split."""

    id: str
    node: str
    step: int
    split: str
    model_path: str
    n: int
    samples: int
    temperature: float
    max_completion_length: int
    seed: int
    output: str

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> EvalRequest:
        """The request in a parsed file.

        Raises:
            ContractError: a key is missing or unknown, or a value is not allowed; the message names it.
        """
        request = typed(cls, value)
        if request.split not in SPLITS:
            raise ContractError(f"split {request.split!r} must be one of {', '.join(SPLITS)}")
        low = {"step": 0, "n": 0, "samples": 1, "max_completion_length": 1}
        for name, least in low.items():
            if getattr(request, name) < least:
                raise ContractError(f"{name} = {getattr(request, name)} must be at least {least}")
        if not 0 < request.temperature < float("inf"):
            raise ContractError(f"temperature = {request.temperature} must be above 0: greedy comes anyway")
        return request

    def header(self) -> dict[str, Any]:
        """What an answer repeats of its request."""
        return {name: getattr(self, name) for name in _HEADER}


class Evaluator:
    """Holds the vault's items, the verifier and the last model."""

    def __init__(self, task: str, study: Path, vault: Path, device: str) -> None:
        """Load the verifier; items and models are loaded when first asked for.

        Raises:
            ValueError: there is no such task.
        """
        from harness.tasks import load

        self._task: Task = load(task)
        self._study, self._vault, self._device = study, vault, device
        self._items: dict[str, list[Item]] = {}
        self._model: tuple[tuple[Path, str], Any, Any] | None = None

    def answer(
        self, request: EvalRequest, enter: Callable[[str], object] = lambda phase: None
    ) -> dict[str, Any]:
        """Score one checkpoint on one split; `enter` is told the phases `load` and `generate`.

        Raises:
            ContractError: the split has fewer items than asked for, or is not what was prepared.
            OSError: the model cannot be read.
        """
        started = time.time()
        enter("load")
        items = self._split(request.split, request.n)
        model, tokenizer, digest = self._load(request.model_path)
        enter("generate")
        sampled, greedy = self._generate(request, items, model, tokenizer)
        rows: list[dict[str, Any]] = [
            {
                "id": item.id,
                "scores": [self._score(item, completion) for completion in completions],
                "greedy": self._score(item, best[0]),
            }
            for item, completions, best in zip(items, sampled, greedy, strict=True)
        ]
        every = [completion for completions in sampled for completion in completions]
        ended = time.time()
        return {
            "schema_version": SCHEMA_VERSION,
            **request.header(),
            "n": len(items),
            "items": rows,
            "mean": fmean(_mean(row["scores"]) for row in rows),
            "unscorable": sum(score is None for row in rows for score in row["scores"]),
            "truncated": fmean(not completion.stopped for completion in every),
            "tokens": sum(len(completion.tokens) for group in (*sampled, *greedy) for completion in group),
            "device_seconds": ended - started,
            "started": started,
            "ended": ended,
            "model_sha256": digest,
            "error": None,
        }

    def _generate(
        self, request: EvalRequest, items: Sequence[Item], model: Any, tokenizer: Any
    ) -> tuple[list[list[Generation]], list[list[Generation]]]:
        """The sampled and the greedy completions; the seed is the request's and the split's."""
        from harness.generation import generate

        prompts = [item.prompt for item in items]
        seed = int.from_bytes(hashlib.sha256(f"{request.seed}:{request.split}".encode()).digest()[:8])
        length = request.max_completion_length
        sampled = generate(
            model,
            tokenizer,
            prompts,
            max_new_tokens=length,
            temperature=request.temperature,
            samples=request.samples,
            seed=seed,
        )
        greedy = generate(
            model, tokenizer, prompts, max_new_tokens=length, temperature=0.0, samples=1, seed=seed
        )
        return sampled, greedy

    def _score(self, item: Item, completion: Generation) -> float | None:
        return self._task.verify(completion.text, item.answer, item.columns).score

    def _split(self, name: str, n: int) -> list[Item]:
        """The first n items of a split, which has to be the file that prepare.py wrote."""
        from harness.tasks.files import read_items

        if name not in self._items:
            path = self._vault / f"{name}.jsonl"
            promised = read_json(self._study / "data" / "manifest.json")["splits"].get(name, {})
            if not path.is_file() or sha256_of(path) != promised.get("sha256"):
                raise ContractError(f"the vault's {name} split is not the manifest's: it was altered or lost")
            self._items[name] = read_items(path)
        items = self._items[name]
        if n > len(items):
            raise ContractError(f"n = {n} must be at most {len(items)}, the items of {name}; 0 takes all")
        return items[:n] if n else items

    def _load(self, path: str) -> tuple[Any, Any, str]:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        folder = model_folder(path)
        key = (folder, weights_sha256(folder))
        if self._model is None or self._model[0] != key:
            self._model = None
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            if tokenizer.chat_template is None:
                raise ContractError(f"{path} has no chat template")
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.float32 if self._device == "cpu" else torch.bfloat16,
                use_safetensors=True,
                trust_remote_code=False,
            )
            self._model = (key, model.to(self._device).eval(), tokenizer)
        return self._model[1], self._model[2], key[1]


def typed(cls: type[_Checked], value: Mapping[str, Any]) -> _Checked:
    """The dataclass of a parsed file whose keys and types are exactly its fields' (str, int or float).

    Raises:
        ContractError: they are not, or the schema version is another; the message names the first.
    """
    if value.get("schema_version") != SCHEMA_VERSION:
        raise ContractError(f"schema_version {value.get('schema_version')!r} must be {SCHEMA_VERSION}")
    declared: Any = cls
    types = {field.name: str(field.type) for field in fields(declared)}
    if wrong := sorted((set(value) - {"schema_version"}) ^ set(types)):
        known = ", ".join(types)
        raise ContractError(f"{cls.__name__}: {wrong[0]!r} is missing or unknown; known are {known}")
    for name, kind in types.items():
        item = value[name]
        if isinstance(item, bool) or not isinstance(item, _TYPES[kind]):
            raise ContractError(f"{cls.__name__}: {name} = {item!r} must be of type {kind}")
    return cls(**{name: value[name] for name in types})


def model_folder(path: str) -> Path:
    """The folder itself, or the one that the hub's cache holds for a hub id, fetched if need be.

    Raises:
        FileNotFoundError: an absolute path leads nowhere.
    """
    folder = Path(path)
    if folder.is_dir():
        return folder
    if folder.is_absolute():
        raise FileNotFoundError(f"there is no model folder {path}")
    from huggingface_hub import snapshot_download

    patterns = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
    return Path(snapshot_download(path, allow_patterns=patterns))


def weights_sha256(folder: Path) -> str:
    """The SHA-256 of a model's weight file; of the lines `<sha256>  <name>` where there are several.

    Raises:
        FileNotFoundError: the folder has no safetensors file.
    """
    digests = {file.name: sha256_of(file) for file in sorted(folder.glob("*.safetensors"))}
    if not digests:
        raise FileNotFoundError(f"{folder} holds no safetensors file")
    if len(digests) == 1:
        return next(iter(digests.values()))
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def refusal(header: Mapping[str, Any], message: str) -> dict[str, Any]:
    """The answer to a request that cannot be served; what the header lacks is empty."""
    now = time.time()
    return {
        "schema_version": SCHEMA_VERSION,
        **_HEADER,
        **header,
        "n": 0,
        "items": [],
        "mean": 0.0,
        "unscorable": 0,
        "truncated": 0.0,
        "tokens": 0,
        "device_seconds": 0.0,
        "started": now,
        "ended": now,
        "model_sha256": "",
        "error": message,
    }


def _mean(scores: Sequence[float | None]) -> float:
    """Mean over samples; an unscorable one counts as wrong."""
    return fmean(score if score is not None else 0.0 for score in scores)
