import json
import struct
from math import prod

import pytest

from autotrainer.budget.device_table import device
from autotrainer.budget.memory import GIB, Batch, job_memory, largest_micro_batch
from autotrainer.budget.model_shape import shape_of
from autotrainer.budget.step_time import step_time
from autotrainer.errors import ConfigError
from autotrainer.resources import resolve_model

QWEN = "Qwen/Qwen2.5-1.5B-Instruct"
DEMO = Batch(sequences=64, micro=64, prompt_tokens=12, completion_tokens=8)


def test_the_parameters_of_the_shipped_model_are_those_in_its_file():
    with open(f"{resolve_model('tiny')}/model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    stored = sum(prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")
    assert shape_of("tiny").parameters == stored


def test_full_weights_take_sixteen_bytes_a_parameter_and_a_reference_four_more():
    shape = shape_of(QWEN)
    free = job_memory(shape, DEMO, beta=0.0, checkpointing=True, cpu=False)
    held = job_memory(shape, DEMO, beta=0.04, checkpointing=True, cpu=False)
    fixed = (free.weights + free.gradients + free.optimizer) * GIB
    assert fixed == pytest.approx(16 * shape.parameters)
    assert (held.total - free.total) * GIB == pytest.approx(4 * shape.parameters)


def test_the_cache_of_a_known_model_has_its_documented_size_a_token():
    assert (
        shape_of(QWEN).kv_bytes_per_token == 2 * 28 * 2 * 128 * 2
    )  # keys and values, layers, heads, size, bf16


def test_a_smaller_micro_batch_is_found_where_the_asked_one_is_too_large():
    shape, batch = shape_of(QWEN), Batch(64, 64, 200, 2000)
    asked = job_memory(shape, batch, beta=0.0, checkpointing=True, cpu=False)
    limit = asked.total - 5.0
    micro = largest_micro_batch(shape, batch, limit, beta=0.0, checkpointing=True, cpu=False)
    assert micro is not None
    assert micro < 64
    assert 64 % micro == 0
    assert largest_micro_batch(shape, batch, 10.0, beta=0.0, checkpointing=True, cpu=False) is None


def test_memory_and_step_time_of_the_tiny_model_are_near_what_was_measured():
    """A job of the demo on one core: 0.62 GiB at its peak, 0.134 s a step."""
    shape = shape_of("tiny")
    memory = job_memory(shape, DEMO, beta=0.0, checkpointing=False, cpu=True)
    assert memory.total == pytest.approx(0.62, rel=0.15)
    step = step_time(shape, DEMO, device("CPU"), mean_share=0.4, checkpointing=False)
    assert step.total == pytest.approx(0.134, rel=0.25)


def test_generation_grows_with_the_cap_and_training_with_the_iterations():
    shape, h100 = shape_of(QWEN), device("H100")
    short, long = (step_time(shape, Batch(512, 16, 128, cap), h100) for cap in (512, 1024))
    assert long.generate > 1.9 * short.generate
    twice = step_time(shape, Batch(512, 16, 128, 512), h100, num_iterations=2)
    assert twice.train == pytest.approx(2 * short.train)
    assert twice.logprobs > 0
    assert short.logprobs == 0


@pytest.mark.parametrize("kind", ["H100", "h100-80gb", "CPU", "GPU"])
def test_devices_are_known_by_the_kind_of_a_budget(kind):
    assert device(kind).memory_gib > 0


def test_a_model_whose_size_nothing_tells_is_refused():
    with pytest.raises(ConfigError, match="size of model 'someone/mystery' is not known"):
        shape_of("someone/mystery")
