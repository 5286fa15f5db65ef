"""One schema for settings, shared by the command line, ``evenhand.toml`` and the reference.

`evenhand.config.schema` defines every setting and command once; `file` reads configuration files and flags, and checks
values.
"""
