"""What every skill has to keep, shipped or not, as a class of tests to inherit.

```python
class TestMySkill(SkillConformance):
    @pytest.fixture
    def skill(self) -> LoadedSkill:
        return load_skill(Path("my_skills/my_skill"))
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autotrainer.contract.metrics import Metrics
from autotrainer.diagnostics.registry import kinds
from autotrainer.library.skill import Intervention, LoadedSkill
from autotrainer.recipe.recipe import Recipe, Stage
from autotrainer.testing.findings import EXAMPLES
from autotrainer.tree.finding import Finding

_HEAVY = frozenset({"torch", "transformers", "trl", "accelerate", "peft", "datasets"})
_CONTROL = frozenset({"autotrainer"})


def recipes() -> Iterator[Recipe]:
    """Recipes that a skill must cope with.

    Bare, tiny, one prompt a step, off-policy, and one with every knob near a bound.
    """
    yield _recipe()
    yield _recipe(
        learning_rate=1e-4,
        prompts_per_step=8,
        num_generations=8,
        temperature=1.0,
        max_completion_length=8,
        beta=0.0,
    )
    yield _recipe(learning_rate=1e-6, prompts_per_step=1, num_generations=8, max_completion_length=4096)
    yield _recipe(
        learning_rate=1e-5, num_iterations=4, epsilon=0.2, epsilon_high=0.28, beta=0.04, temperature=1.3
    )
    yield _recipe(
        learning_rate=1e-1,
        prompts_per_step=4096,
        num_generations=256,
        max_completion_length=131072,
        beta=1.0,
        temperature=2.0,
        entropy_coef=0.1,
        epsilon=1.0,
        epsilon_high=10.0,
        num_iterations=16,
        scale_rewards="batch",
    )
    yield _recipe(
        learning_rate=1e-8, prompts_per_step=1, num_generations=2, max_completion_length=1, temperature=0.1
    )


def cases(skill: LoadedSkill) -> Iterator[tuple[Recipe, tuple[Finding, ...]]]:
    """The recipes and findings (of the kinds that the skill treats) to which it applies."""
    for kind in skill.card.treats:
        for finding in EXAMPLES.get(kind, ()):
            for recipe in recipes():
                if skill.code.applies(recipe, (finding,)):
                    yield recipe, (finding,)


class SkillConformance:
    """The tests; they need a fixture `skill` that gives a LoadedSkill."""

    def test_it_treats_kinds_that_a_diagnostic_finds(self, skill: LoadedSkill) -> None:
        """A misspelt kind would never be called."""
        assert set(skill.card.treats) <= kinds()

    def test_it_does_not_apply_without_its_findings(self, skill: LoadedSkill) -> None:
        """Neither to nothing nor to what it does not treat."""
        others = tuple(
            finding for kind, found in EXAMPLES.items() if kind not in skill.card.treats for finding in found
        )
        for recipe in recipes():
            assert not skill.code.applies(recipe, ())
            assert not skill.code.applies(recipe, others)

    def test_it_applies_to_some_case_of_every_kind_it_treats(self, skill: LoadedSkill) -> None:
        """What the card claims to treat is treated."""
        assert {findings[0].kind for _, findings in cases(skill)} == set(skill.card.treats)

    def test_what_it_proposes_makes_a_recipe_within_bounds(self, skill: LoadedSkill) -> None:
        """Recipes check their knobs; hooks keep theirs in the skill's own file."""
        for recipe, findings in cases(skill):
            intervention = skill.code.propose(recipe, findings)
            apply(recipe, intervention)
            for hook in intervention.hooks:
                assert hook.ref.partition(":")[0] == f"hooks/{Path(skill.card.folder).name}.py"

    def test_what_it_proposes_changes_something_and_says_why(self, skill: LoadedSkill) -> None:
        """A node that repeats its parent is a waste."""
        for recipe, findings in cases(skill):
            intervention = skill.code.propose(recipe, findings)
            assert apply(recipe, intervention) != recipe
            assert intervention.why

    def test_it_is_pure(self, skill: LoadedSkill) -> None:
        """Equal arguments, equal results, and a second opinion from a new object."""
        again = type(skill.code)()
        for recipe, findings in cases(skill):
            first = skill.code.propose(recipe, findings)
            assert skill.code.propose(recipe, findings) == first
            assert again.propose(recipe, findings) == first

    def test_it_cannot_tell_from_nothing(self, skill: LoadedSkill) -> None:
        """Without metrics there is no verdict."""
        assert skill.code.predicts(Metrics(()), Metrics(())) is None

    def test_its_code_keeps_to_its_side(self, skill: LoadedSkill) -> None:
        """skill.py imports no training stack, hook.py nothing of the control plane."""
        assert not imports(Path(skill.card.folder) / "skill.py") & _HEAVY
        if skill.card.hook is not None:
            assert not imports(Path(skill.card.hook)) & _CONTROL

    def test_its_hooks_are_in_its_hook_file(self, skill: LoadedSkill) -> None:
        """Every class that a proposal refers to is there, and `requires` names the point."""
        for recipe, findings in cases(skill):
            for hook in skill.code.propose(recipe, findings).hooks:
                assert skill.card.hook is not None
                assert hook.ref.partition(":")[2] in classes(Path(skill.card.hook))
                assert f"hook:{hook.point}" in skill.card.requires

    def test_its_page_says_what_a_reader_needs(self, skill: LoadedSkill) -> None:
        """Mechanism, when it helps, when it hurts, how to tell."""
        for heading in ("Mechanism", "Helps when", "Hurts when", "How to tell"):
            assert heading in skill.card.body


def apply(recipe: Recipe, intervention: Intervention) -> Recipe:
    """The recipe with an intervention's knobs and hooks in its last stage."""
    changed = recipe.with_knobs(intervention.knobs)
    last = changed.stages[-1]
    hooks = (*last.hooks, *(hook for hook in intervention.hooks if hook not in last.hooks))
    return replace(changed, stages=(*changed.stages[:-1], replace(last, hooks=hooks)))


def imports(path: Path) -> set[str]:
    """The top-level names that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def classes(path: Path) -> set[str]:
    """The names of the classes that a file defines at its top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def _recipe(**knobs: bool | int | float | str) -> Recipe:
    return Recipe("tiny", "math", (Stage("grpo", 60, knobs),), seed=0)
