"""Explanations: where and to whom discrimination happens, in rules and in examples."""
