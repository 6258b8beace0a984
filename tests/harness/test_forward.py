"""Token budgets: the loss without the padding of a whole batch equals the padded one."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.trainers.forward import budgeted, token_chunks, unfused
from tests.harness.conftest import TINY

# Two prompt columns of four in the second row are padding, and so on; four completion columns.
ATTENTION = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [0, 0, 1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 1, 1, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 0],
    ]
)


def test_chunks_hold_the_budget_with_their_own_padding():
    assert token_chunks(ATTENTION, 4, 32) == [[0, 2, 3, 1]]
    # Rows 2 and 3 together need 3 + 3 columns: 12 tokens.
    assert token_chunks(ATTENTION, 4, 12) == [[0], [2, 3], [1]]
    assert token_chunks(ATTENTION, 4, 8) == [[0], [2], [3], [1]]
    assert token_chunks(ATTENTION, 4, 1) == [[0], [2], [3], [1]]


def test_values_and_gradients_equal_those_of_the_padded_forward():
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    ids = torch.randint(3, 40, ATTENTION.shape, generator=torch.Generator().manual_seed(0))

    def forward(ids, attention, keep):
        return *unfused(model, ids, attention, keep, 1.0)[:2], None

    results = []
    for found in (forward(ids, ATTENTION, 4), budgeted(forward, ids, ATTENTION, 4, 12)):
        model.zero_grad()
        (found[0] * torch.arange(1, 5)).sum().backward()
        gradients = torch.cat([value.grad.flatten() for value in model.parameters()])
        results.append((found[0].detach(), found[1].detach(), gradients))
    for padded, packed in zip(*results, strict=True):
        torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo"])
def test_a_run_with_a_token_budget_has_the_loss_of_the_padded_one(run, loss):
    arguments = {"loss_type": loss, "beta": 0.05, "num_iterations": 2}
    padded = run(arguments=arguments, steps=2)
    packed = run(arguments=arguments | {"token_budget": 64}, steps=2)
    for key in ("loss", "entropy", "kl"):
        assert packed.series(key) == pytest.approx(padded.series(key), abs=1e-5)
    assert packed.series("grad_norm") == pytest.approx(padded.series("grad_norm"), rel=1e-3)


def test_a_budget_that_is_no_number_of_tokens_is_refused(run):
    done = run(arguments={"token_budget": 0})
    assert (
        "stages[0].arguments.token_budget = 0 must be a whole number of at least 1" in done.result["reason"]
    )
