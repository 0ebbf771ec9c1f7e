"""Everything that is pushed to a node. Standard library and the bundled pynvml, Python 3.8."""
