"""``fab accept``: post-install acceptance, from the first idle check to a signed record."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

from invoke import Context

from hwcheck import __version__
from hwcheck.accept.criteria import ANY, Criteria, brought, read_criteria
from hwcheck.accept.estimate import StageEstimate, estimates
from hwcheck.accept.fault import fault_of, log_for_vendor
from hwcheck.accept.golden import FORMAT as GOLDEN_FORMAT
from hwcheck.accept.golden import golden_hosts
from hwcheck.accept.pdf import pdf
from hwcheck.accept.progress import HostProgress, progress
from hwcheck.accept.record import check_record, read_member, write_record
from hwcheck.accept.signature import sign, verify
from hwcheck.accept.stages import STATE
from hwcheck.advise.assessment import Assessment
from hwcheck.errors import UsageError
from hwcheck.exit_codes import FAILED, NOT_MEASURED, PASS
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.wire import to_json
from hwcheck.render.acceptance import acceptance_page, explanation, status
from hwcheck.render.fault import fault_html, fault_markdown
from hwcheck.results.files import read_json, replace_text, writing_to
from hwcheck.results.run_folder import GOLDEN, read_run, utc_now
from hwcheck.results.schema_check import schema_problem
from hwcheck.sweep.state import Lock
from hwcheck.tasks.accept_run import Acceptance, exit_code, roles_of, run, saved_results
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.flags import HELP, one_of, read_cluster, whole
from hwcheck.tasks.outcome import judged
from hwcheck.tasks.output import emit, rendered, say
from hwcheck.tasks.site_option import SITE_HELP, refuse_unknown_names, with_site
from hwcheck.text import line

ACTIONS = ("run", "status", "record", "rma", "golden", "sign", "verify", "criteria")
WITH_HOSTS = ("run", "status", "record", "rma", "golden")
OUT = "acceptance"
FORMAT = 1
ABOUT = "acceptance.json"
CRITERIA = "criteria.yml"
PAGE = "acceptance.html"
DERIVED = (".parquet", ".new")
"""Files of a run folder that are made again from the others."""


@dataclass(frozen=True)
class About:
    """``acceptance.json``: which acceptance a folder is of."""

    id: str
    started: str
    inventory: str
    criteria: str
    sha256: str
    version: str = __version__
    format: int = FORMAT


@reaching_command(
    positional=["action"],
    help={
        "action": "run (also where no action is named): take each host through the stages that it "
        "has left; status: how far each is; record: write the archive; rma: write what "
        "the vendor asks for of each host that failed; golden: write what the accepted hosts "
        "measured, for hwcheck_golden; sign, verify: an archive; criteria: print those that "
        "hwcheck brings",
        "file": "the archive that sign and verify are about",
        "criteria": "YAML file of requirements, or a GPU model (h100_sxm) for those that hwcheck "
        "brings of it (default: those of any model)",
        "gpu": "with criteria: the GPU model whose figures are written with them",
        "explain": "say what would be done, how long it takes and what it needs; change nothing",
        "key": "with sign: the private key, or its public half where an ssh-agent has it",
        "attach": "with rma: a folder that has, for each host, a folder of its name with files for "
        "the vendor (nvidia-bug-report.log.gz, fieldiag's log)",
        "signers": "with verify: file of allowed signers, as ssh-keygen(1) has it",
        "out": f"folder of the acceptance (default: {OUT})",
        "forks": HELP["forks"],
        **SITE_HELP,
        "verbose": "say what every host is doing",
    },
)
@with_site
def accept(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    action: str,
    hosts: str | None = None,
    criteria: str = "",
    explain: bool = False,
    file: str = "",
    key: str = "",
    signers: str = "",
    gpu: str = "",
    attach: str = "",
    out: str = OUT,
    forks: str = "32",
    accept_new_host_keys: bool = False,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
    verbose: bool = False,
    extra_vars: Sequence[str] | None = None,
    connection: ConnectionFlags = NO_FLAGS,
) -> None:
    """Accept a cluster: stages host by host, requirement by requirement, and a signed record."""
    one_of("accept", action, ACTIONS)
    _refuse(action, {"explain": explain, "accept-new-host-keys": accept_new_host_keys}, ("run",))
    _refuse(action, {"hosts": hosts, "criteria": criteria}, WITH_HOSTS)
    _refuse(action, {"file": file}, ("sign", "verify"))
    _refuse(action, {"key": key}, ("sign",))
    _refuse(action, {"signers": signers}, ("verify",))
    _refuse(action, {"gpu": gpu}, ("criteria",))
    _refuse(action, {"attach": attach}, ("rma",))
    if action == "criteria":
        emit(brought(gpu or ANY))
        return
    if action in ("sign", "verify"):
        if not file:
            raise UsageError(f"accept {action}: name the archive: {OUT}/NAME.tar.gz")
        if action == "verify":
            end(_verify(Path(file), Path(signers) if signers else None))
            return
        if not key:
            raise UsageError("accept sign: name the key: --key ~/.ssh/id_ed25519")
        _sign(Path(file), Path(key))
        return
    if not out.strip():
        raise UsageError(f"--out is empty; name a folder, or leave --out out for {OUT}")
    at_once = whole("--forks", forks, 1)
    folder = Path(out)
    about = _about(folder)
    if action != "run" and about is None:
        raise UsageError(f"{folder}: no acceptance has begun here; accept run --hosts begins one")
    chosen = _criteria(folder, about, criteria)
    roles_of(chosen)
    cluster = read_cluster(
        hosts or (about.inventory if about else None), None, extra_vars or (), connection
    )
    refuse_unknown_names(cluster)
    known = about or _new(cluster.source, chosen)
    acceptance = Acceptance(
        known.id,
        folder,
        cluster,
        chosen,
        at_once,
        accept_new_host_keys=accept_new_host_keys,
        verbose=verbose,
    )
    if explain:
        results = saved_results(acceptance)
        whole_fleet = dict.fromkeys(chosen.stages, len(cluster.hosts))
        expected = estimates(chosen, whole_fleet, acceptance.forks, results)
        left = _left(acceptance, progress(chosen, acceptance.names, results)) if results else ()
        emit(rendered(explanation(chosen, acceptance.names, expected, left)))
        return
    if action == "run":
        with Lock(folder, known.id, cluster.source, "accept run"):
            if about is None:
                _begin(folder, known, chosen)
            code = run(acceptance, lambda running: _write_page(acceptance, known, running))
            _write_page(acceptance, known)
    results = saved_results(acceptance)
    now = progress(chosen, acceptance.names, results)
    if action == "golden":
        _write_golden(acceptance, known, now)
        return
    if action == "record":
        _record(acceptance, known, now)
        end(exit_code(now, chosen))
        return
    if action == "rma":
        _rma(acceptance, known, now, Path(attach) if attach else None)
        return
    emit(rendered(status(now, chosen, _left(acceptance, now))))
    end(code if action == "run" else exit_code(now, chosen))


def _refuse(action: str, flags: Mapping[str, object], actions: tuple[str, ...]) -> None:
    """Refuse a flag that goes with other actions. Raises UsageError."""
    for name, value in flags.items():
        if value and action not in actions:
            raise UsageError(f"--{name}: it goes with accept {' and '.join(actions)}")


def _about(folder: Path) -> About | None:
    """Return which acceptance a folder is of. Raises UsageError."""
    data = read_json(folder, PurePath(ABOUT), "acceptance") if folder.is_dir() else None
    if data is None:
        return None
    if data["format"] > FORMAT:
        version = line(str(data["version"]), 40)
        raise UsageError(f"{folder / ABOUT}: begun by hwcheck {version}, which is newer than this")
    return About(**data)


def _criteria(folder: Path, about: About | None, named: str) -> Criteria:
    """Return the criteria: of a new acceptance those that are named, later its own copy."""
    if about is None:
        return read_criteria(Path(named) if named else None)
    own = read_criteria(folder / CRITERIA)
    if own.sha256 != about.sha256:
        raise UsageError(f"{folder / CRITERIA}: changed since the acceptance began; restore it")
    if named and read_criteria(Path(named)).sha256 != own.sha256:
        raise UsageError(
            f"--criteria {named}: this acceptance began with others ({about.criteria}); leave it "
            "out, or begin another with --out"
        )
    return own


def _new(inventory: str, criteria: Criteria) -> About:
    """Return what a new acceptance is called; nothing is written."""
    started = utc_now()
    stamp = started.replace("-", "").replace(":", "")
    return About(
        f"{stamp}-{secrets.token_hex(3)}", started, inventory, criteria.source, criteria.sha256
    )


def _begin(folder: Path, about: About, criteria: Criteria) -> None:
    """Write what the acceptance is about, the criteria first."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / CRITERIA, criteria.text)
        replace_text(folder / ABOUT, to_json(asdict(about)) + "\n")


