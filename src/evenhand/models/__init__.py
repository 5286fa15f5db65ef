"""Models: what is audited, and adapters for the models that users have."""
