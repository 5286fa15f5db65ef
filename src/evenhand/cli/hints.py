"""Errors name the remedy in Python; here it becomes the option that does the same."""

from __future__ import annotations

import re

HINTS = (
    (r"strategy='([\w-]+)'", r"--strategy \1"),
    (r"[Uu]se eh\.TextSpace", "use --texts FILE"),
    (r'encoding="([\w-]+)"', r"--encoding \1, or encoding in [text]"),
    (r"the error's attribute partial is the run so far", "--directory DIR would have kept them"),
    (r"give a list of them: data=\[\.\.\.\]", "name a file that has them: --texts FILE"),
    (r"eh\.Adf\(gradient='(\w+)'\)", r"--set gradient=\1"),
    (r"(?:criterion=)?eh\.Gap\(([^)]*)\)", r"--gamma \1"),
    (r"criterion=eh\.Flip\(\)", "no --gamma"),
    (r"eh\.wrap\(model, threshold=([^)]*)\)", r"--threshold \1"),
    (
        r"eh\.wrap\(model, timeout=\.\.\.\), or ask fewer rows at a time",
        "--timeout, or ask fewer rows at a time: --chunk",
    ),
    (
        r'eh\.wrap\(model, input="(\w+)"\)',
        r'--model module:attribute, where the attribute is eh.wrap(model, input="\1")',
    ),
    (
        r"eh\.wrap\(model, regression=True\)",
        "--model module:attribute, where the attribute is eh.wrap(f, regression=True)",
    ),
    (r"eh\.Order\(\[\.\.\.\]\)", "--order, once for each from worst to best"),
    (r"favourable=Order\((.*?)\)", r"--order \1"),
    (r"favourable=(?=['\[])", "--favourable "),
    (r"favourable=(?![\w'])", "--favourable"),
    (r"\by=(?=')", "--target "),
    (r"^y needs", "--target needs"),
    (r"\bgive data= (too|with it)", r"give --data FILE \1"),
    (r"leave out data= to", "leave out --data to"),
    (r"give them: data=\.\.\.", "give them: --data FILE"),
    (r"format='json' or .*'markdown'", "--format NAME"),
    (r"(population|about)=[\"'](\w+)[\"']", r"--\1 \2"),
    (r"needs data=: rows", "needs --data FILE: rows"),
    (r"\bdata=texts", "--texts FILE"),
    (r"exact=True", "--exact"),
    (r"\bsamples=(\d+)", r"--samples \1"),
    (r"\bhalf_width\b", "--half-width"),
    (r"(?<![.\w])fail_above must", "--fail-above must"),
    (r"\brepeats=1\b", "--repeats 1"),
    (r"\bheld_out=", "--held-out "),
    (r"\bcheck='(\w+)'", r"--check \1"),
    (r"exclude=\[('[^']*')\]", r"--exclude \1"),
    (r'\bmissing="(\w+)"(?! to)', r"--missing \1"),
    (r"overrides=\{.*?\}", "--space FILE"),
    (r"protected=\['sex'\]", "--protected sex"),
    (r"directory=\.\.\.", "--directory DIR"),
    (
        r"evenhand\.model\.load_model\(path, trust_pickle=True\), or --trust-pickle on the command line",
        "--trust-pickle",
    ),
    (r"evenhand\.model\.load_model\(path, trust=\[(.*?)\]\)", r"--trust for each of \1"),
)


def for_options(text: str) -> str:
    """Put options in the place of Python.

    >>> for_options("use criterion=eh.Gap(0.1), or decide with eh.wrap(model, threshold=0.5)")
    'use --gamma 0.1, or decide with --threshold 0.5'
    """
    for pattern, option in HINTS:
        text = re.sub(pattern, option, text)
    return text
