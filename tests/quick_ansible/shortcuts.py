"""What a play does in less time here, with the same outcome.

Each task runs in the play's process and not in a fork of it: what a fork would load, compile and
forget is there for the next task. Templates are compiled once for all plays, filters that Ansible
does not have are looked for once, and YAML is parsed once: that of a role, of what a plugin says of
its options, of Ansible's names. A template that a variable looks up is given the variables
themselves, of which Ansible makes a deep copy, only to set some of its own beside them. What is in
a file of YAML is copied by pickle, which takes a third of a deep copy's time. The zip that a module
is sent in holds it compiled as well; a node with another version of Python compiles it there, as
ever. And a module for a simulated machine is handed to what runs modules there
(``tests/roles/quick_modules``), with the environment that a login has, and not to a login.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import marshal
import os
import pickle
import socket
import sys
import tempfile
import time
import zipfile
from types import CodeType, SimpleNamespace
from typing import Any

import yaml
from ansible._internal._task import TaskContext
from ansible._internal._templating._jinja_bits import AnsibleEnvironment, _TemplateCompileContext
from ansible.errors import AnsibleConnectionFailure
from ansible.executor import module_common
from ansible.executor.process.worker import WorkerProcess
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import _RawTaskResult
from ansible.module_utils._internal._datatag import AnsibleTagHelper
from ansible.parsing import dataloader
from ansible.parsing.yaml.loader import AnsibleLoader
from ansible.plugins import strategy
from ansible.plugins.connection import ssh
from ansible.plugins.loader import Jinja2Loader
from ansible.plugins.lookup import template
from jinja2.environment import TemplateExpression

BUILTIN = "ansible_collections.ansible.builtin.plugins."
"""How the names begin under which Ansible loads its plugins where a role names it before them."""

START_S = 20.0
SYNTAX = (
    *("block_start_string", "block_end_string", "variable_start_string", "variable_end_string"),
    *("comment_start_string", "comment_end_string", "line_statement_prefix"),
    *("line_comment_prefix", "trim_blocks", "lstrip_blocks", "newline_sequence"),
    "keep_trailing_newline",
)


class InPlace(WorkerProcess):  # type: ignore[misc]
    """Does at its start what its fork would do. What that would change, it copies."""

    def start(self) -> None:
        """Run the task."""
        host, task = copy.copy(self._host), self._task.copy(exclude_parent=True, exclude_tasks=True)
        task._parent = self._task._parent
        with TaskContext(task):
            done = TaskExecutor(
                host,
                task,
                dict(self._task_vars),
                self._play_context.copy(),
                self._loader,
                self._shared_loader_obj,
                self._final_q,
                self._variable_manager,
            ).run()
            fields = task.dump_attrs()
        self._final_q.send_task_result(
            _RawTaskResult(host=host, task=task, return_data=done, task_fields=fields)
        )


class Modules:
    """Runs modules on a simulated machine, where ``HWCHECK_TEST_MODULES`` names what does.

    So too the commands before and after them, that copy a file or make and remove a folder.
    """

    def __init__(self) -> None:
        self._exec_command = ssh.Connection.exec_command
        self._login = b""

    def install(self) -> None:
        """Stand in for what runs a command by SSH."""
        ssh.Connection.exec_command = lambda *words, **more: self._exec(*words, **more)

    def _exec(
        self, connection: Any, command: str, in_data: bytes | None = None, sudoable: bool = True
    ) -> tuple[int, bytes, bytes]:
        interpreter, _, path = os.environ.get("HWCHECK_TEST_MODULES", "").partition(" ")
        if not path:
            return self._exec_command(connection, command, in_data, sudoable)
        if not self._login:
            code, self._login, errors = self._exec_command(connection, "pwd; env -0", None, False)
            if code != 0:
                return code, self._login, errors
        folder, _, environment = self._login.partition(b"\n")
        module = command == f"/bin/sh -c '{interpreter} && sleep 0'"
        words = [] if module else ["/bin/sh", "-c", command]
        block = "\0".join([str(len(words)), *words, ""]).encode()
        block = folder + b"\0" + block + environment
        with (
            tempfile.TemporaryFile() as begin,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            _connected(path) as server,
        ):
            begin.write(in_data or b"")
            begin.seek(0)
            try:
                size = len(block).to_bytes(4, sys.byteorder)
                socket.send_fds(server, [size], [each.fileno() for each in (begin, output, errors)])
                server.sendall(block)
                code = server.recv(1)
            except ConnectionError:
                code = b""
            if not code:
                self._login = b""
                raise AnsibleConnectionFailure("what runs the modules of the machine has ended")
            output.seek(0)
            errors.seek(0)
            return code[0], output.read(), errors.read()


def _connected(path: str) -> socket.socket:
    """Connect to what runs the modules; a machine that has just booted starts it after sshd."""
    end = time.monotonic() + START_S
    while True:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            server.close()
            if time.monotonic() > end:
                raise AnsibleConnectionFailure("nothing runs the modules of the machine") from None
            time.sleep(0.05)
        else:
            return server


class Compiled:
    """Templates and expressions as code, one file for each in a folder that all plays share."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._expression = ""
        self._compile = AnsibleEnvironment.compile
        self._compile_expression = AnsibleEnvironment.compile_expression

    def install(self) -> None:
        """Stand in for what compiles."""
        AnsibleEnvironment.compile = lambda env, *words, **more: self._code(env, *words, **more)
        AnsibleEnvironment.compile_expression = lambda *words: self._of_expression(*words)

    def _code(self, env: Any, source: Any, name: Any = None, filename: Any = None) -> CodeType:
        kind = "template" if isinstance(source, str) else "expression"
        text = source if isinstance(source, str) else self._expression
        path = self._path(env, kind, text, name, filename)
        code = self._load(path)
        if code is None:
            code = self._compile(env, source, name, filename)
            _keep(path, marshal.dumps(code))
        return code

    def _of_expression(self, env: Any, source: str, undefined_to_none: bool = True) -> Any:
        code = self._load(self._path(env, "expression", source, None, None))
        if code is None:
            self._expression = source
            return self._compile_expression(env, source, undefined_to_none)
        return TemplateExpression(
            env.template_class.from_code(env, code, env.make_globals(None)), undefined_to_none
        )

    def _path(self, env: Any, *what: object) -> str:
        context = _TemplateCompileContext.current(optional=True)
        syntax = [getattr(env, name) for name in SYNTAX]
        escape = context and context.escape_backslashes
        return _kept(self._folder, "code", type(env), escape, syntax, what)

    def _load(self, path: str) -> CodeType | None:
        try:
            with open(path, "rb") as file:
                return marshal.load(file)
        except FileNotFoundError:
            return None


