"""The errors of the control plane, one class a boundary.

```
AutotrainerError
├── ConfigError (ValueError)        what the user asked for is wrong: one line, exit code 2
├── ContractError (ValueError)      a file of the contract is malformed
├── JournalError (RuntimeError)     the journal cannot be read, written or folded
├── BudgetExceededError (RuntimeError)
├── WorkspaceError (RuntimeError)   a harness copy, patch or digest is wrong
├── ExecutorError (RuntimeError)    a job could not be started or found
├── EvaluationError (RuntimeError)  an answer of the evaluator cannot be trusted
├── SkillError (ValueError)         a skill cannot be loaded
├── PlannerError (RuntimeError)     a planner gave no usable proposal
│   └── PlannerWaitingError         it has one that waits for a person
└── StudyLockedError (RuntimeError) another control plane runs this study
```
"""

from __future__ import annotations


class AutotrainerError(Exception):
    """The root of every error that this package raises on purpose."""


class ConfigError(AutotrainerError, ValueError):
    """What the user asked for is wrong; the message names the value and what is allowed."""


class ContractError(AutotrainerError, ValueError):
    """A file of the contract is malformed; the message names the file and the field."""


class JournalError(AutotrainerError, RuntimeError):
    """The journal cannot be read, written or folded."""


class BudgetExceededError(AutotrainerError, RuntimeError):
    """A reservation does not fit what is left of the budget."""


class WorkspaceError(AutotrainerError, RuntimeError):
    """A harness copy, patch or digest is wrong."""


class ExecutorError(AutotrainerError, RuntimeError):
    """A job could not be started or found."""


class EvaluationError(AutotrainerError, RuntimeError):
    """An answer of the evaluator cannot be trusted."""


class SkillError(AutotrainerError, ValueError):
    """A skill cannot be loaded; the message names its folder."""


class PlannerError(AutotrainerError, RuntimeError):
    """A planner gave no usable proposal."""


class PlannerWaitingError(PlannerError):
    """A planner has to be asked again later: its proposal waits for a person, or the study is stopping."""


class StudyLockedError(AutotrainerError, RuntimeError):
    """Another control plane runs this study."""
