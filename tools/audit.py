"""`make lint` asks pip-audit for known weaknesses of the locked packages, where it can be asked.

requirements.lock -> pip-audit -> **audit** -> exit code. Without the tool, a network or an answer
nothing is found and nothing fails; a weakness fails when a release without it exists.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
SECONDS = 120
# weaknesses that do not reach us: identifier -> why
ACCEPTED: dict[str, str] = {}


def main() -> int:
    """1 if an update would remove a weakness that is not accepted."""
    answer, problem = ask()
    asked = [p for p in answer if "skip_reason" not in p]
    if not asked:  # the tool calls that clean too
        print(f"audit left out: {problem or f'none of {len(answer)} packages could be looked up'}")
        return 0
    found = weaknesses(asked)
    open_ = [f for f in found if f["fixed"] and not {f["id"], *f["aliases"]} & set(ACCEPTED)]
    for weakness in found:
        fixed = ", ".join(weakness["fixed"]) or "no release"
        print(f"{weakness['package']}: {weakness['id']}, fixed in {fixed}")
    words = f"{len(asked)} of {len(answer)} packages looked up, {len(found)} known weaknesses"
    print(f"audit: {words}, {len(open_)} with a release that removes them")
    return int(bool(open_))


def ask() -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package of the lock, or why it could not be asked."""
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner=off", "--format=json"]
    command += ["--disable-pip", "--require-hashes", "--requirement", str(LOCK)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [], f"no answer within {SECONDS} s"
    try:
        return list(json.loads(done.stdout)["dependencies"]), ""
    except (ValueError, LookupError, TypeError):
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return [], said[-1][:200] if said else "no answer"


def weaknesses(packages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each package and weakness."""
    return [
        {
            "package": f"{package['name']} {package['version']}",
            "id": weakness["id"],
            "aliases": weakness.get("aliases", []),
            "fixed": weakness.get("fix_versions", []),
        }
        for package in packages
        for weakness in package.get("vulns", [])
    ]


if __name__ == "__main__":
    sys.exit(main())