def _left(acceptance: Acceptance, now: Mapping[str, HostProgress]) -> list[StageEstimate]:
    left: dict[str, int] = {}
    stages = acceptance.criteria.stages
    for host in now.values():
        stage = host.next or host.blocked
        for name in stages[stages.index(stage) :] if stage else ():
            left[name] = left.get(name, 0) + 1
    results = saved_results(acceptance)
    return estimates(acceptance.criteria, left, acceptance.forks, results)


def _page(acceptance: Acceptance, about: About, *, running: str = "", signed: bool = False) -> str:
    """Return the page; while a stage is ``running`` a browser loads it again."""
    results = saved_results(acceptance)
    now = progress(acceptance.criteria, acceptance.names, results)
    title = {
        "Acceptance": about.id,
        "Inventory": about.inventory,
        "Criteria": f"{about.criteria}, SHA-256 {about.sha256}",
        "hwcheck": __version__,
    }
    left = () if signed else _left(acceptance, now)
    return acceptance_page(
        title, acceptance.criteria, now, results, left, running=running, signature=signed
    )


def _write_page(acceptance: Acceptance, about: About, running: str = "") -> None:
    page = _page(acceptance, about, running=running)
    with writing_to(acceptance.folder):
        replace_text(acceptance.folder / PAGE, page)


