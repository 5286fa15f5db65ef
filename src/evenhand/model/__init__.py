"""Models: what is asked, and adapters for what users have.

>>> from evenhand.model import wrap
>>> wrap(lambda frame: frame["hours"] > 40, name="rule").name
'rule'
"""

from __future__ import annotations

from evenhand.model.files import load_model
from evenhand.model.protocol import Model
from evenhand.model.wrapping import reading, wrap

__all__ = ["Model", "load_model", "reading", "wrap"]
