"""Runs migrations on the connection of the service."""

from alembic import context

from evenhand.service.tables import META


def _run() -> None:
    context.configure(connection=context.config.attributes["connection"], target_metadata=META, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


if hasattr(context, "config"):  # Alembic runs this file; others only import it.
    _run()
