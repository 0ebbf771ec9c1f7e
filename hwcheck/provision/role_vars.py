"""The variables of a role for a host: its defaults under the inventory's variables, templated.

Ansible does this when it runs the role; here it is done without a connection and without facts,
because a role's variables are what the inventory wants of a node, not what the node says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox
import yaml

from hwcheck import shipped
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.inventory.variables import TRUE, Variables

PLAIN = (str, int, float, bool, list, dict, type(None))
DEPTH = 10
"""As many templates may lead to one another."""


_JINJA = jinja2.sandbox.SandboxedEnvironment(undefined=jinja2.StrictUndefined, autoescape=False)
_JINJA.filters["bool"] = lambda value: value is True or str(value).lower() in TRUE


@cache
def defaults(role: str) -> Mapping[str, Any]:
    """Return a role's defaults, as ``roles/<role>/defaults/main.yml`` has them.

    Raises UsageError where hwcheck brings no such role or the file is broken.
    """
    path = shipped.find(f"roles/{role}/defaults/main.yml")
    if path is None:
        raise UsageError(f"no role {role}: roles/{role}/defaults/main.yml is missing")
    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from None
    return content if isinstance(content, Mapping) else {}


def role_vars(host: Host, role: str, source: str) -> dict[str, Any]:
    """Return the variables of a role for a host, each of the type that it is written with.

    ``source`` is the inventory, for messages. Raises UsageError for a template that needs what
    only Ansible has.
    """
    everything = {**defaults(role), **host.variables}
    variables = Variables(host.name, everything, source)
    return {key: _rendered(variables, key, everything[key]) for key in defaults(role)}


def _rendered(variables: Variables, key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"__ansible_vault"}:
            return variables.text(key)
        return {name: _rendered(variables, key, part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rendered(variables, key, part) for part in value]
    for _ in range(DEPTH):
        if not isinstance(value, str) or ("{{" not in value and "{%" not in value):
            return value
        try:
            value = _template(value, variables.context)
        except (jinja2.TemplateError, TypeError) as error:
            problem = f"cannot be templated here: {' '.join(str(error).split())}"
            raise variables.error(key, problem) from None
    raise variables.error(key, "refers to itself")


def _template(text: str, context: Mapping[str, Any]) -> Any:
    """Return what a template makes; one that is a single expression keeps its type."""
    stripped = text.strip()
    if stripped.startswith("{{") and stripped.endswith("}}"):
        try:
            expression = _JINJA.compile_expression(stripped[2:-2], undefined_to_none=False)
        except jinja2.TemplateSyntaxError:
            return _JINJA.from_string(text).render(context)  # {{ this }} and {{ that }}
        value = expression(context)
        if isinstance(value, jinja2.Undefined):
            return str(value)  # raises, and names what is undefined
        return value if isinstance(value, PLAIN) else str(value)
    return _JINJA.from_string(text).render(context)
