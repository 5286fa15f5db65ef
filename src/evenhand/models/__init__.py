"""Models: what is asked, and adapters for what users have.

>>> from evenhand.models.wrap import wrap
>>> wrap(lambda frame: frame["hours"] > 40, name="rule").name
'rule'
"""

from __future__ import annotations

from evenhand.models.base import Model
from evenhand.models.files import load_model
from evenhand.models.wrap import reading, wrap

__all__ = ["Model", "load_model", "reading", "wrap"]
