"""One schema for settings, shared by the command line, ``evenhand.toml`` and the reference.

`evenhand.config.schema` defines every setting and command once; `file` reads a file and flags, and checks values;
`pages` writes the file of ``evenhand init`` and the tables of the reference.
"""
