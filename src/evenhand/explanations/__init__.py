"""Explanations: where discrimination happens and who is affected, in rules and in examples."""
