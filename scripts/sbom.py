"""Writes the software bill of materials, CycloneDX 1.6 as JSON, to the file named or to standard output (-).

Every component comes from a lock file and carries the SHA-256 digests that this file pins: crates that of
their archive (Cargo.lock), Python packages those of their distributions (requirements/dev.txt). What is
in the wheel or installed with it has the scope "required", what only builds and tests it "excluded".
The same lock files give the same bytes.

Source: CycloneDX 1.6 (ECMA-424); package URLs as of https://github.com/package-url/purl-spec.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
SHIPPED = {"howdah-native", "howdah-far"}


def metadata() -> dict[str, Any]:
    """All crates of the workspace's Cargo.lock, as cargo describes them."""
    command = ["cargo", "metadata", "--locked", "--all-features", "--format-version", "1"]
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    crates: dict[str, Any] = json.loads(output)
    return crates


def shipped(crates: dict[str, Any]) -> set[str]:
    """Ids of the crates whose code is in the wheel, or makes code that is: no dependencies of tests."""
    nodes = {node["id"]: node for node in crates["resolve"]["nodes"]}
    left = [package["id"] for package in crates["packages"] if package["name"] in SHIPPED]
    found: set[str] = set()
    while left:
        at = left.pop()
        if at in found:
            continue
        found.add(at)
        for dependency in nodes[at]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    return found


def rust() -> list[dict[str, Any]]:
    """The crates that come from the registry."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    pinned = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    crates = metadata()
    inside = shipped(crates)
    components = []
    for package in crates["packages"]:
        name, version = package["name"], package["version"]
        if package["source"] is None:
            continue
        checksum = pinned[name, version]
        if package["source"] != REGISTRY or checksum is None:
            sys.exit(f"sbom: {name} {version} comes from {package['source']}, which pins no digest")
        components.append(
            {
                "type": "library",
                "bom-ref": f"pkg:cargo/{name}@{version}",
                "name": name,
                "version": version,
                "scope": "required" if package["id"] in inside else "excluded",
                "licenses": [{"expression": package["license"].replace("/", " OR ")}],
                "purl": f"pkg:cargo/{name}@{version}",
                "hashes": [{"alg": "SHA-256", "content": checksum}],
            }
        )
    return components


def needed(requirements: list[str]) -> set[str]:
    """Normal names of packages that these requirements need, with all that those need in turn."""
    left = list(requirements)
    found: set[str] = set()
    while left:
        requirement = left.pop()
        name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()
        if name in found:
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found.add(name)
        asked = re.findall(r"\w+", requirement.partition("[")[2].partition("]")[0])
        for one in requires:
            extra = re.search(r"extra == ['\"]([\w-]+)", one)
            if extra is None or extra[1] in asked:
                left.append(one)
    return found


def python() -> list[dict[str, Any]]:
    """The packages of requirements/dev.txt, which holds those that users install too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = needed(project["dependencies"])
    optional = needed([one for extra in project["optional-dependencies"].values() for one in extra])
    text = (ROOT / "requirements/dev.txt").read_text().replace("\\\n", " ")
    components = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        pin, *hashes = line.split()
        name, version = pin.split("==")
        digests = [one.removeprefix("--hash=sha256:") for one in hashes]
        if not digests:
            sys.exit(f"sbom: requirements/dev.txt pins no digest of {name}; run scripts/lock.sh")
        distribution = {
            "type": "distribution",
            "url": f"https://pypi.org/project/{name}/{version}/#files",
            "hashes": [{"alg": "SHA-256", "content": one} for one in digests],
        }
        components.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "scope": "required" if name in required else "optional" if name in optional else "excluded",
                "purl": f"pkg:pypi/{name}@{version}",
                "externalReferences": [distribution],
            }
        )
    return components


def bill() -> dict[str, Any]:
    """The whole bill; its serial number follows from its content."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    components = sorted(rust() + python(), key=lambda one: one["purl"])
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, workspace['repository'] + content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "howdah",
                "name": "howdah",
                "version": workspace["version"],
                "licenses": [{"expression": "Apache-2.0 AND GPL-2.0-only"}],
            }
        },
        "components": components,
    }


def main() -> None:
    """Writes the bill to the one argument."""
    if len(sys.argv) != 2:
        sys.exit("usage: sbom.py FILE|-")
    text = json.dumps(bill(), indent=1) + "\n"
    if sys.argv[1] == "-":
        sys.stdout.write(text)
    else:
        Path(sys.argv[1]).write_text(text)


if __name__ == "__main__":
    main()