def _golden(
    acceptance: Acceptance, about: About, now: Mapping[str, HostProgress]
) -> dict[str, object]:
    """Return the content of ``golden.json``: what the hosts measured that met every requirement."""
    runs: dict[str, list[str]] = {}
    for host in now.values():
        if host.accepted:
            evidence = (each for stage in host.stages.values() for each in stage.evidence)
            runs[host.host] = sorted({each.run for each in evidence})
    read = {
        name: read_run(acceptance.runs / name)
        for name in sorted({name for names in runs.values() for name in names})
        if (acceptance.runs / name / "run.json").is_file()
    }
    records = {
        host: [
            record
            for name in names
            if name in read and read[name].meta.checks
            for record in read[name].records
            if record.host == host
        ]
        for host, names in runs.items()
    }
    hosts = golden_hosts(about.id, records)
    return {"format": GOLDEN_FORMAT, "version": __version__, "id": about.id, "hosts": hosts}


def _write_golden(acceptance: Acceptance, about: About, now: Mapping[str, HostProgress]) -> None:
    """Write what nightly runs hold their hosts against, and say where. Raises UsageError."""
    golden = _golden(acceptance, about, now)
    if not golden["hosts"]:
        raise UsageError(f"{acceptance.folder}: no host has met every requirement yet")
    file = acceptance.folder / GOLDEN
    with writing_to(acceptance.folder):
        replace_text(file, to_json(golden) + "\n")
    emit(f"{file}\nin the inventory: hwcheck_golden: {file.absolute()}\n")


