"""What a site adds, loaded and refused where it does not fit, and the catalogue of ours and its."""

from __future__ import annotations

import ast
import difflib
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import ModuleType

import jinja2
import yaml

from hwcheck import checks
from hwcheck.advise import causes
from hwcheck.advise.catalogue import Catalogue, Template, shipped
from hwcheck.advise.rule import Rule
from hwcheck.contract.check import PROOFS, STAGES, Check, Grounds, Metric, Remedy, Varies
from hwcheck.contract.limits import (
    CONFIDENCES,
    AbovePeers,
    AtLeast,
    AtMost,
    Equal,
    FromInventory,
    Growth,
    Steady,
)
from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import VARIABLES
from hwcheck.judge import models
from hwcheck.judge.models.lint import problems
from hwcheck.judge.models.records import Model
from hwcheck.judge.units import UNITS
from hwcheck.site.folder import Site

LIMITS = (Equal, AtLeast, AtMost, AbovePeers)
KINDS = {"varies": (Varies,), "past": (Steady, Growth), "proof": (Grounds,)}
"""What the words of a metric are that are no plain value."""
PAYLOAD_PACKAGES = ("hwcheck.contract", "hwcheck.checks", "hwcheck.node")
OLDEST_PYTHON = (3, 8)
"""Of a node."""


@dataclass(frozen=True)
class Additions:
    """What a site adds: checks by id, models, rules by cause, templates by name."""

    site: Site
    checks: Mapping[str, Check]
    models: tuple[Model, ...]
    rules: Mapping[str, Rule]
    templates: Mapping[str, Template]

    @cached_property
    def catalogue(self) -> Catalogue:
        """What hwcheck brings, and this beside it."""
        ours = shipped()
        return Catalogue(
            checks.in_order((*ours.checks.values(), *self.checks.values())),
            models.Models((*ours.models.every, *self.models)),
            {**ours.rules, **self.rules},
            {**ours.templates, **self.templates},
        )

    @property
    def payload_files(self) -> dict[str, bytes]:
        """The checks as they lie in the payload, among ours."""
        return {f"hwcheck/checks/{name}": data for name, data in self.site.of("checks").items()}


def load(site: Site) -> Additions:
    """Load what a site adds. Raises UsageError that names the file and what is wrong with it.

    A check or a rule of ours is never replaced, nor a model; a template is.
    """
    return Additions(site, _checks(site), _models(site), _rules(site), _templates(site))


@contextmanager
def faults_of(site: Site) -> Iterator[None]:
    """Turn what a file of the site fails with into a UsageError that names the file and its line.

    What was measured stays in its run.
    """
    try:
        yield
    except Exception as error:
        place = _place(error, site)
        if isinstance(error, UsageError) or not place:
            raise
        raise UsageError(f"{place}: {type(error).__name__}: {_one_line(error)}") from None


def _place(error: BaseException, site: Site) -> str:
    """Return the file and line of the site's in which something failed last, or an empty text."""
    frames = traceback.extract_tb(error.__traceback__)
    of_site = [frame for frame in frames if Path(frame.filename).is_relative_to(site.path)]
    if of_site:
        return f"{of_site[-1].filename}:{of_site[-1].lineno}"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or error.name}:{error.lineno}"
    return ""


def _checks(site: Site) -> dict[str, Check]:
    shipped_names, by_id = set(checks.listing()), {}
    every = shipped_names | {name.removesuffix(".py") for name in site.of("checks")}
    for name, data in site.of("checks").items():
        path, stem = site.path / "checks" / name, name.removesuffix(".py")
        tree = _parsed(path, data, OLDEST_PYTHON)
        _refuse_imports(path, tree)
        if stem in shipped_names:
            raise UsageError(f"{path}: hwcheck has a check of this name; choose another")
        made = getattr(_module(f"{checks.__name__}.{stem}", path, tree), stem, None)
        if not isinstance(made, Check) or made.id != stem:
            raise UsageError(f"{path}: no check named {stem}: decorate a function of that name")
        problem = _check_problem(made) or _declared_problem(made, every)
        if problem:
            raise UsageError(f"{path}: {_one_line(problem)}")
        by_id[stem] = made
    return by_id


def _check_problem(made: Check) -> str:
    """Return what the judge could not deal with, or an empty text."""
    if made.legs:
        return "legs are of hwcheck's collectives; a site's check has none"
    if not made.metrics:
        return "it has no metric"
    if not isinstance(made.remedy, Remedy):
        return "remedy: it is no Remedy"
    for metric in made.metrics:
        if not isinstance(metric, Metric):
            return f"metrics: {metric!r} is no Metric"
        if not isinstance(metric.limits, tuple):
            return f"{metric.name}: its limits are no tuple; put a comma behind a single one"
        if metric.unit and metric.unit not in UNITS:
            return f"{metric.name}: no such unit: {metric.unit}; there are {', '.join(UNITS)}"
        for limit in metric.limits:
            if not isinstance(limit, LIMITS):
                return f"{metric.name}: {limit!r} is no limit"
            if limit.confidence not in CONFIDENCES:
                return f"{metric.name}: confidence is one of {', '.join(CONFIDENCES)}"
            operand = limit.operand
            if isinstance(operand, FromInventory) and str(operand) not in VARIABLES:
                return f"{metric.name}: {operand} is no variable of the inventory"
    return ""


