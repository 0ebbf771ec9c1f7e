# mypy: ignore-errors
# ruff: noqa: D100, D101, D103, E401, I001, N818, UP024, UP031, UP036
# Source text, sent to a node as one argument of its python3 (see payload.py); nothing imports it.
# Valid on Python 2.7 too, so that an old interpreter can say what it is.
# Every import here costs each visit milliseconds: hashlib loads OpenSSL, so it comes last.
import json, os, select, stat, sys, time

try:
    from _sha2 import sha256  # Python 3.12
except ImportError:
    try:
        from _sha256 import sha256
    except ImportError:
        from hashlib import sha256

KEEP_S = 30 * 86400.0
WAIT_S = 60.0  # the controller may be gone before the request comes


class Refused(Exception):
    pass


def say(kind, **body):
    body["kind"] = kind
    os.write(OUT, ("@hwcheck:%s %s\n" % (TOKEN, json.dumps(body))).encode("ascii"))


def read(size, until):
    if not select.select([0], [], [], max(0.0, until - time.monotonic()))[0]:
        raise Refused("request", "no request within %.0f s" % WAIT_S)
    data = os.read(0, size)
    if not data:
        raise Refused("request", "the controller closed the connection")
    return data


def read_exactly(size, until):
    parts = []
    while size:
        parts.append(read(min(size, 65536), until))
        size -= len(parts[-1])
    return b"".join(parts)


def read_header(until):
    # Lines before the header are dropped: a sudo password that sudo did not want may stand there.
    # Byte by byte, because what follows the header is not lines.
    line = b""
    while True:
        byte = read(1, until)
        if byte != b"\n":
            line = (line + byte)[-4096:]
            continue
        words = line.decode("ascii", "replace").split()
        if len(words) == 4 and words[:2] == ["hwcheck", TOKEN]:
            return int(words[2]), int(words[3])
        line = b""


def cache_folder():
    home = os.path.expanduser("~")
    if not os.path.isdir(home):
        raise Refused("cache", "no home directory: %s" % home)
    folder = os.path.join(home, ".cache", "hwcheck")
    if not os.path.isdir(folder):
        try:
            os.makedirs(folder, 0o700)
        except OSError:
            if not os.path.isdir(folder):  # another visit may have made it
                raise
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise Refused("cache", "%s is not a directory" % folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Refused("cache", "%s is not ours alone: chown it and chmod 700 it" % folder)
    return folder


def tidy(folder):
    # Payloads of other versions that nobody ran for long, and what a visit that was killed left
    # half written (.pyz.PID.TOKEN, .code.PID). What fails here spoils no visit.
    try:
        names = os.listdir(folder)
    except EnvironmentError:
        return
    for name in names:
        path = os.path.join(folder, name)
        ours = (name[64:] + ".").startswith((".pyz.", ".code."))
        if not ours or name[:64].strip("0123456789abcdef"):
            continue
        try:
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > KEEP_S:
                os.unlink(path)
        except EnvironmentError:
            continue


def touch(path):
    try:
        os.utime(path, None)  # tidy goes by it
    except EnvironmentError:
        return


def intact(path):
    # The hash is verified before every run. A symbolic link is not followed.
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open(path, "rb") as stream:
        return sha256(stream.read()).hexdigest() == SHA256


def store(data, path):
    if sha256(data).hexdigest() != SHA256:
        raise Refused("push", "the payload arrived damaged")
    temporary = "%s.%d.%s" % (path, os.getpid(), TOKEN)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(data)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def receive():
    if sys.version_info < (3, 8):
        found = "%d.%d.%d" % tuple(sys.version_info[:3])
        raise Refused("python", "needs Python 3.8 or newer, found %s" % found)
    path = os.path.join(cache_folder(), SHA256 + ".pyz")
    cached = intact(path)
    say("hello", cached=cached, pid=os.getpid(), python="%d.%d.%d" % sys.version_info[:3])
    until = time.monotonic() + WAIT_S
    payload_bytes, request_bytes = read_header(until)
    if payload_bytes:
        store(read_exactly(payload_bytes, until), path)
        tidy(os.path.dirname(path))
    else:
        touch(path)
    return path, json.loads(read_exactly(request_bytes, until).decode("utf-8"))


def run(path, request):
    sys.path.insert(0, path)
    sys.argv = [path]
    from hwcheck.node import importer

    compiled = path[:-4] + ".code"
    modules = importer.install(path)
    modules.read(compiled)
    from hwcheck.node.main import main

    code = main(request, path)
    modules.keep(compiled)
    return code


TOKEN, SHA256 = sys.argv[1:3]
os.umask(0o077)
OUT = os.dup(1)
code = 1
try:
    # The controller's end kills this group, so it must be ours alone.
    if os.getpgrp() != os.getpid():
        os.setsid()
    path, request = receive()
except Refused as error:
    say("error", phase=error.args[0], reason=error.args[1])
except EnvironmentError as error:
    say("error", phase="cache", reason=str(error))
else:
    try:
        code = run(path, request)
    except Exception as error:
        import traceback

        traceback.print_exc()
        say("error", phase="run", reason="the payload crashed: %r" % error)
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # at once, whatever a thread waits for in a driver
