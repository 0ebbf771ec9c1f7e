"""What ``fab`` runs: the commands of hwcheck as tasks of Invoke, each by what it is on click.

``fab`` finds them through ``fabfile.py``, and the executor through ``fabric.yaml``. A fabfile of
one's own puts them, or some, into a collection of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import click
import invoke
from invoke import Argument, Collection, Context, Exit, Task
from invoke.parser import ParserContext

from hwcheck.cli.command import Actions, Option, Word, ended
from hwcheck.cli.flags import NOT_USED
from hwcheck.cli.output import say
from hwcheck.cli.root import COMMANDS, call, load
from hwcheck.connect.ssh_config import fabric_config
from hwcheck.errors import UsageError
from hwcheck.exit_codes import USAGE

LATER = "later"
"""The second run of ``compare``, the only word that may be left out and that no flag stands for."""


def commands() -> Collection:
    """Return all commands."""
    return Collection(*map(task, COMMANDS))


@cache
def task(name: str) -> CommandTask:
    """Return a command as a task; of one with actions the action is its first word."""
    return CommandTask(name)


class CommandTask(Task):  # type: ignore[misc]
    """A task whose flags are those of a command, which is handed what they say, as words.

    Who calls it may say the words of the command by position, the action first.
    """

    def __init__(self, name: str) -> None:
        command = load(name)
        self.actions = [*command.commands.values()] if isinstance(command, Actions) else [command]
        self.has_actions = isinstance(command, Actions)

        def body(ctx: Context, *said: str, **values: Any) -> None:
            """Run it."""
            words = self.words(said, values)
            code = ended(partial(self.say_what_is_not_used, ctx)) or call([name, *words])
            if code:
                raise Exit(code=code)

        body.__doc__ = inspect.cleandoc(command.help or "")
        super().__init__(body, name=name, positional=[])

    @property
    def reaches_hosts(self) -> bool:
        """Whether it has the flags of a connection."""
        return any(param.name == "user" for param in self.params())

    def say_what_is_not_used(self, ctx: Context) -> None:
        """Say that ``fab``'s options of a connection have no effect; of its files call says it."""
        given = self.reaches_hosts and ctx.config.get("connect_kwargs")
        if given and not fabric_config().get("connect_kwargs"):
            say(NOT_USED)

    def params(self) -> Iterator[click.Parameter]:
        """Yield what it takes, of all its actions; a word that a flag stands for is left out."""
        names = set()
        for action in self.actions:
            for param in action.params:
                is_word = isinstance(param, click.Argument)
                has_flag = is_word and not param.required and param.name != LATER
                if param.expose_value and not has_flag and param.name not in names:
                    names.add(param.name)
                    yield param

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: ARG002
        """Return the flags as Invoke has them."""
        arguments = [_argument(param) for param in self.params()]
        if self.has_actions:
            names = ", ".join(str(action.name) for action in self.actions)
            arguments.insert(0, Argument("action", positional=True, help=names))
        for argument in arguments:
            if isinstance(argument, Later):
                argument.last = next(flag for flag in arguments if flag.name == "last")
        return arguments

    def words(self, said: Sequence[str], values: dict[str, Any]) -> list[str]:
        """Return what hwcheck would be typed with, of what is said by position and by name.

        Raises TypeError where one is not known, or said twice.
        """
        action = values.pop("action", None) if self.has_actions else None
        if self.has_actions and said:
            if action:
                raise TypeError(f"{self.name}: action is given twice: {said[0]}, {action}")
            action, *said = said
        self.refuse_more_words(action, said, values)
        words = [action] if action else []
        for param in self.params():
            value = values.pop(_name(param), None)
            if value is None or value is False or (value == "" and _name(param) == LATER):
                continue
            texts = value if isinstance(value, (list, tuple)) else [value]
            flag = param.flag if isinstance(param, (Option, Word)) else f"--{param.name}"
            words += [flag if text is True else f"{flag}={text}" for text in texts]
        if values:
            raise TypeError(f"{self.name}: no such argument: {', '.join(values)}")
        return [*words, "--", *said] if said else words

    def refuse_more_words(
        self, action: str | None, said: Sequence[str], values: Mapping[str, Any]
    ) -> None:
        """Refuse more words than it takes: hwcheck would have them for the next command.

        What is said by name has no place.
        """
        named = [one for one in self.actions if not self.has_actions or one.name == action]
        for command in named:  # of an action that is not known hwcheck says so
            most = sum(
                isinstance(param, click.Argument) and param.name not in values
                for param in command.params
            )
            if len(said) > most:
                more = ", ".join(said[most:])
                raise TypeError(f"{self.name}: no argument has this place, name it: {more}")


