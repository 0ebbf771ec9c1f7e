"""What ``hwcheck`` and ``fab`` parse and run: the commands, and how they follow each other.

``fab`` finds the commands through ``fabfile.py`` and the executor through ``fabric.yaml``.
"""

from __future__ import annotations

import difflib
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any

import invoke
from invoke import Argument, Collection, Exit
from invoke.exceptions import ParseError
from invoke.parser import ParserContext

from hwcheck import __version__
from hwcheck.errors import UsageError
from hwcheck.exit_codes import USAGE
from hwcheck.tasks.flags import SIZE, one_of
from hwcheck.tasks.output import complain, emit, say, unprinted

COMMANDS = (
    *("validate", "report", "history", "compare", "trend", "query", "checks", "explain"),
    *("state", "provision", "rollout", "sweep", "accept", "train", "site"),
)
"""Each is a task in a module of its name."""

OF_ALL = {"--list", "--complete"}
"""Words of a command line that ask for every command."""


def commands(words: Sequence[str] = ()) -> Collection:
    """Return the commands that are among these words; all of them where none is.

    What a command needs is imported with it, and no command needs all.
    """
    named = [name for name in COMMANDS if name in words]
    names = COMMANDS if not named or OF_ALL & set(words) else named
    modules = {name: import_module(f"hwcheck.tasks.{name}") for name in names}
    return Collection(*(getattr(module, name) for name, module in modules.items()))


ACCEPT_ACTIONS = {
    "run": "",
    "status": "",
    "record": "",
    "rma": "",
    "sign": "--file",
    "verify": "--file",
}
"""What ``accept`` does, each with the flag of the file that may follow it."""


def completed(words: Sequence[str]) -> list[str]:
    """Return a command line with what may be left out: of ``checks`` and ``accept``.

    Invoke has no word that may be missing, and takes ``--help`` for a word that a command wants.
    """
    made = list(words)
    if "--complete" in made:
        return made
    named = next((name for name in made[1:] if not name.startswith("-")), "")
    if named in COMMANDS and {"--help", "-h"} & set(made[made.index(named) :]):
        return [made[0], "--help", named]
    if "checks" in made:
        at = made.index("checks") + 1
        others = (n for n in range(at, len(made)) if made[n][:1] == "-" or made[n] in COMMANDS)
        end = next(others, len(made))
        made[at:end] = ["--names", ",".join(made[at:end])] if made[at:end] else []
    at = made.index("accept") + 1 if "accept" in made else len(made)
    if at <= len(made) and made[at - 1 : at] == ["accept"]:
        if made[at : at + 1] and made[at] in ACCEPT_ACTIONS:
            flag, follows = ACCEPT_ACTIONS[made[at]], made[at + 1 : at + 2]
            if flag and follows and not follows[0].startswith("-"):
                made.insert(at + 1, flag)
        elif made[at : at + 1] and made[at].startswith("-"):
            made.insert(at, "run")
    return made


LIST_FORMATS = ("flat", "nested", "json")
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
                raise UsageError(self.collection[tasks[0].name].hosts_flag_hint(hosts))
        except UsageError as error:
            say(f"hwcheck: {error}")
            raise Exit(code=USAGE) from None
        results: dict[Any, Any] = {}
        for position, task in enumerate(tasks, 1):
            try:
                results |= super().execute(task)
            except Exit as ended:
                left = ", ".join(later.name for later in tasks[position:])
                if left and ended.code:
                    say(f"hwcheck: {task.name} ended with exit code {ended.code}; not run: {left}")
                raise
        return results


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


INVOKE_OPTIONS = ("help", "version", "list", "list-format", "complete", "print-completion-script")
"""Options of Invoke that ``hwcheck`` has; its others have no effect here, or another one."""


