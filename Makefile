# `make validate` and `make test` are all that a new user needs; both are safe to run twice.
PYTHON ?= python3
HOSTS ?= inventory/local.yml
BIN := .venv/bin

.PHONY: axe validate test quick near test-wide test-fleets test-older-ansible test-older-torch test-interruptions demo picture docs man lint hashed clean
.DEFAULT_GOAL := validate

# The stamp is newer than what it was made from exactly when nothing has to be installed.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,dev]'
	touch $@

validate: .venv/installed
	$(BIN)/fab validate --hosts $(HOSTS)

# Thousands of processes start: what one has compiled is there for the next.
test test-wide test-fleets: export PYTHONDONTWRITEBYTECODE :=

# Six workers, for many tests wait, each in namespaces of its own (tests/apart.py); the longest
# tests begin.
test: .venv/installed
	$(BIN)/python -m pytest --strict-config -n 6 --dist loadfile --no-loadscope-reorder

# While one works: what starts no process, in about a minute.
quick: .venv/installed
	$(BIN)/python -m pytest --strict-config -n 2 --dist loadfile --quick

# The tests of the files that differ from a commit, and of the modules that import these.
SINCE ?= HEAD
near: .venv/installed
	$(BIN)/python -m pytest --strict-config -n 2 --dist loadfile --near $(SINCE)

# More of what `make test` shows with less, and special cases: a run that is killed at every step of
# its end and a sweep at any point, roles that are broken off, the roles on the RHEL family, the
# booleans of all roles, what a role does beside its usual way, each fault of a load by itself.
test-wide: .venv/installed
	$(BIN)/python -m pytest -m wide -n 4 --dist loadfile

# What `make test` shows with few simulated fleets, with thousands.
test-fleets: .venv/installed
	$(BIN)/python -m pytest -m fleets -n 2

# The roles and playbooks with the minor version of ansible-core before the pinned one. All but
# ansible-core comes from the environment beside it.
OLDER_ANSIBLE ?= 2.18
OLDER := .venv/older-ansible
test-older-ansible: .venv/installed
	$(BIN)/python -m venv $(OLDER)
	$(OLDER)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'ansible-core==$(OLDER_ANSIBLE).*'
	site() { $$1/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	echo "import site; site.addsitedir('$$(site .venv)')" >"$$(site $(OLDER))/beside.pth"
	HWCHECK_TEST_ANSIBLE=$(CURDIR)/$(OLDER)/bin/python $(BIN)/python -m pytest tests/roles \
	  tests/test_roles.py

# All strategies of training under older versions of torch: those that docs/training.md says run there.
# TORCH_INDEX is pip's option for an index with CPU builds, of a few hundred MB each; PyPI's are for
# CUDA and take gigabytes.
OLDER_TORCH ?= 2.4.1 2.6.0 2.8.0
TORCH_INDEX ?=
test-older-torch: .venv/installed
	site() { $$1/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	for version in $(OLDER_TORCH); do \
	  older=.venv/torch-$$version; \
	  $(BIN)/python -m venv $$older && \
	  $$older/bin/python -m pip install --quiet --disable-pip-version-check \
	    $(TORCH_INDEX) "torch==$$version" numpy && \
	  echo "import site; site.addsitedir('$$(site .venv)')" >"$$(site $$older)/beside.pth" && \
	  $$older/bin/python -m pytest tests/node/training -m 'wide or not wide' || exit 1; \
	done

# Every role, broken off after each task that changes something and run again; takes long.
test-interruptions: .venv/installed
	$(BIN)/python -m tests.roles.interruptions

# The report as axe-core sees it, in headless Chromium (which has to be there, and npm).
AXE := .venv/axe
axe: .venv/installed
	npm install --prefix $(AXE) --no-audit --no-fund --no-save axe-core@4.14.1
	$(BIN)/python -m pytest -m wide -n 0 -rs tests/report/test_axe.py

# Six simulated hosts, five of them faulty: idle checks, collectives, load, pairs of hosts, settings.
# As root; it says which packages it lacks.
demo: .venv/installed
	$(BIN)/python -m tests.lab.demo

# docs/report.png, the head of the report of `make demo` as headless Chromium draws it.
picture: .venv/installed
	$(BIN)/python -m tests.lab.demo --picture docs/report.png

# The site of docs/ into site/, each link in it looked up; a page for each check is made from the code.
DOCS := .venv/docs
docs: .venv/installed
	test -x $(DOCS)/bin/mkdocs || { $(PYTHON) -m venv $(DOCS) && \
	  $(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs-material==9.*'; }
	HWCHECK=$(CURDIR)/$(BIN)/hwcheck NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet

# docs/hwcheck.1, from the texts of --help.
man: .venv/installed
	$(BIN)/python -m docs.man_page

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/yamllint --strict roles playbooks inventory
	@if [ -x $(BIN)/ansible-lint ]; then PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/ansible-lint --strict; \
	else echo "ansible-lint needs Python 3.11 or newer: not run"; fi

# Everything that hwcheck needs to run on Python 3.11, each file held against its hash on record.
HASHED := .venv/hashed
hashed:
	$(PYTHON) -m venv --clear $(HASHED)
	$(HASHED)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes -r requirements.txt
	$(HASHED)/bin/python -m pip check
	$(HASHED)/bin/python -c 'from hwcheck.cli.program import main; main()' checks >/dev/null

# Anew, after pyproject.toml or constraints.txt has changed.
PIP_TOOLS := .venv/pip-tools
requirements.txt: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(PIP_TOOLS)
	$(PIP_TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	printf '%s\n' '# What hwcheck needs to run on Python 3.11, with hashes: `make requirements.txt` writes it.' \
	  '# To install by it: `pip install --require-hashes -r requirements.txt` (`make hashed`).' >$@
	$(PIP_TOOLS)/bin/pip-compile --quiet --generate-hashes --strip-extras --no-annotate \
	  --no-header --no-emit-options --no-emit-index-url --no-emit-find-links -c constraints.txt \
	  -o - pyproject.toml >>$@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache dist
