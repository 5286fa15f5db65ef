"""One schema for the settings that the command line, ``evenhand.toml`` and the reference share.

`evenhand.config.schema` defines every setting once; `commands` says what each command is for; `values` checks values
and writes them as Python, flags or keys; `file` reads a file and puts flags over it; `pages` writes the file that
``evenhand init`` gives and the reference.
"""
