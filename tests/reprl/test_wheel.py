"""An installed wheel holds only `reprl`, with its configs, and its command works anywhere."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from reprl import __version__

ROOT = Path(__file__).parents[2]


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    homes = {"reprl": "reprl", "envs": "reprl.envs", "analysis": "reprl.analysis"}
    for top, name in homes.items():
        for file in (ROOT / top).rglob("__init__.py"):
            inner = file.parent.relative_to(ROOT / top).parts
            assert ".".join((name, *inner)) in listed


@pytest.mark.slow
def test_the_wheel_holds_only_reprl_and_its_command_works(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "-q"]
    source = tmp_path / "source"  # building in the checkout would leave a build/ folder behind
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)]
    subprocess.run([*pip, *build], check=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"reprl", f"reprl-{__version__}.dist-info"}
    shipped = {n for n in names if n.startswith("reprl/conf/") and n.endswith(".yaml")}
    written = {
        f"reprl/conf/{p.relative_to(ROOT / 'conf')}" for p in (ROOT / "conf").rglob("*.yaml")
    }
    assert shipped == written

    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    # -S and an explicit path: the editable install of this checkout must not be found
    packages = [p for p in sys.path if p.endswith("site-packages")]
    code = (
        f"import sys; sys.path[:0] = [{str(site)!r}]; sys.path += {packages!r};"
        "import reprl.conf, reprl.envs; print(reprl.conf.__file__);"
        "from reprl.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for arguments, says in (
        (["list"], "attention_contrastive"),
        (["train", "--cfg", "device=cpu", "experiment=debug"], "total_steps: 4096"),
    ):
        found = subprocess.run(
            [sys.executable, "-S", "-c", code, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith(str(site))
        assert says in found.stdout
