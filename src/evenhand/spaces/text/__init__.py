"""Texts as individuals: tokens, lexicons of protected terms, swaps of them, similar words."""
