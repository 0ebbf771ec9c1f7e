"""The phases of a visit, as the record of a host names the one in which it ended."""

NAME_LOOKUP = "name lookup"
JUMP_HOST = "jump host"
CONNECT = "connect"
BANNER = "banner"
KEY_EXCHANGE = "key exchange"
HOST_KEY = "host key"
AUTHENTICATION = "authentication"
SESSION = "session"
BECOME = "become"
PYTHON = "python"
PUSH = "push"
RUN = "run"

NO_VISIT = (
    *(NAME_LOOKUP, JUMP_HOST, CONNECT),
    *(BANNER, KEY_EXCHANGE, HOST_KEY, AUTHENTICATION, SESSION),
)
"""A host that fails in one of these was not reached: its state is ``unreachable``."""
