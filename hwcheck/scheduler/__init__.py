"""What the scheduler of a cluster says of its nodes, and draining them there.

::

    from hwcheck.scheduler.actions import Drains, drain, resume, states, wait_until_free
    from hwcheck.scheduler.records import SLURM, Amount

    by_host = states(SLURM, cluster.hosts)        # NodeState by the inventory's name of each host
    busy = {name: node.jobs for name, node in by_host.items() if node.at_work}

    drains = Drains(SLURM, purpose="sweep", run="runs/2026...", log=Path("runs/drains.jsonl"))
    why = {"gpu07": "nvlink: 2 links down"}
    for action in drain(drains, cluster.hosts, why, Amount.parse("10%"), dry_run=True):
        print(action.line())                      # done, would, refused or failed, and why
    resume(drains, cluster.hosts, ["gpu07"], dry_run=False)    # undoes this purpose's drains only
    wait_until_free(SLURM, hosts, limit_s, stop)  # after a drain: what is still busy

Each asks Slurm (``sinfo``, ``squeue``) or Kubernetes (its Python client) once for all nodes, and
raises UsageError, one line: a program or client that is missing, hangs or answers nonsense; a host
that may be two nodes (``hwcheck_scheduler_node`` says which it is).

``hosts`` are all of the inventory that may be meant: of a few of them only, two that are one node
would not be seen.

``records`` are what is handed on; ``slurm`` (by ``programs``) and ``kubernetes`` read and change
nodes; ``matching`` finds the node of a host; ``actions`` is what others call.
"""
