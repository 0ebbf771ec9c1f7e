"""Where sites' checks of former versions have it from."""

from hwcheck.contract.check import *  # noqa: F403
from hwcheck.node.node import Gpu as Gpu
from hwcheck.node.node import Node as Node
from hwcheck.node.node import NodeHost as NodeHost
