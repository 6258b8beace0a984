"""What a study gives to take home: the model, a plain TRL script, the recipe."""
