# mypy: ignore-errors
# ruff: noqa: D100, D101, D103, E401, I001, N818, UP024, UP031, UP036
# Source text, sent to a node as one argument of its python3 (see payload.py); nothing imports it.
# Valid on Python 2.7 too, so that an old interpreter can say what it is.
# Every import here costs each visit milliseconds: hashlib loads OpenSSL, zipfile much else.
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
    refuse_others(folder)
    # Whoever may write to ~/.cache could put another folder in this one's place. A group may: with
    # umask 002 it is this user's. Whoever may write to the home folder is this user, to any shell.
    parent = os.path.dirname(folder)
    status = os.stat(parent)
    open_to_all = status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX
    if status.st_uid not in (0, os.geteuid()) or open_to_all:
        raise Refused("cache", "%s is not ours alone: chown it and chmod o-w it" % parent)
    return folder


def refuse_others(path):
    # What lies in a folder that others may write to is not what was verified.
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise Refused("cache", "%s is not a directory: remove it" % path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise Refused("cache", "%s is not ours alone: chown it and chmod 700 it" % path)


def tidy(cache):
    # Payloads of other versions that nobody ran for long (a folder; once a .pyz and a .code), and
    # what a visit that was killed left half written. What fails here spoils no visit.
    try:
        names = os.listdir(cache)
    except EnvironmentError:
        return
    for name in names:
        end = name[64:]
        of_hwcheck = not end or (end + ".").startswith((".pyz.", ".code.", ".unpack."))
        if not of_hwcheck or len(name) < 64 or name[:64].strip("0123456789abcdef"):
            continue
        path = os.path.join(cache, name)
        try:
            status = os.lstat(path)
            if time.time() - status.st_mtime <= KEEP_S:
                continue
            if stat.S_ISDIR(status.st_mode):
                remove_payload(path)
            elif stat.S_ISREG(status.st_mode):
                os.unlink(path)
        except EnvironmentError:
            continue


def remove_payload(folder):
    # Under another name first: what is killed now must not leave half of it under the good one.
    if len(os.path.basename(folder)) == 64:
        temporary = "%s.unpack.%d.%s" % (folder, os.getpid(), TOKEN)
        os.rename(folder, temporary)
        folder = temporary
    remove_folder(folder)


def remove_folder(path):
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def touch(path):
    try:
        os.utime(path, None)  # tidy goes by it
    except EnvironmentError:
        return


def unpack(data, folder):
    # The bytes that are hashed are unpacked, from memory. From then on the folder is trusted by its
    # owner and mode: until it runs, it and the code that Python compiles into its __pycache__ can
    # be changed only by this user or by root, who may change python3 as well.
    if sha256(data).hexdigest() != SHA256:
        raise Refused("push", "the payload arrived damaged")
    import io
    import zipfile

    temporary = "%s.unpack.%d.%s" % (folder, os.getpid(), TOKEN)
    os.mkdir(temporary, 0o700)
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(temporary)
        to_disk(temporary)
        os.rename(temporary, folder)
    except BaseException as error:
        remove_folder(temporary)
        if not (isinstance(error, EnvironmentError) and os.path.isdir(folder)):
            raise  # otherwise another visit unpacked the same at the same time


def to_disk(folder):
    # A node that crashes now must not keep a folder of empty files under a good name for ever.
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


def receive():
    if sys.version_info < (3, 8):
        version = "%d.%d.%d" % tuple(sys.version_info[:3])
        raise Refused("python", "needs Python 3.8 or newer, found %s" % version)
    cache = cache_folder()
    folder = os.path.join(cache, SHA256)
    cached = os.path.lexists(folder)
    if cached:
        refuse_others(folder)
        touch(folder)
    say("started", cached=cached, pid=os.getpid(), python="%d.%d.%d" % sys.version_info[:3])
    until = time.monotonic() + WAIT_S
    payload_bytes, request_bytes = read_header(until)
    if payload_bytes:
        unpack(read_exactly(payload_bytes, until), folder)
        tidy(cache)
    return folder, json.loads(read_exactly(request_bytes, until).decode("utf-8"))


def run(folder, request):
    sys.path.insert(0, folder)
    sys.argv = [folder]
    sys.dont_write_bytecode = False  # whatever the login sets: the folder is ours
    from hwcheck.node.main import main

    return main(request, folder)


def lacks_a_file(error):
    # Some sites delete by age what lies in home folders, file by file.
    return isinstance(error, ImportError) and str(error.name).partition(".")[0] == "hwcheck"


TOKEN, SHA256 = sys.argv[1:3]
os.umask(0o077)
OUT = os.dup(1)
code = 1
try:
    # The controller's end kills this group, so it must be ours alone.
    if os.getpgrp() != os.getpid():
        os.setsid()
    folder, request = receive()
except Refused as error:
    say("error", phase=error.args[0], reason=error.args[1])
except EnvironmentError as error:
    hint = "make room, or let this user write to ~/.cache/hwcheck"
    say("error", phase="cache", reason="%s; %s" % (error, hint))
else:
    try:
        code = run(folder, request)
    except Exception as error:
        import traceback

        traceback.print_exc()
        phase, reason = "run", "the payload crashed: %r" % error
        if lacks_a_file(error):
            remove_payload(folder)
            phase, reason = "cache", "%s had lost files and is removed: run again" % folder
        say("error", phase=phase, reason=reason)
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # at once, whatever a thread waits for in a driver