def _declared_problem(made: Check, names: Collection[str]) -> str:
    """Return what of its declarations is none, or an empty text; ``names`` are all checks."""
    follows = {f"{metric.name}: follows": metric.follows for metric in made.metrics}
    for where, followed in {"follows": made.follows, **follows}.items():
        for name in followed:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                return f"{where}: no such check: {name}{f'; is it {near[0]}?' if near else ''}"
    for stage in (made.stage, *made.beside):
        if stage not in STAGES:
            return f"stage: no such stage: {stage}; there are {', '.join(STAGES)}"
    if made.proof not in PROOFS:
        return f"proof: one of {', '.join(PROOFS[1:])}"
    for metric in made.metrics:
        for word, kinds in KINDS.items():
            value = getattr(metric, word)
            if value is not None and not isinstance(value, kinds):
                named = " or ".join(kind.__name__ for kind in kinds)
                return f"{metric.name}: {word}: {value!r} is no {named}"
        if metric.fact:
            return f"{metric.name}: fact is for what hwcheck's own checks tell"
    return ""


def _rules(site: Site) -> dict[str, Rule]:
    shipped_names, by_cause = causes.shipped(), dict[str, Rule]()
    for name, data in site.of("rules").items():
        path = site.path / "rules" / name
        tree = _parsed(path, data)
        module = _module(f"{causes.__package__}.rules.{name.removesuffix('.py')}", path, tree)
        made = {each.cause: each for each in vars(module).values() if isinstance(each, Rule)}
        if not made:
            raise UsageError(f"{path}: no rule in it: decorate a function with rule(...)")
        for cause in made:
            if cause in shipped_names or cause in by_cause:
                whose = "hwcheck" if cause in shipped_names else "the site"
                raise UsageError(f"{path}: {whose} has a rule named {cause}; choose another")
        by_cause |= made
    return by_cause


def _models(site: Site) -> tuple[Model, ...]:
    ours = models.shipped()
    made = []
    for name, data in site.of("models").items():
        path, stem = site.path / "models" / name, name.removesuffix(".yml")
        if stem in ours.by_id:
            raise UsageError(
                f"{path}: hwcheck has this model, and a site's does not replace it; set limits of "
                "yours as hwcheck_limits"
            )
        try:
            made.append((path, models.read(stem, data.decode("utf-8"))))
        except (yaml.YAMLError, TypeError, KeyError, AttributeError, ValueError) as error:
            raise UsageError(f"{path}: not a model: {_one_line(error)}") from None
    everything = (*ours.every, *(model for _, model in made))
    for path, model in made:
        try:
            wrong = problems(model, everything)
        except (TypeError, AttributeError) as error:
            wrong = [f"a value is of another kind than it should be: {error}"]
        if wrong:
            raise UsageError(f"{path}: {_one_line(wrong[0])}")
    return tuple(model for _, model in made)


def _templates(site: Site) -> dict[str, Template]:
    folder = resources.files("hwcheck.report").joinpath("templates")
    template_names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".j2"))
    by_name = {}
    for name, data in site.of("templates").items():
        path = site.path / "templates" / name
        if name not in template_names:
            raise UsageError(
                f"{path}: no template of hwcheck; there are {', '.join(template_names)}"
            )
        try:
            by_name[name] = Template(data.decode("utf-8"), str(path))
            jinja2.Environment(autoescape=True).parse(by_name[name].text)
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not UTF-8") from None
        except jinja2.TemplateSyntaxError as error:
            raise UsageError(f"{path}:{error.lineno}: not a template: {error.message}") from None
    return by_name


def _parsed(path: Path, data: bytes, version: tuple[int, int] | None = None) -> ast.Module:
    """Return the syntax of a Python file, which has to be that of a version."""
    try:
        return ast.parse(data, str(path), feature_version=version)
    except SyntaxError as error:
        kind = f"Python {version[0]}.{version[1]}, which a node may have" if version else "Python"
        raise UsageError(f"{path}:{error.lineno}: not {kind}: {error.msg}") from None
    except ValueError as error:  # a null byte
        raise UsageError(f"{path}: not Python: {error}") from None


def _refuse_imports(path: Path, tree: ast.Module) -> None:
    """Refuse what a node may not have: a check is the standard library and what is pushed."""
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom):
            names = ["." if statement.level else statement.module or ""]
        elif isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            continue
        for name in names:
            in_payload = f"{name}.".startswith(tuple(f"{package}." for package in PAYLOAD_PACKAGES))
            if not in_payload and name.partition(".")[0] not in sys.stdlib_module_names:
                raise UsageError(
                    f"{path}:{statement.lineno}: imports {name}: a node has the standard library "
                    f"and {', '.join(PAYLOAD_PACKAGES)}, no more"
                )


def _module(name: str, path: Path, tree: ast.Module) -> ModuleType:
    """Run a site's file, as the module that it will be. Raises UsageError where it fails."""
    module = ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module  # dataclasses look themselves up there
    try:
        # As a node would compile it: not with the __future__ imports of this file.
        code = compile(tree, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - what was verified, and nothing else
    except (Exception, SystemExit) as error:
        lines = [
            f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)
        ]
        place = f"{path}:{lines[-1]}" if lines else str(path)
        raise UsageError(f"{place}: {type(error).__name__}: {_one_line(error)}") from None
    finally:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before
    return module


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:300]
