"""Edits of a harness version and the static screen in front of them."""

from pathlib import Path

import pytest

from autotrainer.errors import WorkspaceError
from autotrainer.recipe.careful import careful_recipe
from autotrainer.recipe.recipe import HookRef, RewardRef, Stage
from autotrainer.workspace.conformance import check_diagnostic, check_stage
from autotrainer.workspace.edits import apply_edits, unified_diff
from autotrainer.workspace.screen import screen
from autotrainer.workspace.versions import apply_patch

FILE = "harness/hooks/x.py"
TEXT = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


def test_edits_become_a_patch_that_git_applies(tmp_path: Path):
    edits = apply_edits(
        {FILE: TEXT},
        [
            {"path": FILE, "search": "return 2", "replace": "return 3"},
            {"path": FILE, "search": "return 3", "replace": "return 4"},
            {"path": "harness/rewards/new.py", "content": "A = 1"},
        ],
    )
    (tmp_path / "harness/hooks").mkdir(parents=True)
    (tmp_path / FILE).write_text(TEXT)
    apply_patch(tmp_path, unified_diff(edits))
    assert (tmp_path / FILE).read_text() == TEXT.replace("return 2", "return 4")
    assert (tmp_path / "harness/rewards/new.py").read_text() == "A = 1\n"


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"path": "harness/run.py", "content": "x"}, "may not be edited"),
        ({"path": "harness/hooks/api.py", "content": "x"}, "frozen"),
        ({"path": "harness/hooks/../run.py", "content": "x"}, "may not be edited"),
        ({"path": "/etc/passwd", "content": "x"}, "may not be edited"),
        ({"path": "harness/tasks/arithmetic.py", "content": "x"}, "may not be edited"),
        ({"path": "sandboxes/api.py", "content": "x"}, "may not be edited"),
        ({"path": FILE, "search": "return", "replace": "x"}, "there 2 times"),
        ({"path": FILE, "search": "nothing", "replace": "x"}, "there 0 times"),
        ({"path": FILE, "search": "", "replace": "x"}, "there 0 times"),
        ({"path": FILE, "search": "f"}, "give either"),
        ({"path": FILE, "search": "f", "replace": "g", "content": "x"}, "give either"),
        ({"path": "harness/hooks/y.py", "search": "f", "replace": "g"}, "no such file"),
        ({"path": FILE, "content": "x = 1\n" * 20_000}, "too many"),
        ({"path": FILE, "content": TEXT}, "change nothing"),
    ],
)
def test_an_edit_that_may_not_be_is_refused_with_the_reason(edit, words):
    with pytest.raises(WorkspaceError, match=words):
        apply_edits({FILE: TEXT}, [edit])


ESCAPES = [
    "import os",
    "import subprocess",
    "from os import path",
    "import socket",
    "import harness.tasks.arithmetic",
    "from harness.trainers import rewards",
    "from harness import evaluate",
    "import autotrainer",
    "import importlib",
    "from torch import hub",
    "import torch.utils.cpp_extension",
    "open('/etc/passwd')",
    "eval('1')",
    "exec('x = 1')",
    "__import__('os')",
    "import torch\ntorch.load('x')",
    "import torch\ntorch.os.system('x')",
    "import numpy\nnumpy.fromfile('x')",
    "import random\nrandom._os.environ",
    "().__class__.__base__.__subclasses__()",
    "(lambda: 0).__globals__",
    "getattr(object, '__subcl' + 'asses__')",
    "import dataclasses\ndataclasses.sys.modules",
    "globals()",
]


@pytest.mark.parametrize("code", ESCAPES)
def test_the_screen_refuses_what_reaches_out(code):
    assert screen(FILE, code + "\n"), code


def test_the_screen_names_the_line_and_undefined_names():
    assert screen(FILE, "x = 1\nimport os\n")[0].startswith(f"{FILE}:2: os may not be imported")
    assert any(
        "undefined name 'torch'" in row for row in screen(FILE, "def f():\n    return torch.zeros(1)\n")
    )
    assert screen(FILE, "def f(:\n")[0].startswith(f"{FILE} does not parse")


@pytest.mark.parametrize("tree", ["harness/hooks", "harness/rewards"])
def test_the_screen_lets_the_shipped_code_pass(tree):
    root = Path(__file__).resolve().parents[2]
    for path in sorted((root / tree).glob("*.py")):
        # sampler_mismatch copies the policy's __dict__, own starts processes: no edit of them would pass.
        if path.name not in ("__init__.py", "api.py", "sampler_mismatch.py", "own.py"):
            assert screen(f"{tree}/{path.name}", path.read_text()) == []


def test_the_screen_lets_the_hooks_of_the_library_pass():
    root = Path(__file__).resolve().parents[2]
    hooks = sorted((root / "skills").glob("*/hook.py"))
    refused = [path.parent.name for path in hooks if screen("harness/hooks/x.py", path.read_text())]
    assert refused == []


def test_a_diagnostic_has_no_torch():
    assert screen("diagnostics/x.py", "import numpy\nimport math\n") == []
    assert screen("diagnostics/x.py", "import torch\n")


def stage(*hooks: HookRef, rewards: tuple[RewardRef, ...] = ()) -> Stage:
    own = careful_recipe("tiny", "math", 0, 4, 6, {}).stages[0]
    return Stage(own.algorithm, own.steps, own.knobs, tuple(hooks), rewards or own.rewards)


@pytest.mark.parametrize(
    ("code", "point", "params", "words"),
    [
        ("class Y:\n    pass\n", "sampler", {}, "no class X"),
        ("class X:\n    pass\n", "sampler", {}, "has the method choose"),
        ("class X:\n    def choose(self):\n        return []\n", "sampler", {}, "takes (self, inputs)"),
        (
            "class X:\n    def __init__(self, a):\n        self.a = a\n"
            "    def term(self, inputs):\n        return 0\n",
            "loss",
            {"b": 1},
            "no parameter 'b'",
        ),
    ],
)
def test_a_hook_without_the_shape_of_its_point_is_refused(code, point, params, words):
    found = check_stage(stage(HookRef(point, "hooks/x.py:X", params)), {FILE: code})
    assert words in found[0]


def test_a_reward_takes_what_it_does_not_need():
    refs = (RewardRef("rewards/r.py:f"),)
    code = "def f(completions):\n    return [0.0 for _ in completions]\n"
    assert "**_" in check_stage(stage(rewards=refs), {"harness/rewards/r.py": code})[0]
    good = code.replace("(completions)", "(completions, **_)")
    assert check_stage(stage(rewards=refs), {"harness/rewards/r.py": good}) == []


def test_a_diagnostic_has_a_check_of_two_arguments():
    assert check_diagnostic("diagnostics/d.py", "def check(rows):\n    return []\n")
    assert check_diagnostic("diagnostics/d.py", "def check(rows, rollouts):\n    return []\n") == []
