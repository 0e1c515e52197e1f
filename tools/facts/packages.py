"""Which registry package describes which layer, and how its schema is fetched and found inside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.facts.definition import Definition, parse_entries, parse_tl

NPM, PYPI = "npm", "pypi"


@dataclass(frozen=True)
class Package:
    """One package version and the layer its schema is of; `member` is the end of the schema file's path in
    it."""

    registry: str
    name: str
    version: str
    layer: int
    member: str


def _mtcute(version: str, layer: int, name: str = "@mtcute/tl") -> Package:
    return Package(NPM, name, version, layer, "api-schema.json")


def _pypi(name: str, version: str, layer: int) -> Package:
    return Package(PYPI, name, version, layer, "compiler/api/source/main_api.tl")


# Of two packages of one layer the later in this list is believed about the order of `true` flags.
PACKAGES = (
    _mtcute("167.0.0", 167),
    _mtcute("179.0.0", 179),
    _mtcute("181.0.0", 181),
    _mtcute("185.1.0", 185),
    _mtcute("189.0.0", 189),
    _mtcute("204.0.0", 204),
    _mtcute("216.0.0", 216),
    _mtcute("218.0.1", 218),
    _mtcute("220.0.0", 220),
    _mtcute("221.0.0", 221),
    _mtcute("223.0.0", 223),
    _mtcute("0.30.3", 227, "@mtcute/core"),
    _mtcute("0.31.0", 228, "@mtcute/core"),
    Package(NPM, "telegram", "2.26.22", 198, "tl/apiTl.js"),
    _pypi("pyrogram", "2.0.98", 152),
    _pypi("pyrogram", "2.0.103", 155),
    _pypi("pyrogram", "2.0.106", 158),
    _pypi("pyrofork", "2.2.11", 161),
    _pypi("pyrofork", "2.3.9", 165),
    _pypi("pyrofork", "2.3.16", 169),
    _pypi("pyrofork", "2.3.16.post3", 170),
    _pypi("pyrofork", "2.3.17", 172),
    _pypi("pyrofork", "2.3.19", 174),
    _pypi("pyrofork", "2.3.21.post3", 177),
    _pypi("hydrogram", "0.2.0", 181),
    _pypi("pyrofork", "2.3.35", 184),
    _pypi("pyrofork", "2.3.45", 187),
    _pypi("pyrofork", "2.3.60", 201),
    _pypi("kurigram", "2.2.0", 201),
    _pypi("pyrofork", "2.3.67", 204),
    _pypi("kurigram", "2.2.7", 207),
    _pypi("kurigram", "2.2.9", 211),
    _pypi("kurigram", "2.2.12", 214),
    _pypi("pyrofork", "2.3.69", 220),
    _pypi("kurigram", "2.2.17", 220),
    _pypi("kurigram", "2.2.21", 224),
    _pypi("pyrotgfork", "2.2.24.1", 227),
    _pypi("kurigram", "2.2.26", 229),
)

# The layer-independent service schema.
SERVICE_PACKAGE = _pypi("pyrogram", "2.0.106", 0)
SERVICE_MEMBERS = ("compiler/api/source/auth_key.tl", "compiler/api/source/sys_msgs.tl")


def archive(package: Package, cache: Path) -> Path:
    """Returns the package's archive, asking its registry's own client for it when the cache has none.

    Raises subprocess.CalledProcessError when the client fails.
    """
    flat = package.name.lstrip("@").replace("/", "-")
    names = {f"{flat}-{package.version}.tgz", f"{flat}-{package.version}.tar.gz"}
    for path in cache.iterdir():
        if path.name.lower() in names:
            return path
    if package.registry == NPM:
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    else:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        command += ["-d", ".", f"{package.name}=={package.version}"]
    subprocess.run(command, cwd=cache, check=True)  # noqa: S603
    return archive(package, cache)


def member(path: Path, suffix: str) -> str:
    """Returns the text of the archive's one member whose path ends in `suffix`; KeyError when there is
    none."""
    with tarfile.open(path) as tar:
        for info in tar:
            if info.name.endswith("/" + suffix) and (file := tar.extractfile(info)):
                return file.read().decode()
    raise KeyError(f"{suffix} is not in {path.name}")


def definitions(package: Package, cache: Path) -> Iterator[Definition]:
    """Yields what the package's schema defines; raises ValueError when the file says another layer."""
    text = member(archive(package, cache), package.member)
    if package.member.endswith(".json"):
        schema = json.loads(text)
        said = schema["l"]
        found = parse_entries(schema["e"])
    else:
        match = re.search(r"// LAYER (\d+)", text)
        said = int(match[1]) if match else package.layer
        found = parse_tl(text)
    if said != package.layer:
        raise ValueError(f"{package.name} {package.version} is of layer {said}, not {package.layer}")
    yield from found
