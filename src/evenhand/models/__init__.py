"""Models: decision makers that answer batches, and adapters for those that users have."""
