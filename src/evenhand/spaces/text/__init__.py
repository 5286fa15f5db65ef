"""Texts as a second kind of space: terms, swaps, similar words."""
