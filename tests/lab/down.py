"""``python -m tests.lab.down`` removes what labs of dead processes left behind."""

from tests.lab.network import remove_leftovers

if __name__ == "__main__":
    remove_leftovers()
