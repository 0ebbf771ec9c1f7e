"""From a judged run to what to do. Read it in this order.

Findings to causes to actions: ``rule`` (what a rule is written with), ``rules/``, ``causes``, then
``actions`` with ``visits`` (hosts without a whole answer) and ``multi_host``.

Legs to NCCL settings: ``platforms`` and ``nccl_evidence`` (what each host proves),
``nccl_settings`` with ``nccl_network`` (what all hosts prove), ``nccl_files``.

``records`` are what all of these hand on.
"""