class Program(invoke.Program):  # type: ignore[misc]
    """Invoke's program, with exit code 2 for a command line that cannot be parsed.

    Not Fabric's: that takes a tenth of a second to import, and only who connects needs it. Invoke
    ends a Ctrl-C with 1 and no message: here KeyboardInterrupt goes on to the caller.
    """

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:  # noqa: A002
        """Run a command line. Raises KeyboardInterrupt, and SystemExit with its exit code."""
        try:
            super().run(argv, exit)
        except SystemExit as ended:
            if isinstance(ended.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise

    def create_config(self) -> None:
        """Load no configuration file: Invoke's are for commands that it runs itself."""
        self.config = self.config_class(lazy=True)

    def core_args(self) -> list[Argument]:
        """Return the options that may stand before a command."""
        return [each for each in super().core_args() if each.name in INVOKE_OPTIONS]

    def parse_core_args(self) -> None:
        """Parse them; what Invoke looks at besides has its default."""
        super().parse_core_args()
        for argument in super().core_args():
            if argument.name not in INVOKE_OPTIONS:
                self.core[0].add_arg(argument)

    def print_help(self) -> None:
        """Print the commands, then the few options."""
        emit("Usage: hwcheck COMMAND [OPTIONS]\n\nCommands:\n\n")
        pairs = dict(self._make_pairs(self.scoped_collection))
        self.print_columns([(name, pairs[name]) for name in COMMANDS])
        emit("Options:\n\n")
        self.print_columns(self.initial_context.help_tuples())
        emit("hwcheck COMMAND --help says what a command takes.\n")

    def print_task_help(self, name: str) -> None:
        """Print what a command does, then its options."""
        text = io.StringIO()
        with redirect_stdout(text):
            super().print_task_help(name)
        usage, _, rest = text.getvalue().partition("\n")
        options = "[OPTIONS]" if "[--options]" in usage else ""
        doc = rest.replace("\nDocstring:\n", "", 1).replace("Options:\n", "Options:\n\n", 1)
        emit(f"Usage: hwcheck {name} {options}".rstrip() + "\n\n" + doc.strip("\n") + "\n")

    def parse_core(self, argv: list[str] | None) -> None:
        """Parse the flags before the first task."""
        words = sys.argv if argv is None else argv
        with _refusing():
            super().parse_core(completed(words))

    def parse_collection(self) -> None:
        """Import the commands that this command line names."""
        self.namespace = commands(self.argv)
        super().parse_collection()

    def parse_tasks(self) -> None:
        """Parse what follows the core flags."""
        with _refusing(), _naming_nearest():
            super().parse_tasks()

    def parse_cleanup(self) -> None:
        """Do what ends the program early, such as ``--help TASK``."""
        with _refusing():
            one_of("-F", self.args["list-format"].value, LIST_FORMATS)
            if self.args.complete.value:
                from hwcheck.tasks.completion import candidates  # not above: what it lists is much

                words = candidates(self.core.remainder, self.namespace)
                emit("".join(f"{word}\n" for word in words))
                raise Exit
            with _naming_nearest():
                super().parse_cleanup()


@contextmanager
def _naming_nearest() -> Iterator[None]:
    """Refuse an unknown word of the command line with the nearest that would be right."""
    try:
        yield
    except ParseError as error:
        unknown = re.fullmatch(r"No idea what '(.*)' is!", str(error), re.DOTALL)
        if unknown is None:
            raise UsageError(_missing(str(error))) from None
        word, context = unknown[1].partition("=")[0], error.context
        if SIZE.fullmatch(word):
            near_size = "-b is --become, as in Ansible; the smallest size is --minbytes"
            raise UsageError(f"{word}: {near_size} {word}") from None
        if not word.startswith("-"):
            problem, words = f"{word}: no such command", list(COMMANDS)
        elif context is None or context.name is None:
            problem, words = f"{word}: it stands before a command, and options follow it", []
        else:
            problem, words = f"{word}: no such option of {context.name}", list(context.flags)
        near = difflib.get_close_matches(word, words, n=1)
        hint = f"did you mean {near[0]}?" if near else "see --help"
        raise UsageError(f"{problem}; {hint}") from None


def _missing(problem: str) -> str:
    """Return what Invoke says of a word that is missing, with what to do."""
    value = re.fullmatch(r"Flag (\S+) needed value and was not given one!", problem)
    if value:
        return f"{value[1]}: its value is missing; say {value[1]} VALUE, or see --help"
    words = re.fullmatch(r"'(.*)' did not receive required positional arguments: (.*)", problem)
    if words:
        missing = words[2].replace("'", "")
        return f"{words[1]}: {missing} is missing; {words[1]} --help says what it takes"
    return problem


program = Program(
    name="hwcheck",
    binary="hwcheck",
    version=__version__,
    namespace=Collection(),
    executor_class=Executor,
)


@contextmanager
def _refusing() -> Iterator[None]:
    """End with one line and exit code 2 what cannot be understood, or not be printed."""
    try:
        with _printing():
            yield
    except (ParseError, UsageError) as error:
        complain(UsageError(str(error)))
    except ValueError as error:  # -t soon
        say(f"hwcheck: a core flag wants a number: {error}")
    else:
        return
    sys.exit(USAGE)


@contextmanager
def _printing() -> Iterator[None]:
    """See to it that what Invoke prints before it ends (--list, --help) is out, or cannot be."""
    try:
        yield
    except Exit as ended:
        if ended.message:  # --list of a collection that is not there
            raise UsageError(ended.message) from None
        emit("")
        raise
    except OSError as error:
        unprinted(error)
        raise Exit from None
