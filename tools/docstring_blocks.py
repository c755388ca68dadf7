"""Docstrings of this project as Sphinx reads them (docs/conf.py): plain text of paragraphs, lists, code and `name: text` lines.

reStructuredText wants empty lines around lists and reads indented text in its own way; these functions put in what is missing.
Sections of Google's style (Args, Returns, Raises) stay as they are for sphinx.ext.napoleon.
"""

import re

SECTION = re.compile(r"(?:Args|Arguments|Attributes|Returns|Raises|Yields|Note|Notes|Example|Examples):$")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
NAMED = re.compile(r"[`\w][\w.`]*(?:, [\w.`]+)*: ")


def indent(line):
    return len(line) - len(line.lstrip())


def blocks(lines):
    """Runs of lines that are not empty."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def listed(block, lead):
    """Each line of the least indentation begins an item; `lead` gives the text ahead of it."""
    least = min(map(indent, block))
    width = 2
    for line in block:
        if indent(line) == least:
            item = ITEM.match(lead(line) + line.strip())
            width = item.end() if item else width
            yield " " * least + lead(line) + line.strip()
        else:
            yield " " * (least + width) + line.strip()


def converted(block):
    least = min(map(indent, block))
    first = [line for line in block if indent(line) == least]
    if any(ITEM.match(line.strip()) for line in first):
        start = next(i for i, line in enumerate(block) if ITEM.match(line.strip()))
        if start:
            yield from converted(block[:start])
            yield ""
        yield from listed(block[start:], lambda line: "" if ITEM.match(line.strip()) else "  ")
    elif least and not all(NAMED.match(line.strip()) for line in first):
        yield from ["::", "", *(f"    {line}" for line in block)]
    elif len(first) < len(block) or (least and len(first) > 1) or (len(first) > 1 and all(NAMED.match(line) for line in first)):
        if NAMED.match(first[0].strip()):
            yield from (line[least:] for line in listed(block, lambda line: "- "))
        else:
            yield from (line.strip() for line in block)
    else:
        yield from (line.strip() for line in block)


def as_restructured_text(lines):
    """The lines of a docstring, whose first one has no indentation."""
    text = "\n".join(lines)
    spans = re.split(r"(`[^`\n]*(?:\n[^`\n]+)?`)", text)
    text = "".join(part if i % 2 else re.sub(r"(?<!\\)([*|])", r"\\\1", re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", part)) for i, part in enumerate(spans))
    text = re.sub(r"^(\s*)\\\* ", r"\1* ", text, flags=re.MULTILINE)
    result, inside = [], False
    for block in blocks(text.split("\n")):
        if SECTION.match(block[0].strip()) or (inside and indent(block[0])):
            inside = True
            result += [*block, ""]
        else:
            inside = False
            at = next((i for i, line in enumerate(block) if i and SECTION.match(line.strip())), len(block))
            result += [*converted(block[:at]), ""]
            if at < len(block):
                inside = True
                result += [*block[at:], ""]
    return result
