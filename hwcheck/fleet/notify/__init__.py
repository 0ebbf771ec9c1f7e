"""What changed between two sweeps, and who is told: one message per sweep, none without news.

At the end of a sweep::

    notify = config.read(path)                  # before anything is measured: UsageError
    show(run, ..., assessed=lambda each: seen.append(problems.observe(each)))   # for each run
    sweep = Sweep(id, levels, inventory, started, finished, hosts, measured, late, reports)
    lines = tell.tell(notify, folder, sweep, seen)

``folder`` is where the sweep keeps its state: the file of open problems and the outbox are in it.
``lines`` say what could not be told or written, for stderr; nothing is raised for it, and it is
tried again with the next sweep. Calling it again for the same sweep (after a kill) tells nobody
twice. The sweep holds its own lock meanwhile; the outbox has one besides.
"""
