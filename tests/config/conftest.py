from __future__ import annotations

from tests.cli.conftest import evenhand, people, refused

__all__ = ["evenhand", "people", "refused"]