def _record(acceptance: Acceptance, about: About, now: Mapping[str, HostProgress]) -> None:
    """Write the archive, and say what it is and where."""
    page = _page(acceptance, about, signed=True)
    contents: dict[str, Path | bytes] = {
        "report.html": page.encode(),
        **_pdf("report", page, about),
    }
    golden = _golden(acceptance, about, now)
    if golden["hosts"]:
        contents[GOLDEN] = (to_json(golden) + "\n").encode()
    for name in (ABOUT, CRITERIA):
        contents[name] = acceptance.folder / name
    for path in sorted(acceptance.runs.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in DERIVED:
            contents[str(path.relative_to(acceptance.folder))] = path
    file = acceptance.folder / f"{about.id}.tar.gz"
    digest = write_record(file, about.id, contents)
    emit(f"{file}\nSHA-256 {digest}, {len(contents)} files\n")


def _pdf(name: str, page: str, about: About) -> dict[str, Path | bytes]:
    made = pdf(page, about.started)
    if made is None:
        say("hwcheck: no PDF: install chromium, or weasyprint beside hwcheck")
        return {}
    return {f"{name}.pdf": made}


def _rma(
    acceptance: Acceptance, about: About, now: Mapping[str, HostProgress], attach: Path | None
) -> None:
    """Write an archive for each host that failed a stage, with nothing of any other host."""
    failed = [host for host in now.values() if host.blocked]
    known: dict[str, Assessment] = {}
    if attach and not attach.is_dir():
        raise UsageError(f"--attach {attach}: no such folder")
    for host in failed:
        if host.blocked == STATE:
            emit(f"{host.host}: failed {STATE}: no part is at fault; hwcheck provision mends it\n")
            continue
        runs = [result.run for result in saved_results(acceptance) if host.host in result.hosts]
        runs = [run for run in runs if (acceptance.runs / run / "run.json").is_file()]
        last = host.stages[host.blocked].evidence[-1].run
        runs = runs[: runs.index(last) + 1]
        known |= {run: judged(acceptance.runs / run) for run in runs if run not in known}
        assessments = [known[run] for run in runs]
        fault = fault_of(assessments, host.host)
        page = fault_html(fault)
        contents: dict[str, Path | bytes] = {
            "fault.md": fault_markdown(fault).encode(),
            "fault.html": page.encode(),
            **_pdf("fault", page, about),
        }
        for stage, name in ((each.run.meta.acceptance["stage"], each.run) for each in assessments):
            log = name.path / "nodes" / f"{host.host}.log"
            answer = log.with_suffix(".json")
            if answer.is_file() and not answer.is_symlink():
                contents[f"{stage}.json"] = answer
            if log.is_file() and not log.is_symlink():
                text = log.read_text("utf-8", "replace")
                contents[f"{stage}.log"] = log_for_vendor(text, assessments, host.host).encode()
        beside = attach / host.host if attach else None
        for path in sorted(beside.iterdir()) if beside and beside.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                contents[f"attached/{path.name}"] = path
        file = acceptance.folder / "rma" / f"{host.host}-{last}.tar.gz"
        with writing_to(acceptance.folder):
            file.parent.mkdir(exist_ok=True)
        write_record(file, f"{host.host}-{last}", contents)
        emit(f"{file}\n")
    if not failed:
        emit("no host failed a stage\n")


def _sign(file: Path, key: Path) -> None:
    checked = check_record(file)
    if checked.problems:
        raise UsageError(f"{file}: not signed: {checked.problems[0]}")
    _refuse_newer(file)
    emit(f"{sign(file, key)}\n")


def _refuse_newer(file: Path) -> None:
    """Refuse the record of a newer version, which may mean more than this one reads."""
    try:
        about = json.loads(read_member(file, ABOUT))
    except ValueError:
        raise UsageError(f"{file}: {ABOUT}: not JSON") from None
    problem = schema_problem(about, "acceptance")
    if problem:
        raise UsageError(f"{file}: {ABOUT}: {problem}")
    if about["format"] > FORMAT:
        version = line(about["version"], 40)
        raise UsageError(f"{file}: made by hwcheck {version}, which is newer than this: use that")


def _verify(file: Path, signers: Path | None) -> int:
    """Say whether a record is as it was signed, and by whom; return the exit code."""
    checked = check_record(file)
    for problem in checked.problems:
        say(f"hwcheck: {file}: {problem}")
    if checked.problems:
        return FAILED
    _refuse_newer(file)
    signature = verify(file, signers)
    if not signature.signer:
        say(f"hwcheck: {file}: whose key this is nobody vouches for: name --signers")
        emit(f"{file}: {len(checked.files)} files as signed with {signature.key}\n")
        return NOT_MEASURED
    signer = line(signature.signer, 200)
    emit(f"{file}: {len(checked.files)} files as signed by {signer} with {signature.key}\n")
    return PASS
