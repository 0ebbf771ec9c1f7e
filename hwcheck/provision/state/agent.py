# mypy: ignore-errors
# ruff: noqa: D100, D103, E401, I001, RET503, UP031
# Source text, sent to a node as one argument of its python3 (see payload.py); nothing imports it.
# It runs one command after the other for as long as the controller is there: a request is a line
# `hwcheck TOKEN {"command": ..., "within_s": ...}`, the answer one frame.
import base64, json, os, select, signal, subprocess, sys, time

LIMIT_BYTES = 1 << 20  # of one command's output


def say(kind, **body):
    body["kind"] = kind
    data = ("@hwcheck:%s %s\n" % (TOKEN, json.dumps(body))).encode("ascii")
    while data:
        data = data[os.write(OUT, data) :]


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    process.wait()


def gather(process, end):
    # No request comes before the answer: on stdin is its end, or what nobody reads.
    pipes = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    left = list(pipes)
    while left:
        ready = select.select([0, *left], [], [], max(0.0, end - time.monotonic()))[0]
        if not ready:
            return "no end within its time"
        for pipe in ready:
            data = os.read(pipe, 65536)
            if pipe == 0:
                if not data:
                    kill(process)
                    os._exit(1)
                continue
            if not data:
                left.remove(pipe)
            pipes[pipe] += data
        if sum(map(len, pipes.values())) > LIMIT_BYTES:
            return "it wrote more than 1 MiB"
    return pipes[process.stdout.fileno()], pipes[process.stderr.fileno()]


def run(command, within_s):
    end = time.monotonic() + within_s
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output = gather(process, end)
        if isinstance(output, str):
            kill(process)
            return say("refused", reason=output)
        status = process.wait()
    finally:
        process.stdout.close()
        process.stderr.close()
    out, err = (base64.b64encode(data).decode("ascii") for data in output)
    say("done", status=status, out=out, err=err)


def serve():
    mark = b"hwcheck " + TOKEN.encode("ascii") + b" "
    rest = b""
    while True:
        line, newline, rest_after = rest.partition(b"\n")
        if not newline:
            data = os.read(0, 65536)
            if not data:
                return
            rest += data
            continue
        rest = rest_after
        # Other lines are dropped: a password that sudo did not want may stand there.
        if line.startswith(mark):
            request = json.loads(line[len(mark) :].decode("ascii"))
            try:
                run(request["command"], request["within_s"])
            except OSError as error:
                say("refused", reason=str(error))


TOKEN = sys.argv[1]
OUT = os.dup(1)
say("started", python="%d.%d.%d" % sys.version_info[:3])
serve()
