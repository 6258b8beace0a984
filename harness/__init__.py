"""What runs inside a job: trainers, hooks, rewards, recorder, tasks with their verifiers, evaluator."""
