import json
from itertools import product

import pytest

from harness.tasks.api import SPLITS
from harness.tasks.audit import audit_items
from harness.tasks.code import CodeTask, cases_of
from harness.tasks.file_task import data_task, full_name
from harness.tasks.hub import Gsm8kTask, Math500Task, sample_rows
from harness.tasks.leaks import find_leaks
from harness.tasks.logic import LogicTask, solutions
from harness.tasks.registry import facts, load, names
from harness.tasks.verifiers import VERIFIERS, verifier

SMALL = {"train": 32, "probe": 8, "dev": 16, "holdout": 16, "test": 16}


@pytest.mark.parametrize("name", ["compose", "logic", "gym:chain_sum"])
def test_a_generated_task_has_disjoint_splits_that_no_seed_moves(name):
    task = load(name)
    one, two = task.splits(SMALL, 0), task.splits(SMALL, 1)
    assert audit_items(task, one)["overlap"] == 0
    owner = {task.canonical(item): split for split, items in one.items() for item in items}
    for split, items in two.items():
        assert all(owner.get(task.canonical(item), split) == split for item in items)
    assert task.splits(SMALL, 0) == one
    other = task.perturb(one["dev"][0], 3)
    assert task.canonical(other) != task.canonical(one["dev"][0])
    assert task.verify(task.gold(other), other.answer, other.columns).score == 1.0


def test_every_table_names_a_task_and_the_other_way_round():
    assert {"math", "compose", "logic", "code", "gsm8k", "math500"} <= set(names())
    for name in names():
        assert set(facts(name).sizes) == set(SPLITS)


def test_a_puzzle_has_one_solution_by_brute_force():
    claims = [(0, "is", 1, 0), (1, "same", 0, 1)]
    by_hand = [
        world
        for world in product((True, False), repeat=2)
        if (world[1] is False) == world[0] and (world[0] == world[1]) == world[1]
    ]
    assert solutions(claims, 2) == by_hand
    for item in LogicTask().splits({"train": 20}, 0)["train"]:
        assert set(item.answer) <= {"T", "L"}


@pytest.mark.parametrize(("make", "name"), [(Gsm8kTask, "gsm8k"), (Math500Task, "math500")])
def test_hub_formats_are_read_and_judged(make, name):
    task = make(lambda: sample_rows(name))
    assert audit_items(task, {"train": task.items()})["gold_accepted"] == 1.0


def test_published_test_rows_stay_out_of_training():
    rows = [{"question": f"How many are {n}?", "answer": f"#### {n}", "official": "test"} for n in range(50)]
    task = Gsm8kTask(lambda: rows)
    assert {task.split(item) for item in task.items()} == {"holdout", "test"}


@pytest.mark.parametrize(
    ("name", "completion", "answer", "score"),
    [
        ("final_number", "so\n#### 1,250", "1250", 1.0),
        ("final_number", "#### 3 or #### 4", "4", 0.0),
        ("final_number", "The answer is 4", "4", 1.0),
        ("final_number", "#### 41", "4", 0.0),
        ("number", "4.0", "4", 1.0),
        ("choice", "(B)", "B", 1.0),
        ("choice", "A B C D", "B", 0.0),
        ("math", r"\boxed{0.75}", r"\frac{3}{4}", 1.0),
        ("math", r"\boxed{1} \boxed{2}", "2", 0.0),
    ],
)
def test_verifiers_take_the_answer_and_no_list_of_answers(name, completion, answer, score):
    assert verifier(name).judge(completion, answer).score == score


@pytest.mark.parametrize("name", sorted(VERIFIERS))
@pytest.mark.parametrize("text", ["", "\x00", "\\boxed{", "9" * 500, "\\boxed{\\frac{1}{0}}", "🙂" * 9])
def test_a_verifier_never_raises(name, text):
    assert verifier(name).judge(text, "4").score in (0.0, None)


def test_data_without_code_is_a_task(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text(
        "".join(json.dumps({"q": f"{a} and {b}?", "a": a + b}) + "\n" for a in range(20) for b in range(20))
    )
    (tmp_path / "d.toml").write_text('template = "{q}"\nanswer = "a"\n')
    name = full_name(f"file:{path}?verifier=number")
    task = data_task(name)
    assert facts(name).sizes["train"] > 200
    assert audit_items(task, task.splits(facts(name).sizes, 0))["bad_rejected"] == 1.0
    path.unlink()
    assert load(name).verify("7", "7", {}).score == 1.0


def test_contradicting_rows_are_named(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"question": "a", "answer": "1"}\n{"question": "A", "answer": "2"}\n')
    with pytest.raises(ValueError, match="row 2"):
        data_task(f"file:{path}").items()


def test_public_code_formats_become_cases():
    assert cases_of("assert add(1, 2) == 3\nassert add(0, 0) == 0", "add") == [([1, 2], 3), ([0, 0], 0)]
    check = "def check(candidate):\n    assert candidate([1]) == [2]\n"
    assert cases_of(check, "f") == [([[1]], [2])]
    assert cases_of("assert abs(f(1) - 2) < 1e-6", "f") is None


def test_code_is_judged_by_hidden_tests():
    row = {
        "text": "Add two.",
        "code": "def add(a, b):\n    return a + b",
        "test_list": ["assert add(1, 2) == 3", "assert add(5, 5) == 10"],
    }
    task = CodeTask("mbpp", [row])
    item = next(task.stream("0"))
    judged = [
        task.verify(text, item.answer, item.columns).score
        for text in (task.gold(item), "def add(a, b): return 3")
    ]
    assert judged == [1.0, 0.0]


def test_near_duplicates_across_splits_are_found():
    task = Gsm8kTask(
        lambda: [
            {"question": " ".join(f"word{n}" for n in range(80)) + end, "answer": "#### 1"}
            for end in (" a", " b")
        ]
    )
    one, two = task.items()
    found = find_leaks({"train": [one], "dev": [two]})
    assert (found["near_duplicates"], found["ngram_overlap"]) == (1, 1)
