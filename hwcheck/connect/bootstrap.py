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
    home = os.path.realpath(os.path.expanduser("~"))
    if not os.path.isdir(home):
        raise Refused("cache", "no home directory: %s" % home)
    parent = os.path.realpath(os.path.join(home, ".cache"))  # some sites have it on another disk
    folder = os.path.join(parent, "hwcheck")
    if not os.path.isdir(folder):
        try:
            os.makedirs(folder, 0o700)
        except OSError:
            if not os.path.isdir(folder):  # another visit may have made it
                raise
    return folder, open_ours(folder, home)


def open_ours(folder, home):
    # As sshd's StrictModes has it for authorized_keys: nobody else may put another folder in this
    # one's place, in it or above it up to the home folder (auth_secure_path in OpenSSH's misc.c).
    # Each is opened by its name in the one before, so what was looked at is what is used.
    at = os.open("/", os.O_PATH)
    path = ""
    for name in folder.split("/")[1:]:
        path += "/" + name
        below = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=at)
        os.close(at)
        at = below
        if (path + "/").startswith(home + "/") or not folder.startswith(home + "/"):
            refuse_others(path, os.fstat(at), path != folder)
    return at


def refuse_others(path, status, above):
    # What lies in a folder that others may write to is not what was verified. Above it a folder
    # may be root's, and one where each may remove only what is his own.
    if not stat.S_ISDIR(status.st_mode):
        raise Refused("cache", "%s is not a directory: remove it" % path)
    owners = (0, os.geteuid()) if above else (os.geteuid(),)
    others = status.st_mode & 0o022
    if above and others and status.st_mode & stat.S_ISVTX:
        others = 0
    if above and others == 0o020 and group_of_one(status.st_gid):
        others = 0
    if status.st_uid not in owners or others:
        mode = "go-w" if above else "700"
        raise Refused("cache", "%s is not ours alone: chown it and chmod %s it" % (path, mode))


def group_of_one(gid):
    # With umask 002 a user's folders are his group's, which has his name and nobody else in it.
    import grp, pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    if gid != user.pw_gid or group.gr_name != user.pw_name:
        return False
    # Who has it as the first group is not listed among its members.
    others = [each for each in pwd.getpwall() if each.pw_gid == gid and each.pw_uid != user.pw_uid]
    return set(group.gr_mem) <= {user.pw_name} and not others


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
    cache, at = cache_folder()
    folder = os.path.join(cache, SHA256)
    try:
        status = os.stat(SHA256, dir_fd=at, follow_symlinks=False)
        cached = True
    except FileNotFoundError:
        cached = False
    os.close(at)
    if cached:
        refuse_others(folder, status, False)
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
    from hwcheck import checks
    from hwcheck.node.main import main

    return main(request, folder, checks.load)


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
