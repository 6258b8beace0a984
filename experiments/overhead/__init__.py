"""What the harness costs beside plain TRL."""
