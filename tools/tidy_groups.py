"""Forms groups of source files that clang-tidy checks as one file, because reading the headers takes most of its time.

    python tools/tidy_groups.py build/release build/tidy 'src|examples'

Writes the joint files of the groups and a compile_commands.json into build/tidy. Prints a line per group: its files, with the
joint file first if there is one. The files of a group are in one folder and have the same definitions and include folders. Their
anonymous namespaces have no name in common.
"""

import json
import os
import re
import sys

FILES_IN_A_GROUP = 24
NAME = re.compile(
    r"^(?:template\b.*>\s*)?(?:(?:struct|class|enum class|enum|union)\s+|using\s+(?=\w+ =))(\w+)"
    r"|^(?=\w)(?!using|namespace)[\w:<>,*& \[\]]*?\b(\w+) *(?:\(|=|\{|;|\[)",
    re.MULTILINE,
)


def own_headers(commands):
    """The commands without the options that make clang-tidy read headers that the files do not include."""
    # The code of fmt need not be checked. Reading it takes a quarter of the time.
    commands = commands.replace("-DFMT_HEADER_ONLY=1", "")
    return re.sub(r" -Winvalid-pch| -include [^ ]*/cmake_pch\.hxx", "", commands)


def single_files(entries):
    """The entries. An entry of files that CMake has joined (tilewright_compile_together) becomes one entry per file."""
    for entry in entries:
        if "/Unity/unity_" not in entry["file"]:
            yield entry
            continue
        with open(entry["file"]) as file:
            for path in re.findall(r'^#include "(.*)"$', file.read(), re.MULTILINE):
                yield {**entry, "file": path, "command": entry["command"].replace(entry["file"], path)}


def own_names(path):
    """The names that the file declares at the beginning of a line in its anonymous namespaces."""
    with open(path) as file:
        text = file.read()
    regions = re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL)
    return {first or second for region in regions for first, second in NAME.findall(region)}


def flags(entry):
    """The command without options that differ from file to file, or that do not affect the checks."""
    command = entry["command"].replace(entry["file"], "")
    return re.sub(r" -o \S+| -[OW]\S+| -fPI[CE]| -DNDEBUG", "", command)


def grouped(entries):
    groups = []  # (folder and flags, names, files)
    for file, entry in sorted(entries.items()):
        kind, names = (os.path.dirname(file), flags(entry)), own_names(file)
        for other, taken, files in groups:
            if file.startswith("src/") and other == kind and len(files) < FILES_IN_A_GROUP and not names & taken:
                taken |= names
                files.append(file)
                break
        else:
            groups.append((kind, names, [file]))
    return [files for _, _, files in groups]


def main():
    build, target, folders = sys.argv[1:]
    with open(f"{build}/compile_commands.json") as file:
        commands = list(single_files(json.loads(own_headers(file.read()))))
    entries = {os.path.relpath(entry["file"]): entry for entry in commands}
    wanted = re.compile(rf"^(?:{folders})/(?!.*generated).*\.cpp$")
    os.makedirs(target, exist_ok=True)
    for files in grouped({f: e for f, e in entries.items() if wanted.match(f)}):
        if len(files) == 1:
            print(files[0])
            continue
        joint = os.path.abspath(f"{target}/{files[0].replace('/', '_')}")
        with open(joint, "w") as file:
            file.writelines(f'#include "{os.path.abspath(each)}"  // NOLINT\n' for each in files)
        first = entries[files[0]]
        commands.append({**first, "file": joint, "command": first["command"].replace(first["file"], joint)})
        print(os.path.relpath(joint), *files)
    with open(f"{target}/compile_commands.json", "w") as file:
        json.dump(commands, file)


if __name__ == "__main__":
    main()
