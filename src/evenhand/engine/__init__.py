"""The engine: answers what a search asks, within the budget, and keeps a log of the answers."""