class Parsed:
    """What is in YAML, pickled, one file for each in a folder that all plays share."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._parse = yaml.load

    def install(self) -> None:
        """Stand in for what parses."""
        yaml.load = lambda *words, **more: self._load(*words, **more)

    def _load(self, stream: Any, Loader: Any) -> Any:  # noqa: N803
        if Loader not in (AnsibleLoader, yaml.CBaseLoader) or not isinstance(stream, (str, bytes)):
            return self._parse(stream, Loader)
        tags = sorted(map(repr, AnsibleTagHelper.tags(stream)))
        path = _kept(self._folder, "yaml", Loader.__name__, tags, stream)
        try:
            with open(path, "rb") as file:
                return pickle.load(file)
        except FileNotFoundError:
            parsed = self._parse(stream, Loader)
            _keep(path, pickle.dumps(parsed))
            return parsed


class Named:
    """Remembers which filters and tests are none of Ansible's: it looks for each in a collection.

    As it does where a template has ``join`` or ``defined``, which are Jinja's.
    """

    def __init__(self) -> None:
        self._look = Jinja2Loader.get_with_context
        self._missing: dict[tuple[str, str], str] = {}

    def install(self) -> None:
        """Stand in for what looks."""
        Jinja2Loader.get_with_context = lambda *words, **more: self._get(*words, **more)

    def _get(self, loader: Any, name: str, *words: Any, **more: Any) -> Any:
        key = loader.type, name
        if key in self._missing:
            raise KeyError(self._missing[key])
        try:
            return self._look(loader, name, *words, **more)
        except KeyError as error:
            self._missing[key] = str(error)
            raise


class CompiledToo(zipfile.ZipFile):
    """Has beside each source its code, which Python takes without looking at the source."""

    def writestr(self, info: Any, data: Any, *more: Any) -> None:
        """Write one file, and its code."""
        super().writestr(info, data, *more)
        if info.filename.endswith(".py"):
            code = marshal.dumps(compile(data, info.filename, "exec"))
            unchecked = (1).to_bytes(4, "little") + bytes(8)  # PEP 552
            beside = copy.copy(info)
            beside.filename += "c"
            super().writestr(beside, importlib.util.MAGIC_NUMBER + unchecked + code)


def _kept(folder: str, suffix: str, *what: object) -> str:
    """Return the path of the file for what is described."""
    digest = hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()
    return os.path.join(folder, f"{digest}.{suffix}")


def _keep(path: str, content: bytes) -> None:
    """Write a file that others may read or write at the same time."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(content)
    os.rename(file.name, path)


def install(folder: str) -> None:
    """Let this process, which has loaded Ansible, and its forks take them."""
    strategy.WorkerProcess = InPlace
    template.deepcopy = copy.copy
    dataloader.copy = SimpleNamespace(deepcopy=lambda value: pickle.loads(pickle.dumps(value)))
    module_common.zipfile = SimpleNamespace(**vars(zipfile) | {"ZipFile": CompiledToo})
    sys.modules[BUILTIN + "lookup.template"] = template
    sys.modules[BUILTIN + "connection.ssh"] = ssh
    Modules().install()
    Compiled(folder).install()
    Parsed(folder).install()
    Named().install()
