"""What every command shares, on click: how its flags look, what it refuses, how its errors end.

A command's module calls it ``cli``; the module's own name (``from hwcheck.cli.validate import
validate``) is the same command as a task for ``fab``.
"""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from hwcheck.cli.output import complain, emit, refuse_closed_stdout, say
from hwcheck.errors import UsageError
from hwcheck.exit_codes import INTERRUPTED, NOT_MEASURED, PASS, USAGE

HELP_FLAGS = ("-h", "--help")
SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGkmg]?)B?")
"""A size as nccl-tests takes it."""


class Option(click.Option):
    """A flag that refuses to stand twice, and to take another flag for its value.

    Of two values click would take the last. ``section`` is where the help lists it.
    """

    def __init__(self, *args: Any, section: str = "Options", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section
        self.takes_value = not self.is_flag
        self.may_lack_value = self.takes_value and "flag_value" in attributes
        self.may_be_empty = not self.may_lack_value and attributes.get("default") is None

    @property
    def flag(self) -> str:
        """Its long name: ``--hosts``."""
        return max(self.opts, key=len)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Have the parser keep every value."""
        if self.takes_value:
            parser.add_option(obj=self, opts=self.opts, dest=self.name, action="append")
        else:
            super().add_to_parser(parser, ctx)

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        """Return the value, and where it comes from. Raises UsageError, and click's."""
        values = opts.get(self.name)
        if self.takes_value and isinstance(values, list) and not ctx.resilient_parsing:
            if {*values} & {name for param in ctx.command.params for name in param.opts}:
                raise click.BadOptionUsage(self.flag, "its value is missing", ctx)
            if len(values) > 1 and not self.multiple:
                texts = [value if isinstance(value, str) else "without a value" for value in values]
                raise UsageError(f"{self.flag} is given twice: {', '.join(texts)}; give it once")
        if self.takes_value and isinstance(values, list) and not self.multiple:
            opts = {**opts, self.name: values[-1]}
        return super().consume_value(ctx, opts)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value as its type has it. Raises click's BadParameter, and UsageError.

        Where no text is the default an empty one, as of an unset variable, is that; a type for
        which it would be another thing than left out raises UsageError.
        """
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter:
            if value == "" and self.may_be_empty:
                return None
            raise


class Word(click.Argument):
    """A word that may be said by a flag of its name as well: ``report --run X``."""

    @property
    def flag(self) -> str:
        """The flag."""
        return f"--{self.name}"

    def hidden_option(self) -> Option:
        """Return the flag as an option, which no help lists and which hands nothing on."""
        names = [self.flag, f"{self.name}_flag"]
        return Option(names, metavar=self.name.upper(), hidden=True, expose_value=False)

    def consume_value(self, ctx: click.Context, opts: Any) -> Any:
        """Return the value, and where it comes from. Raises UsageError where it is said twice.

        The words of the line are, in their order, those that no flag says.
        """
        words = [param for param in ctx.command.params if isinstance(param, Word)]
        free = [opts[word.name] for word in words if isinstance(opts.get(word.name), str)]
        by_flag = {word: opts.get(f"{word.name}_flag") for word in words}
        text_by_word = {}
        for word, texts in by_flag.items():
            if texts:
                text_by_word[word] = texts[-1]
            elif free:
                text_by_word[word] = free.pop(0)
        if free and not ctx.resilient_parsing:
            flags = " and ".join(word.flag for word, texts in by_flag.items() if texts)
            raise UsageError(f"{path_of(ctx)} {free[0]}: said by {flags} as well; say it once")
        rest = {name: value for name, value in opts.items() if name != self.name}
        return super().consume_value(
            ctx, {**rest, self.name: text_by_word[self]} if self in text_by_word else rest
        )


option = partial(click.option, cls=Option)
flag = partial(click.option, cls=Option, is_flag=True)
word = partial(click.argument, cls=Word)


def together(*flags: Callable[..., Any]) -> Callable[..., Any]:
    """Return one decorator for several flags, in the order of a help."""

    def decorate(body: Any) -> Any:
        for declare in reversed(flags):  # as decorators stand above each other
            body = declare(body)
        return body

    return decorate


def parts(params: Sequence[click.Parameter], words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the place of each word, less the values of flags, and the flag that it is.

    The flag is without what follows its ``=``, and empty for a word that is none.
    """
    options = {
        name: param
        for param in params
        if isinstance(param, Option) and param.takes_value
        for name in param.opts
    }
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            yield from ((rest, "") for rest in range(place, len(words)))
            return
        if word == "-" or not word.startswith("-"):
            yield place - 1, ""
            continue
        yield place - 1, word.partition("=")[0]
        takes = options.get(word)
        if not word.startswith("--"):  # -kb is -k -b, and -f8 is -f 8
            last = next((at for at, letter in enumerate(word) if f"-{letter}" in options), 0)
            takes = options[f"-{word[last]}"] if last and last == len(word) - 1 else None
        lacks_value = place == len(words) or words[place].startswith("-")
        if takes and not (takes.may_lack_value and lacks_value):
            place += 1


class Command(click.Command):
    """A command, or the action of one; ``examples`` are lines that its help ends with."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        attributes["add_help_option"] = False  # it has one of ours
        super().__init__(*args, **attributes)
        self.examples = examples
        self.params += [word.hidden_option() for word in self.params if isinstance(word, Word)]
        self.params.append(help_flag())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse its words. Raises click's UsageError, which knows where."""
        try:
            return super().parse_args(ctx, self.with_long_flags(args))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def with_long_flags(self, words: Sequence[str]) -> list[str]:
        """Return the words with ``--hosts=X`` for ``-i=X``, which click would read as ``=X``."""
        options = {
            name: param for param in self.params if isinstance(param, Option) for name in param.opts
        }
        long = [*words]
        for place, name in parts(self.params, words):
            if len(name) == 2 and name in options and name != words[place]:
                long[place] = options[name].flag + words[place][2:]
        return long

    def extent(self, words: Sequence[str], names: Sequence[str]) -> int:
        """Return how many of these words are its own; the rest are those of the next command.

        Of the words that may be left out the first of ``names`` is none, unless ``--`` is before.
        """
        left = [param for param in self.params if isinstance(param, click.Argument)]
        for place, name in parts(self.params, words):
            if name:  # a word that it says is none of those that follow
                left = [
                    param for param in left if not (isinstance(param, Word) and param.flag == name)
                ]
                continue
            wanted = any(argument.required for argument in left)
            of_next = words[place] in names and not wanted and "--" not in words[:place]
            if not left or of_next:
                return place
            if left[0].nargs > 0:
                left.pop(0)
        return len(words)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002
        """Return what it does, whole."""
        return " ".join((self.help or "").partition("\n\n")[0].split())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, Option) else None
            if record:
                sections.setdefault(param.section, []).append(record)  # type: ignore[attr-defined]
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the examples, each on a line of its own."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {example}\n" for example in self.examples))


