"""A package outside evenhand: boxes of pixels as a kind of space, two searches, and an adapter for its models.

Its entry points stand in ``pixelbox-1.0.dist-info``, as installing it would write them.
"""

from pixelbox.models import Brightness
from pixelbox.search import Flips, Mirrored
from pixelbox.space import PixelSpace

__all__ = ["Brightness", "Flips", "Mirrored", "PixelSpace"]
