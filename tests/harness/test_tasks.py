import hashlib
import json
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tasks import load, names
from harness.tasks.api import SPLITS, Item, item_id
from harness.tasks.arithmetic import LEVELS, ArithmeticTask, items_of
from harness.tasks.audit import AuditError, audit_items
from harness.tasks.files import read_items, write_items
from harness.tasks.registry import facts

ROOT = Path(__file__).parents[2]
TASK = ArithmeticTask()


def question(text: str, answer: str = "0") -> Item:
    return Item.of([{"role": "user", "content": text}], answer)


@pytest.fixture(scope="module")
def everything() -> dict[str, list[Item]]:
    return {split: items_of(split) for split in SPLITS}


def test_an_id_is_the_head_of_the_sha256_of_the_canonical_json():
    prompt = [{"role": "user", "content": "1+1=?"}]
    text = '{"answer":"2","prompt":[{"content":"1+1=?","role":"user"}]}'
    assert item_id(prompt, "2") == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_an_id_does_not_depend_on_columns_or_on_the_order_of_keys():
    reordered = Item.of([{"content": "1+1=?", "role": "user"}], "2", {"level": "add_small"})
    assert reordered.id == question("1+1=?", "2").id


@given(st.text(), st.text(), st.dictionaries(st.text(), st.integers() | st.text()))
def test_an_item_survives_its_json_row(content, answer, columns):
    item = Item.of([{"role": "user", "content": content}], answer, columns)
    assert Item.from_row(json.loads(json.dumps(item.to_row()))) == item


def test_an_altered_row_is_refused():
    row = question("1+1=?", "2").to_row()
    with pytest.raises(ValueError, match="altered"):
        Item.from_row(row | {"answer": "3"})


@pytest.mark.parametrize(
    "change", [{"extra": 1}, {"schema_version": 2}, {"prompt": "1+1=?"}, {"columns": None}]
)
def test_a_row_of_another_shape_is_refused(change):
    with pytest.raises(ValueError, match="item"):
        Item.from_row(question("1+1=?", "2").to_row() | change)


def test_a_file_of_items_survives_line_separators_in_its_text(tmp_path):
    items = [question("a\u2028b\nc\x85d", "1"), question("1+1=?", "2")]
    digest = write_items(tmp_path / "items.jsonl", items)
    assert read_items(tmp_path / "items.jsonl") == items
    assert hashlib.sha256((tmp_path / "items.jsonl").read_bytes()).hexdigest() == digest


def test_a_bad_line_of_a_file_is_named(tmp_path):
    write_items(tmp_path / "items.jsonl", [question("1+1=?", "2")])
    with (tmp_path / "items.jsonl").open("a") as file:
        file.write("[]\n")
    with pytest.raises(ValueError, match=r"items\.jsonl line 2"):
        read_items(tmp_path / "items.jsonl")


def test_an_unknown_task_names_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown task 'maths'; known: code, compose"):
        load("maths")


@pytest.mark.parametrize("name", names())
def test_every_task_has_facts_and_its_default_sizes_are_there(name):
    table = facts(name)
    if name in ("gsm8k", "math500"):
        pytest.skip("its data is on the hub")
    splits = load(name).splits(table.sizes, 0)
    assert {split: len(items) for split, items in splits.items()} == table.sizes
    assert table.max_completion_length > 0


def test_math_has_enough_items(everything):
    assert sum(len(items) for items in everything.values()) >= 5000
    assert all(len(everything[split]) >= 500 for split in ("dev", "holdout", "test"))
    assert len(everything["probe"]) >= 128


def test_no_item_of_math_is_there_twice(everything):
    ids = [item.id for items in everything.values() for item in items]
    assert len(ids) == len(set(ids))


def test_splits_share_no_content_even_when_terms_are_swapped(everything):
    keys = {split: {TASK.canonical(item) for item in items} for split, items in everything.items()}
    assert all(keys[one].isdisjoint(keys[other]) for one, other in combinations(SPLITS, 2))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [("3+4", "4+3", True), ("2*9", "9*2", True), ("5+1+9", "9+5+1", True), ("9-4", "4-9", False)],
)
def test_commuted_expressions_have_one_canonical_form(one, other, equal):
    assert (TASK.canonical(question(f"{one}=?")) == TASK.canonical(question(f"{other}=?"))) is equal


def test_every_answer_is_what_python_computes(everything):
    for items in everything.values():
        for item in items:
            assert str(eval(item.prompt[0]["content"].removesuffix("=?"))) == item.answer


