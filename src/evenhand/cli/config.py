"""The file evenhand.toml: its tables, checked, with the command line's flags put over them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.errors import ConfigError
from evenhand.model.files import is_file_name
from evenhand.space.names import suggest

LARGEST = 64 * 2**20
