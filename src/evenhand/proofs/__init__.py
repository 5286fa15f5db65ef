"""Proofs: certain answers about models that can be read, with certificates that others can check."""
