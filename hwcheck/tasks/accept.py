"""``fab accept``: post-install acceptance, from the first idle check to a signed record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context

from hwcheck import __version__
from hwcheck.accept.acceptance import About, begin, criteria_of, new_about, read_about, record_files
from hwcheck.accept.criteria import ANY, brought
from hwcheck.accept.estimate import StageEstimate, estimates, estimates_left
from hwcheck.accept.fault import fault_of
from hwcheck.accept.golden import golden
from hwcheck.accept.pdf import pdf
from hwcheck.accept.progress import HostProgress, exit_code, progress
from hwcheck.accept.record import write_record
from hwcheck.accept.rma import answers_and_logs, attachments, runs_until_failure
from hwcheck.accept.signature import refuse_signed, sign_record, verify_record
from hwcheck.accept.stages import STATE
from hwcheck.advise.assessment import Assessment
from hwcheck.connect.connector import connection_check
from hwcheck.errors import UsageError
from hwcheck.exit_codes import FAILED, NOT_MEASURED, PASS
from hwcheck.fold import fold
from hwcheck.inventory.defaults import NO_FLAGS, ConnectionFlags
from hwcheck.node.wire import to_json
from hwcheck.render.acceptance import acceptance_page, explanation, status
from hwcheck.render.fault import fault_html, fault_markdown
from hwcheck.results.files import replace_text, writing_to
from hwcheck.results.run_folder import GOLDEN
from hwcheck.sweep.state import Lock, holder
from hwcheck.tasks.accept_run import Acceptance, roles_of, run, saved_results
from hwcheck.tasks.command import end, reaching_command
from hwcheck.tasks.flags import HELP, one_of, out_folder, read_cluster, whole
from hwcheck.tasks.outcome import judged
from hwcheck.tasks.output import emit, rendered, say
from hwcheck.tasks.site_option import SITE_HELP, catalogue_of, with_site
from hwcheck.text import line

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

ACTIONS = ("run", "status", "record", "rma", "golden", "sign", "verify", "criteria")
WITH_HOSTS = ("run", "status", "record", "rma", "golden")
OUT = "acceptance"
LOCK = "acceptance"
PAGE = "acceptance.html"


@dataclass(frozen=True)
class _Standing:
    """An acceptance that has begun, and how far its hosts are."""

    about: About
    acceptance: Acceptance
    hosts: Mapping[str, HostProgress]


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
    *,
    additions: Additions | None,
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
    catalogue = catalogue_of(additions)
    if action == "criteria":
        emit(brought(gpu or ANY, catalogue.models))
        return
    if action in ("sign", "verify"):
        if not file:
            raise UsageError(f"accept {action}: name the archive: {OUT}/NAME.tar.gz")
        if action == "verify":
            end(_verify(Path(file), Path(signers) if signers else None))
            return
        if not key:
            raise UsageError("accept sign: name the key: --key ~/.ssh/id_ed25519")
        emit(f"{sign_record(Path(file), Path(key))}\n")
        return
    folder = out_folder(out, OUT)
    at_once = whole("--forks", forks, 1)
    about = read_about(folder)
    if action != "run" and about is None:
        raise UsageError(f"{folder}: no acceptance has begun here; accept run --hosts begins one")
    chosen = criteria_of(folder, about, criteria, catalogue)
    roles_of(chosen)
    reach = connection_check(accept_new_host_keys=accept_new_host_keys)
    cluster = read_cluster(
        hosts or (about.inventory if about else None),
        None,
        extra_vars or (),
        connection,
        checks=catalogue.checks,
        reach=reach if action == "run" else None,
    )
    is_new, about = about is None, about or new_about(cluster.source, chosen)
    acceptance = Acceptance(
        about.id,
        folder,
        cluster,
        chosen,
        additions,
        at_once,
        accept_new_host_keys=accept_new_host_keys,
        verbose=verbose,
    )
    if explain:
        _explain(acceptance)
        return
    if action == "run":
        with Lock(folder, LOCK, cluster.source, "accept run"):
            if is_new:
                begin(folder, about, chosen)
            run(acceptance, lambda stage: _write_page(_standing(acceptance, about), running=stage))
            _write_page(_standing(acceptance, about))
    if action == "record":
        with Lock(folder, LOCK, cluster.source, "accept record"):
            standing = _standing(acceptance, about)
            _write_record(standing)
        end(exit_code(standing.hosts, chosen))
        return
    at_work = holder(folder, LOCK)
    running = f"{_under_way(acceptance)}{at_work}" if at_work else ""
    standing = _standing(acceptance, about, at_work=bool(running))
    if action == "golden":
        _write_golden(standing)
    elif action == "rma":
        _write_bundles(standing, Path(attach) if attach else None)
    else:
        left = _left(standing, of_this_call=bool(running))
        emit(rendered(status(standing.hosts, chosen, left, catalogue.checks, running)))
        end(exit_code(standing.hosts, chosen))


def _refuse(action: str, flags: Mapping[str, object], actions: tuple[str, ...]) -> None:
    """Refuse a flag that goes with other actions. Raises UsageError."""
    for name, value in flags.items():
        if value and action not in actions:
            raise UsageError(f"--{name}: it goes with accept {' and '.join(actions)}")


def _under_way(acceptance: Acceptance) -> str:
    """Return what another call measures now, from its run folder; empty between two runs."""
    under_way = [each for each in saved_results(acceptance) if not each.finished]
    if not under_way:
        return ""
    last = under_way[-1]
    on_hosts = f" on {fold(last.hosts)}" if last.hosts else ""  # one over hosts has no answers yet
    return f"{last.stage}{on_hosts}, since {last.started}; "


def _standing(acceptance: Acceptance, about: About, *, at_work: bool = False) -> _Standing:
    """Return how far each host is; with ``at_work`` without the run that is under way."""
    results = [each for each in saved_results(acceptance) if each.finished or not at_work]
    return _Standing(about, acceptance, progress(acceptance.criteria, acceptance.names, results))


def _left(standing: _Standing, *, of_this_call: bool = False) -> list[StageEstimate]:
    of, hosts = standing.acceptance, standing.hosts
    results = saved_results(of)
    return estimates_left(of.criteria, hosts, of.forks, results, of_this_call=of_this_call)


def _explain(acceptance: Acceptance) -> None:
    """Say what is done, how long it takes on all hosts, and what is left of one that has begun."""
    results = saved_results(acceptance)
    criteria = acceptance.criteria
    every_stage = dict.fromkeys(criteria.stages, len(acceptance.names))
    whole_time = estimates(criteria, every_stage, acceptance.forks, results)
    hosts = progress(criteria, acceptance.names, results)
    left = estimates_left(criteria, hosts, acceptance.forks, results) if results else ()
    emit(rendered(explanation(criteria, acceptance.names, whole_time, left)))


def _page(standing: _Standing, *, running: str = "", signature: bool = False) -> str:
    about, acceptance = standing.about, standing.acceptance
    title = {
        "Acceptance": about.id,
        "Inventory": about.inventory,
        "Criteria": f"{about.criteria}, SHA-256 {about.sha256}",
        "hwcheck": __version__,
    }
    return acceptance_page(
        title,
        acceptance.criteria,
        standing.hosts,
        saved_results(acceptance),
        catalogue_of(acceptance.additions),
        () if signature else _left(standing, of_this_call=bool(running)),
        running=running,
        signature=signature,
    )


def _write_page(standing: _Standing, running: str = "") -> None:
    """Write the page; while a stage is ``running`` a browser loads it again."""
    folder = standing.acceptance.folder
    with writing_to(folder):
        replace_text(folder / PAGE, _page(standing, running=running))


def _golden(standing: _Standing) -> str:
    """Return ``golden.json``; empty where no host has met every requirement."""
    content = golden(standing.about.id, standing.hosts.values(), standing.acceptance.runs)
    return to_json(content) + "\n" if content["hosts"] else ""


def _write_golden(standing: _Standing) -> None:
    """Write what nightly runs hold their hosts against, and say where. Raises UsageError."""
    folder, content = standing.acceptance.folder, _golden(standing)
    if not content:
        raise UsageError(f"{folder}: no host has met every requirement yet")
    file = folder / GOLDEN
    with writing_to(folder):
        replace_text(file, content)
    emit(f"{file}\nin the inventory: hwcheck_golden: {file.absolute()}\n")


def _write_record(standing: _Standing) -> None:
    """Write the archive, and say what it is and where. Raises UsageError for a signed one."""
    archive = standing.acceptance.folder / f"{standing.about.id}.tar.gz"
    refuse_signed(archive)
    page, content = _page(standing, signature=True), _golden(standing)
    files: dict[str, Path | bytes] = {
        "report.html": page.encode(),
        **_pdf("report.pdf", page, standing.about),
        **({GOLDEN: content.encode()} if content else {}),
        **record_files(standing.acceptance.folder),
    }
    digest = write_record(archive, standing.about.id, files)
    emit(f"{archive}\nSHA-256 {digest}, {len(files)} files\n")


def _pdf(name: str, page: str, about: About) -> dict[str, bytes]:
    """Return a page as PDF by this name; nothing where nothing here can make one."""
    made = pdf(page, about.started)
    if made is None:
        say("hwcheck: no PDF: install chromium, or weasyprint beside hwcheck")
    return {name: made} if made else {}


def _write_bundles(standing: _Standing, attach: Path | None) -> None:
    """Write an archive for each host that failed a stage, with nothing of any other host."""
    if attach and not attach.is_dir():
        raise UsageError(f"--attach {attach}: no such folder")
    results, runs = saved_results(standing.acceptance), standing.acceptance.runs
    failed = [host for host in standing.hosts.values() if host.blocked]
    additions = standing.acceptance.additions
    assessments: dict[str, Assessment] = {}
    for host in failed:
        if host.blocked == STATE:
            emit(f"{host.host}: failed {STATE}: no part is at fault; hwcheck provision mends it\n")
            continue
        names = runs_until_failure(host, results)
        measured = [name for name in names if (runs / name / "run.json").is_file()]
        assessments |= {
            name: judged(runs / name, additions) for name in measured if name not in assessments
        }
        _write_bundle(standing, host.host, [assessments[name] for name in measured], attach)
    if not failed:
        emit("no host failed a stage\n")


def _write_bundle(
    standing: _Standing, host: str, assessments: Sequence[Assessment], attach: Path | None
) -> None:
    fault = fault_of(assessments, host)
    templates = catalogue_of(standing.acceptance.additions).templates
    page = fault_html(fault, templates)
    files: dict[str, Path | bytes] = {
        "fault.md": fault_markdown(fault, templates).encode(),
        "fault.html": page.encode(),
        **_pdf("fault.pdf", page, standing.about),
        **dict(answers_and_logs(assessments, host)),
        **dict(attachments(attach, host)),
    }
    folder, name = standing.acceptance.folder / "rma", f"{host}-{fault.run}"
    with writing_to(standing.acceptance.folder):
        folder.mkdir(exist_ok=True)
    write_record(folder / f"{name}.tar.gz", name, files)
    emit(f"{folder / name}.tar.gz\n")


def _verify(file: Path, signers: Path | None) -> int:
    """Say whether a record is as it was signed, and by whom; return the exit code."""
    verified = verify_record(file, signers)
    for problem in verified.problems:
        say(f"hwcheck: {file}: {problem}")
    if verified.signature is None:
        return FAILED
    key, signer = verified.signature.key, line(verified.signature.signer, 200)
    if not signer:
        say(f"hwcheck: {file}: whose key this is nobody vouches for: name --signers")
        emit(f"{file}: {verified.files} files as signed with {key}\n")
        return NOT_MEASURED
    emit(f"{file}: {verified.files} files as signed by {signer} with {key}\n")
    return PASS
