"""``hwcheck accept``: post-install acceptance, from the first idle check to a signed record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwcheck import __version__
from hwcheck.advise.assessment import Assessment
from hwcheck.cli.accept_run import Acceptance, roles_of, run, saved_results
from hwcheck.cli.command import end, fab_task, flag, group, option, together
from hwcheck.cli.flags import forks_flag, list_names, reaching, read_cluster, reading
from hwcheck.cli.outcome import judged
from hwcheck.cli.output import emit, rendered, say
from hwcheck.cli.site_option import all_checks, catalogue_of, site_flag, with_site
from hwcheck.cli.values import Folder
from hwcheck.connect.connector import connection_check
from hwcheck.contract.wire import to_json
from hwcheck.errors import UsageError
from hwcheck.exit_codes import FAILED, NOT_MEASURED, PASS
from hwcheck.fleet.accept.acceptance import (
    About,
    begin,
    criteria_of,
    new_about,
    read_about,
    record_files,
)
from hwcheck.fleet.accept.criteria import ANY, brought
from hwcheck.fleet.accept.estimate import StageEstimate, estimates, estimates_left
from hwcheck.fleet.accept.fault import fault_of
from hwcheck.fleet.accept.fault_page import fault_html, fault_markdown
from hwcheck.fleet.accept.golden import golden
from hwcheck.fleet.accept.page import acceptance_page, explanation, status
from hwcheck.fleet.accept.pdf import pdf
from hwcheck.fleet.accept.progress import HostProgress, exit_code, progress
from hwcheck.fleet.accept.record import write_record
from hwcheck.fleet.accept.rma import answers_and_logs, attachments, runs_until_failure
from hwcheck.fleet.accept.signature import refuse_signed, sign_record, verify_record
from hwcheck.fleet.accept.stages import STATE
from hwcheck.fleet.sweep.state import Lock, holder
from hwcheck.fold import fold
from hwcheck.results.files import replace_text, writing_to
from hwcheck.results.run_folder import GOLDEN
from hwcheck.text import line

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)

OUT = "acceptance"
LOCK = "acceptance"
PAGE = "acceptance.html"


@dataclass(frozen=True)
class _Standing:
    """An acceptance that has begun, and how far its hosts are."""

    about: About
    acceptance: Acceptance
    hosts: Mapping[str, HostProgress]


@group("accept", usual="run")
def cli() -> None:
    """Accept a cluster: stages host by host, requirement by requirement, and a signed record.

    Where no action is named it is run.
    """


criteria_flag = option(
    "--criteria",
    metavar="FILE|MODEL",
    default="",
    help="YAML file of requirements, or a GPU model (h100_sxm) for those that hwcheck brings of it "
    "(default: those of any model)",
)
folder_flag = option(
    "--out",
    type=Folder(OUT),
    default=OUT,
    help=f"folder of the acceptance (default: {OUT})",
)
estimate_flag = forks_flag(default=32, help="hosts at once, for the time that is left (default 32)")


@cli.command(
    "run",
    examples=(
        "hwcheck accept --hosts cluster.yml --explain",
        "hwcheck accept run --hosts cluster.yml --criteria h100_sxm",
        "hwcheck accept run --criteria order.yml --hosts cluster.yml --limit rack1",
    ),
)
@criteria_flag
@flag(
    "--explain",
    help="say what would be done, how long it takes and what it needs; change nothing",
)
@folder_flag
@site_flag()
@reaching()
@with_site
def run_action(
    *,
    explain: bool,
    list_hosts: bool,
    site: str | None,  # noqa: ARG001 - with_site takes it
    **asked: Any,
) -> None:
    """Take each host through the stages that it has left."""
    acceptance, about, is_new = _acceptance(asked, begins=True, reached=not list_hosts)
    if list_hosts:
        list_names(acceptance.cluster)
        return
    if explain:
        _explain(acceptance)
        return
    folder = acceptance.folder
    with Lock(folder, LOCK, acceptance.cluster.source, "accept run"):
        if is_new:
            begin(folder, about, acceptance.criteria)
        run(acceptance, lambda stage: _write_page(_standing(acceptance, about), running=stage))
        _write_page(_standing(acceptance, about))
    _say_status(acceptance, about)


about_hosts = together(
    criteria_flag, folder_flag, site_flag(), estimate_flag, reading(limit=False), with_site
)
"""What an action takes that is about an acceptance that has begun."""


@cli.command(
    "status",
    examples=(
        "hwcheck accept status",
        "hwcheck accept status --out acceptance",
        "hwcheck accept status --hosts cluster.yml",
    ),
)
@about_hosts
def status_action(**asked: Any) -> None:
    """Say how far each host is."""
    acceptance, about, _ = _acceptance(asked)
    _say_status(acceptance, about)


@cli.command(
    "record",
    examples=(
        "hwcheck accept record",
        "hwcheck accept record --out acceptance",
        "hwcheck accept record --hosts cluster.yml",
    ),
)
@about_hosts
def record_action(**asked: Any) -> None:
    """Write the archive."""
    acceptance, about, _ = _acceptance(asked)
    with Lock(acceptance.folder, LOCK, acceptance.cluster.source, "accept record"):
        standing = _standing(acceptance, about)
        _write_record(standing)
    end(exit_code(standing.hosts, acceptance.criteria))


@cli.command(
    "rma",
    examples=(
        "hwcheck accept rma",
        "hwcheck accept rma --attach vendor-logs",
        "hwcheck accept rma --out acceptance",
    ),
)
@option(
    "--attach",
    metavar="FOLDER",
    type=click.Path(file_okay=False),
    help="a folder that has, for each host, a folder of its name with files for the vendor "
    "(nvidia-bug-report.log.gz, fieldiag's log)",
)
@about_hosts
def rma_action(*, attach: str | None, **asked: Any) -> None:
    """Write what the vendor asks for of each host that failed."""
    acceptance, about, _ = _acceptance(asked)
    standing = _standing(acceptance, about, at_work=bool(_at_work(acceptance)))
    _write_bundles(standing, Path(attach) if attach else None)


@cli.command(
    "golden",
    examples=(
        "hwcheck accept golden",
        "hwcheck accept golden --out acceptance",
        "hwcheck accept golden --hosts cluster.yml",
    ),
)
@about_hosts
def golden_action(**asked: Any) -> None:
    """Write what the accepted hosts measured, for hwcheck_golden."""
    acceptance, about, _ = _acceptance(asked)
    _write_golden(_standing(acceptance, about, at_work=bool(_at_work(acceptance))))


archive_word = click.argument(
    "archive",
    type=click.Path(dir_okay=False),
    metavar="[FILE]",
    required=False,
    help=f"the archive: {OUT}/NAME.tar.gz",
)
archive_flag = option(
    "--file", type=click.Path(dir_okay=False), metavar="FILE", help="the archive, as well"
)


@cli.command(
    "sign",
    examples=(
        "hwcheck accept sign acceptance/record.tar.gz --key ~/.ssh/id_ed25519",
        "hwcheck accept sign record.tar.gz --key ~/.ssh/id_ed25519.pub",
        "hwcheck accept sign --file record.tar.gz --key acceptance_key",
    ),
)
@archive_word
@archive_flag
@option(
    "--key",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="the private key, or its public half where an ssh-agent has it",
)
def sign_action(*, archive: str | None, file: str | None, key: str | None) -> None:
    """Sign the archive."""
    path = _archive("sign", archive, file)
    if not key:
        raise UsageError("accept sign: name the key: --key ~/.ssh/id_ed25519")
    emit(f"{sign_record(path, Path(key))}\n")


@cli.command(
    "verify",
    examples=(
        "hwcheck accept verify record.tar.gz",
        "hwcheck accept verify record.tar.gz --signers allowed_signers",
        "hwcheck accept verify --file record.tar.gz",
    ),
)
@archive_word
@archive_flag
@option(
    "--signers",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="file of allowed signers, as ssh-keygen(1) has it",
)
def verify_action(*, archive: str | None, file: str | None, signers: str | None) -> None:
    """Say whether the archive is as it was signed, and by whom."""
    end(_verify(_archive("verify", archive, file), Path(signers) if signers else None))


@cli.command(
    "criteria",
    examples=(
        "hwcheck accept criteria",
        "hwcheck accept criteria --gpu h100_sxm",
        "hwcheck accept criteria --gpu h100_sxm > order.yml",
    ),
)
@option(
    "--gpu",
    metavar="MODEL",
    default="",
    help="the GPU model whose figures are written with them",
)
def criteria_action(*, gpu: str) -> None:
    """Print the criteria that hwcheck brings."""
    emit(brought(gpu or ANY, catalogue_of(None).models))


def _archive(action: str, word: str | None, flag: str | None) -> Path:
    """Return the archive that is named, once. Raises UsageError."""
    if bool(word) == bool(flag):
        problem = "name the archive once" if word else f"name the archive: {OUT}/NAME.tar.gz"
        raise UsageError(f"accept {action}: {problem}")
    return Path(word or flag or "")


def _acceptance(
    asked: Mapping[str, Any], *, begins: bool = False, reached: bool = False
) -> tuple[Acceptance, About, bool]:
    """Return the acceptance of a folder, and whether it is a new one, as only ``run`` begins one.

    ``reached``: its hosts are. Raises UsageError.
    """
    additions: Additions | None = asked["additions"]
    catalogue = catalogue_of(additions)
    folder = Path(asked["out"])
    about = read_about(folder)
    if about is None and not begins:
        raise UsageError(f"{folder}: no acceptance has begun here; accept run --hosts begins one")
    criteria = criteria_of(folder, about, asked["criteria"], catalogue)
    roles_of(criteria)
    accept_new = asked.get("accept_new_host_keys", False)
    cluster = read_cluster(
        asked["hosts"] or (about.inventory if about else None),
        asked.get("limit"),
        asked["extra_vars"],
        asked["connection"],
        checks=catalogue.checks,
        reach=connection_check(accept_new_host_keys=accept_new) if reached else None,
    )
    is_new, about = about is None, about or new_about(cluster.source, criteria)
    acceptance = Acceptance(
        about.id,
        folder,
        cluster,
        criteria,
        additions,
        asked["forks"],
        accept_new_host_keys=accept_new,
        verbose=asked.get("verbose", False),
    )
    return acceptance, about, is_new


def _say_status(acceptance: Acceptance, about: About) -> None:
    """Print how far each host is, and end with what that comes to."""
    running = _at_work(acceptance)
    standing = _standing(acceptance, about, at_work=bool(running))
    left = _left(standing, of_this_call=bool(running))
    every = all_checks(acceptance.additions)
    emit(rendered(status(standing.hosts, acceptance.criteria, left, every, running)))
    end(exit_code(standing.hosts, acceptance.criteria))


def _at_work(acceptance: Acceptance) -> str:
    """Return what another call does now; empty where none does."""
    at_work = holder(acceptance.folder, LOCK)
    return f"{_under_way(acceptance)}{at_work}" if at_work else ""


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
