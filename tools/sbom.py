"""`make sbom`: the installed packages that reprl needs -> **sbom** -> dist/sbom.json (CycloneDX).

Written at a release beside the wheel: name, version, licence, package address and the hash of what
was installed, for reprl and everything it requires, directly or not.
"""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARGET = Path(__file__).parents[1] / "dist" / "sbom.json"


def main(arguments: list[str]) -> int:
    """Write the file, by default to dist/sbom.json."""
    target = Path(arguments[0]) if arguments else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    document = bill("reprl")
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{len(document['components'])} components -> {target}")
    return 0


def bill(root: str) -> dict[str, Any]:
    """The bill of materials of a distribution and all that it requires."""
    needs = requirements(root)
    components = [component(name) for name in sorted(needs) if name != root]
    content = json.dumps(components, sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # from the content: the same environment gives the same file
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"component": {**component(root), "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": reference(name), "dependsOn": [reference(n) for n in sorted(needs[name])]}
            for name in sorted(needs)
        ],
    }


def requirements(root: str) -> dict[str, set[str]]:
    """Each package below a root, with what it requires here; extras count where asked for."""
    needs: dict[str, set[str]] = {}
    waiting: list[tuple[str, str]] = [(root, "")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        needs.setdefault(name, set())
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            found = str(canonicalize_name(requirement.name))
            needs[name].add(found)
            waiting += [(found, word) for word in ("", *requirement.extras)]
    return needs


def component(name: str) -> dict[str, Any]:
    """One package as CycloneDX describes it."""
    found = metadata.distribution(name)
    entry: dict[str, Any] = {
        "type": "library",
        "bom-ref": reference(name),
        "name": name,
        "version": found.version,
        "purl": reference(name),
    }
    licence = found.metadata.get("License-Expression")
    if licence:
        entry["licenses"] = [{"expression": licence}]
    # RECORD holds the hash of every installed file
    if record := found.read_text("RECORD"):
        digest = hashlib.sha256(record.encode()).hexdigest()
        entry["properties"] = [{"name": "reprl:sha256-of-RECORD", "value": digest}]
    return entry


def reference(name: str) -> str:
    """The package's address, whose index is left to the reader."""
    return f"pkg:pypi/{name}@{metadata.version(name)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
