"""Search: plan, schedule, selection, kill rules, gates, statistics."""