ACTION = Option(["--action"])
"""What names the action of a command anywhere among its words."""


class Actions(Command, click.Group):
    """A command with actions; ``usual`` is the one that is meant where none is named."""

    command_class = Command

    def __init__(self, *args: Any, usual: str = "", **attributes: Any) -> None:
        attributes = {"subcommand_metavar": "ACTION [OPTIONS]", **attributes}
        super().__init__(*args, options_metavar="", no_args_is_help=False, **attributes)
        self.usual = usual

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse its own options; ``ctx.args`` are the action, and what that takes."""
        args = self.with_action(args)
        if ctx.resilient_parsing:  # completion wants them as click has them
            return super().parse_args(ctx, args)
        return click.Command.parse_args(self, ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return its actions as they are declared."""
        return [*self.commands]

    def with_action(self, words: Sequence[str]) -> list[str]:
        """Return the words with the action first, wherever it stands, or left out.

        ``--action run`` names it as well. Raises UsageError where that lacks its value.
        """
        if not words or not words[0].startswith("-") or words[0] in HELP_FLAGS:
            return [*words]
        params = [param for action in self.commands.values() for param in action.params]
        for place, name in parts([*params, ACTION], words):
            before, said, after = words[:place], words[place], words[place + 1 :]
            if name == ACTION.flag:
                _, equals, action = said.partition("=")
                if not equals and not after:
                    raise UsageError(f"{name}: its value is missing; say {name} ACTION")
                return [action, *before, *after] if equals else [after[0], *before, *after[1:]]
            if not name and said in self.commands:
                return [said, *before, *after]
            if not name:
                break
        return [self.usual, *words] if self.usual else [*words]

    def extent(self, words: Sequence[str], names: Sequence[str]) -> int:
        """Return how many of these words are its own."""
        with_action = self.with_action(words)
        action = self.commands.get(with_action[0]) if with_action else None
        if not isinstance(action, Command):
            return len(words)
        more = len(words) - len(with_action)  # where --action stands, or no action
        return more + 1 + action.extent(with_action[1:], names)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> Any:
        """Return the actions, and the options of the one that may be left out."""
        items = click.Group.shell_complete(self, ctx, incomplete)
        if self.usual:
            items += self.commands[self.usual].shell_complete(ctx, incomplete)
        return items

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the actions, then the options."""
        self.format_commands(ctx, formatter)
        Command.format_options(self, ctx, formatter)


def command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; the attributes are click's, and ``examples``."""
    return click.command(name, cls=Command, **attributes)


def group(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Actions]:
    """Make a function a command with actions, which ``action`` adds."""
    return click.group(name, cls=Actions, **attributes)


def help_flag() -> Option:
    """Return ``--help``, whose reader may go away."""
    return Option(
        HELP_FLAGS,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_help,
        help="say what it takes, and end",
    )


