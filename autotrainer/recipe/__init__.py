"""Recipes: knobs, stages, forks, and what a job gets of them."""