class Later(Argument):  # type: ignore[misc]
    """The word ``LATER``, which has to be said unless ``--last`` says what it is."""

    last: Argument

    @property
    def value(self) -> Any:
        """The run; None, which Invoke takes for missing, where neither it nor --last is given."""
        return "" if self.raw_value is None and self.last.got_value else self._value

    @value.setter
    def value(self, value: Any) -> None:
        self.set_value(value)


def _name(param: click.Parameter) -> str:
    return param.flag[2:].replace("-", "_") if isinstance(param, Option) else str(param.name)


def _argument(param: click.Parameter) -> Argument:
    """Return a word or flag; a flag with a value may stand twice, for the command to refuse."""
    if not isinstance(param, Option):
        kind = Argument if param.required else Later
        return kind(_name(param), positional=True, help=getattr(param, "help", None))
    names = [_name(param), *(name[1:] for name in param.opts if len(name) == 2)]
    if not param.takes_value:
        return Argument(names=names, kind=bool, default=False, help=param.help)
    kind = str if param.may_lack_value else list
    return Argument(names=names, kind=kind, optional=param.may_lack_value, help=param.help)


PROMPTS = {
    "prompt-for-login-password": "set ansible_password, which may be vaulted",
    "prompt-for-passphrase": "ssh-add the key to an ssh agent",
    "prompt-for-sudo-password": "set ansible_become_password, which may be vaulted",
}
"""Flags of Fabric that ask for a secret: no connection of hwcheck gets it; what to do instead."""


class Executor(invoke.Executor):  # type: ignore[misc]
    """Invoke's executor; it names the tasks that it did not run, and refuses flags of no effect.

    Fabric's own would run a task once for each host of ``-H``.
    """

    def execute(self, *tasks: ParserContext) -> dict[Any, Any]:
        """Run the tasks in turn; one that ends with another exit code than 0 is the last."""
        try:
            refuse_core_flags(self.core[0].args, self.core.remainder)
            if hosts := of_core(self.core[0].args, "hosts"):
                raise UsageError(hosts_flag_hint(self.collection[tasks[0].name], hosts))
        except UsageError as error:
            say(f"hwcheck: {error}")
            raise Exit(code=USAGE) from None
        results: dict[Any, Any] = {}
        for position, called in enumerate(tasks, 1):
            try:
                results |= super().execute(called)
            except Exit as end:
                left = ", ".join(later.name for later in tasks[position:])
                if left and end.code:
                    code = end.code
                    say(f"hwcheck: {called.name} ended with exit code {code}; not run: {left}")
                raise
        return results


def hosts_flag_hint(asked: Task, hosts: str) -> str:
    """Return what to do without Fabric's own ``-H``, which would run the task for each host."""
    first = hosts.partition(",")[0]
    if not (isinstance(asked, CommandTask) and asked.reaches_hosts):
        return f"-H is Fabric's own and {asked.name} visits no host; leave -H {first} out"
    return (
        f"-H is Fabric's own and would run {asked.name} once per host; say "
        f"{asked.name} --hosts INVENTORY, or {asked.name} --hosts node1,node2"
    )


def of_core(flags: Any, name: str) -> Any:
    """Return the value of a flag before the task; None where it is not given, or not known."""
    return flags[name].value if name in flags else None


def refuse_core_flags(flags: Any, remainder: str) -> None:
    """Refuse what Invoke and Fabric understand otherwise than its user does. Raises UsageError."""
    if file := of_core(flags, "config"):
        raise UsageError(
            f"-f {file}: before the task that is Invoke's own configuration file, and hwcheck "
            f"has none; for an inventory: validate --hosts {file}"
        )
    if key := of_core(flags, "identity"):
        raise UsageError(
            f"-i {key[0]}: before the task that is Fabric's option of a key, not used here; for "
            f"an inventory: validate -i {key[0]}; for a key: ansible_ssh_private_key_file"
        )
    if ssh_file := of_core(flags, "ssh-config"):
        raise UsageError(
            f"-S {ssh_file}: not used; name it as ssh_config_path in ~/.fabric.yaml, or write what "
            "it says into ~/.ssh/config or ansible_ssh_common_args"
        )
    if of_core(flags, "dry"):
        raise UsageError("--dry: a visit cannot be tried without making it; leave it out")
    for prompt, instead in PROMPTS.items():
        if of_core(flags, prompt):
            raise UsageError(f"--{prompt}: not used; {instead}")
    if remainder:
        raise UsageError(f"-- {remainder}: hwcheck runs no command of yours; leave it out")
