"""Texts from the user on their way to a reader: nothing that a terminal or an editor would obey stays in them."""

from __future__ import annotations

_JOINERS = "\u200c\u200d"
"""They are not seen and change nothing but the shape of letters and emoji beside them."""


def visible(text: str, keep: str = "") -> str:
    r"""Write out every character that is not seen, or that changes how others are seen; letters of all scripts stay.

    ``keep`` are characters that stay nevertheless, such as the ends of lines.

    >>> visible("a\tb" + chr(0x202E) + chr(0x1F469) + chr(0x200D) + chr(0x1F4BB))
    'a\\tb\\u202e👩\u200d💻'
    """
    return text if text.isprintable() else "".join(c if _seen(c, keep) else repr(c)[1:-1] for c in text)


def visible_json(text: str) -> str:
    r"""Write what is not seen in a JSON document by JSON's own escapes, so that it is read back the same.

    >>> visible_json('{"a": "' + chr(0x202E) + '"}')
    '{"a": "\\u202e"}'
    """
    return text if text.isprintable() else "".join(c if _seen(c, "\n") else _units(c) for c in text)


def visible_toml(text: str) -> str:
    r"""Write a text as a TOML string, what is not seen by TOML's own escapes, so that it is read back the same.

    >>> visible_toml('a "b"' + chr(0x202E))
    '"a \\"b\\"\\u202e"'
    """
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if _seen(c, "") else _SHORT.get(c) or _escape(c) for c in plain) + '"'


_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def _seen(character: str, keep: str) -> bool:
    return character.isprintable() or character in keep or character in _JOINERS


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def _units(character: str) -> str:
    """Escape by units of sixteen bits, as JSON does; half of a pair stays half of a pair."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
