import pytest

from autotrainer.library.loader import load_skills
from autotrainer.library.skill import LoadedSkill
from autotrainer.testing.skill_conformance import SkillConformance

SHIPPED = load_skills()


class TestShippedSkills(SkillConformance):
    @pytest.fixture(params=sorted(SHIPPED))
    def skill(self, request: pytest.FixtureRequest) -> LoadedSkill:
        return SHIPPED[request.param]