def test_the_split_of_an_item_does_not_depend_on_the_seed(everything):
    owner = {item.id: split for split, items in everything.items() for item in items}
    for seed in range(3):
        for split, items in TASK.splits(dict.fromkeys(SPLITS, 100), seed).items():
            assert {owner[item.id] for item in items} == {split}


def test_the_seed_chooses_items_and_order_and_nothing_else_does():
    chosen = TASK.splits({"dev": 100}, 1)["dev"]
    assert TASK.splits({"dev": 100, "test": 50}, 1)["dev"] == chosen
    assert TASK.splits({"dev": 100}, 2)["dev"] != chosen


def test_the_items_are_the_same_in_another_process():
    code = (
        "from harness.tasks import load; print(*[i.id for i in load('math').splits({'dev': 50}, 7)['dev']])"
    )
    there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == [item.id for item in TASK.splits({"dev": 50}, 7)["dev"]]


def test_the_warm_up_split_cannot_move_unnoticed():
    """The shipped model has seen the train split: a change here leaks seen items into dev or test."""
    digest = hashlib.sha256(" ".join(item.id for item in items_of("train")).encode()).hexdigest()
    assert (len(items_of("train")), digest[:16]) == (4945, "361880dec3557231")


def test_a_small_split_is_balanced_over_the_levels():
    levels = [item.columns["level"] for item in TASK.splits({"dev": 100}, 0)["dev"]]
    assert {level: levels.count(level) for level in LEVELS} == dict.fromkeys(LEVELS, 20)


@pytest.mark.parametrize("sizes", [{"dev": 10**6}, {"dev": 0}, {"valid": 10}])
def test_a_size_that_cannot_be_had_is_an_error(sizes):
    with pytest.raises(ValueError, match=r"1 and 1080|known"):
        TASK.splits(sizes, 0)


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("19", 1.0),
        (" 19\n", 1.0),
        ("20", 0.0),
        ("+19", 0.0),
        ("019", 0.0),
        ("19.0", 0.0),
        ("1\uff19", 0.0),
        ("1 9", 0.0),
        ("", 0.0),
        ("The answer is 19", 0.0),
        ("19" * 100_000, 0.0),
    ],
)
def test_only_the_exact_integer_scores(completion, score):
    assert TASK.verify(completion, "19", {}).score == score


def test_a_negative_answer_can_be_right():
    assert TASK.verify("-4", "-4", {}).score == 1.0


def test_an_answer_that_is_no_integer_makes_the_completion_unscorable():
    assert TASK.verify("19", "nineteen", {}).score is None


@given(st.text())
def test_verifying_never_raises(completion):
    assert TASK.verify(completion, "7", {}).score in (0.0, 1.0)


def test_the_verifier_accepts_all_gold_and_refuses_all_known_bad_answers(everything):
    assert audit_items(TASK, everything) == {"gold_accepted": 1.0, "bad_rejected": 1.0, "overlap": 0}


class ContainsTask(ArithmeticTask):
    def verify(self, completion, answer, columns):
        verdict = super().verify(answer, answer, columns)
        return verdict if answer in completion else super().verify("", answer, columns)


def test_the_audit_refuses_a_verifier_that_only_looks_for_the_answer():
    with pytest.raises(AuditError, match="bad_rejected"):
        audit_items(ContainsTask(), TASK.splits({"dev": 20}, 0))


def test_the_audit_refuses_a_swapped_sum_in_another_split():
    with pytest.raises(AuditError, match="'overlap': 1"):
        audit_items(TASK, {"train": [question("3+4=?", "7")], "dev": [question("4+3=?", "7")]})


def test_a_perturbed_item_is_another_of_its_level_and_split(everything):
    owner = {item.id: split for split, items in everything.items() for item in items}
    for item in everything["dev"][::20]:
        other = TASK.perturb(item, 3)
        assert TASK.canonical(other) != TASK.canonical(item)
        assert (other.columns, owner[other.id]) == (item.columns, "dev")
        assert TASK.perturb(item, 3) == other


def test_the_tasks_import_nothing_but_the_standard_library():
    code = "import sys, harness.tasks.audit, harness.tasks.files; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    top = {name.partition(".")[0] for name in loaded.stdout.split()}
    assert top.isdisjoint({"torch", "transformers", "trl", "datasets", "numpy", "autotrainer", "skills"})