def _print_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value and not ctx.resilient_parsing:
        emit(f"{ctx.get_help()}\n")
        ctx.exit()


def context_of(ctx: click.Context, words: list[str]) -> click.Context:
    """Return the context of the command and action that the words name, all of them parsed.

    Raises UsageError, and click's.
    """
    while isinstance(ctx.command, click.Group):
        if not words:
            path = path_of(ctx)
            raise UsageError(f"{path}: action is missing; {path} --help says what it takes")
        name, named, rest = ctx.command.resolve_command(ctx, words)
        assert named is not None
        ctx = named.make_context(name, rest, parent=ctx)
        words = ctx.args
    return ctx


def ended(step: Callable[[], object]) -> int:
    """Return the exit code of a step; what it raises is a line, of a fault a traceback as well."""
    try:
        refuse_closed_stdout()
        step()
    except click.exceptions.Exit as end:
        return end.exit_code
    except UsageError as error:
        complain(error)
        return USAGE
    except click.ClickException as error:
        complain(UsageError(in_words(error)))
        return USAGE
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on one more is no traceback
        say("hwcheck: interrupted")
        return INTERRUPTED
    except Exception:  # Python would end with 1, which says that a host failed
        traceback.print_exc()
        say("hwcheck: a fault of hwcheck itself, please report it")
        return NOT_MEASURED
    return PASS


def end(exit_code: int) -> None:
    """End a command: with 0 the next one of the command line follows, otherwise none does."""
    if exit_code != PASS:
        raise click.exceptions.Exit(exit_code)


def path_of(ctx: click.Context) -> str:
    """Return the names of a command and its action: ``sweep run``; empty for hwcheck itself."""
    return ctx.command_path.partition(" ")[2]


def in_words(error: click.ClickException) -> str:
    """Return what is wrong with a command line, where, and what to do."""
    ctx = getattr(error, "ctx", None)
    path = path_of(ctx) if ctx else ""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error.option_name, path, ctx)
    if isinstance(error, click.exceptions.NoSuchCommand):
        assert ctx is not None
        return _no_such_command(error.command_name, path, ctx)
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Argument):
        return f"{path}: {error.param.name} is missing; {path} --help says what it takes"
    if isinstance(error, click.BadOptionUsage):
        params = ctx.command.params if ctx else []
        param = next((param for param in params if error.option_name in param.opts), None)
        if ctx and isinstance(param, Option) and param.takes_value:
            say_so = f"say {param.flag} {param.make_metavar(ctx)}, or see --help"
            return f"{error.option_name}: its value is missing; {say_so}"
        return f"{error.option_name}: it takes no value; leave the value out"
    if isinstance(error, click.BadParameter):
        what = error.param.flag if isinstance(error.param, Option) else path
        return f"{what} {error.message}"
    return error.format_message()


def _no_such_option(name: str, path: str, ctx: click.Context | None) -> str:
    if ctx is None or not path:
        return f"{name}: it stands before a command, and options follow it"
    if isinstance(ctx.command, Actions):
        return f"{path}: action is missing; {path} --help says what it takes"
    siblings = ctx.parent.command if ctx.parent else None
    if isinstance(siblings, Actions):
        if name == ACTION.flag and siblings.commands:  # hwcheck itself has its own by their names
            return f"{path}: {name} names an action as well; name one"
        others = [
            action
            for action, sibling in siblings.commands.items()
            if any(name in param.opts for param in sibling.params)
        ]
        if others:
            *first, last = others
            actions = f"{', '.join(first)} and {last}" if first else last
            return f"{name}: it goes with {siblings.name} {actions}"
    names = [option for param in ctx.command.params for option in param.opts if option[:1] == "-"]
    return f"{name}: no such option of {path}; {nearest(name, names) or 'see --help'}"


def _no_such_command(name: str, path: str, ctx: click.Context) -> str:
    assert isinstance(ctx.command, click.Group)
    names = ctx.command.list_commands(ctx)
    if path:
        hint = nearest(name, names)
        return f"{path} {name}: it is one of {', '.join(names)}" + (f"; {hint}" if hint else "")
    if SIZE.fullmatch(name):
        near_size = "-b is --become, as in Ansible; the smallest size is --minbytes"
        return f"{name}: {near_size} {name}"
    return f"{name}: no such command; {nearest(name, names) or 'see --help'}"


def nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str:
    """Return ``did you mean validate?``; empty where nothing is near."""
    import difflib  # not above: most command lines are right

    near = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else ""


def fab_task(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a command's module: its own name is the task for ``fab``."""
    command_name = module.rpartition(".")[2]

    def attribute(name: str) -> Any:
        if name != command_name:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # By its name: what starts the commands imports them, and Invoke is for fab alone.
        return import_module("hwcheck.cli.command_line").task(name)

    return attribute
