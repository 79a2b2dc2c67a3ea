# Every target works from a fresh clone: the environment in .venv is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: results setup setup-ray demo docs test test-ray torture typed lint lock sbom release bench clean

setup: $(VENV)/.ready

# torch goes first and pinned: an open range would pull several GB of CUDA packages.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else "reprl needs Python 3.11, 3.12 or 3.13, found %d.%d: make PYTHON=python3.11 setup" % v)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev]"
	touch $@

# One process per core, one torch thread each: more would fight for the cores.
test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Ray wants an older cloudpickle than the rest: it gets an environment that adds to the other one.
setup-ray: .venv-ray/.ready

.venv-ray/.ready: $(VENV)/.ready constraints-ray.txt
	test -x .venv-ray/bin/python || $(BIN)/python -m venv .venv-ray
	$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > "$$(.venv-ray/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/reprl.pth"
	.venv-ray/bin/python -m pip install -q -c constraints-ray.txt hydra-ray-launcher "ray[default,tune]" dm-tree lz4 ormsgpack
	touch $@

# A real cluster of two nodes on this machine.
test-ray: setup-ray
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -s tests/reprl/sweeps/test_ray.py \
	  tests/reprl/sweeps/test_pbt_ray.py tests/reprl/algorithms/test_rllib.py

# From nothing to a report in about five minutes: two agents that ship, played beside random play, looked at,
# one of them trained on by PPO for a moment, and what can be concluded from it.
demo: setup
	rm -rf demo
	$(BIN)/reprl evaluate agent:imitation variants=suite:published episodes=3 agents=random out=demo/imitation
	$(BIN)/reprl evaluate agent:imitation_background variants=suite:published episodes=3 out=demo/imitation_background
	$(BIN)/reprl evaluate agent:imitation variants=suite:published twin=true steps=120 out=demo/imitation
	$(BIN)/reprl evaluate agent:imitation_background variants=suite:published twin=true steps=120 out=demo/imitation_background
	$(BIN)/reprl attention agent:imitation variant=original,green_lines steps=160 out=demo/imitation
	$(BIN)/reprl attention agent:imitation_background variant=original,green_lines steps=160 out=demo/imitation_background
	$(BIN)/reprl train experiment=demo parent=agent:imitation_background run_dir=demo/ppo
	$(BIN)/reprl evaluate demo/ppo variants=suite:published episodes=2
	$(BIN)/reprl attention demo/ppo variant=original,green_lines steps=160
	$(BIN)/reprl report demo out=demo/report names=imitation-nature:frames,imitation-nature_background:background,ppo-nature_background:background_then_ppo
	@echo "open demo/report/report.html; the agents' games and maps are beside it, in demo"

# Every table and figure of docs/results.md and README, from the committed results.
results: setup
	$(BIN)/python -m benchmarks.results_page
	$(BIN)/python -m tools.readme_pictures

# The pages of docs/ and the docstrings as a site in build/site; every dead link is an error.
docs: setup typed
	$(BIN)/python -m mkdocs build -q
	@echo "open build/site/index.html"

# mypy cannot follow the editable install's package mapping, so it gets a tree of links that mirrors it.
typed:
	rm -rf build/typed && mkdir -p build/typed/reprl
	ln -s $(CURDIR)/reprl/* $(CURDIR)/envs $(CURDIR)/conf $(CURDIR)/analysis build/typed/reprl/

lint: setup typed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd build/typed && ../../$(BIN)/mypy --config-file ../../pyproject.toml -p reprl
	$(BIN)/python -m tools.audit

# About an hour with these counts on two quiet cores; MINUTES=45 ends it with what was done by then, KILLS=6 DISKS=8
# DAMAGES=20 RUNS=4 UPDATES=200 is a small part of it. Writes the table of docs/reliability.md, QUICK=1 only prints one. A disk to fill up needs root or a user namespace.
KILLS ?= 30
DISKS ?= 40
DAMAGES ?= 100
RUNS ?= 200
UPDATES ?= 1000
torture: setup
	alone=$$([ $$(id -u) = 0 ] || ! unshare -Urm true 2>/dev/null || echo "unshare -Urm"); \
	$$alone $(BIN)/python -m tests.faults.torture $(if $(QUICK),kills=1 disks=8 damages=4 runs=2 updates=100,\
	  kills=$(KILLS) disks=$(DISKS) damages=$(DAMAGES) runs=$(RUNS) updates=$(UPDATES) write=yes) \
	  $(if $(MINUTES),minutes=$(MINUTES)) $(if $(ONLY),only="$(ONLY)")

# The hashes of every pinned package, from wherever pip is set up to look.
lock: setup
	$(BIN)/python -m tools.lock

# The software bill of materials of the pinned environment, CycloneDX.
sbom: setup
	$(BIN)/python -m tools.sbom

# What a release consists of, in dist/: wheel, source archive, bill of materials and their hashes.
release: setup lint
	rm -rf dist && $(BIN)/python -m build -q
	$(BIN)/python -m tools.sbom
	cd dist && sha256sum * > SHA256SUMS

# Against EnvPool and stock SB3, which need a quiet machine; without --quick they take far longer.
bench: setup
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[bench]"
	$(BIN)/python -m benchmarks.envs --quick
	$(BIN)/python -m benchmarks.train --quick

clean:
	rm -rf build dist *.egg-info
