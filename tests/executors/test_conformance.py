import pytest

from autotrainer.executors.debug import DebugExecutor
from autotrainer.executors.local import LocalExecutor
from autotrainer.testing.executor_conformance import BackgroundExecutorConformance, ExecutorConformance


class TestLocalExecutor(BackgroundExecutorConformance):
    @pytest.fixture
    def executor(self):
        return LocalExecutor(slots=2)


class TestDebugExecutor(ExecutorConformance):
    @pytest.fixture
    def executor(self):
        return DebugExecutor()
