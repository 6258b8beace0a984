"""The control plane's side of the evaluator: requests, answers and checks on them."""
