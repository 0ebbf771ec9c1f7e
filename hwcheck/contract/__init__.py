"""What crosses the wire, and what a check may declare: standard library, Python 3.8."""
