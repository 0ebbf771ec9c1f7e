"""From a judged run to what people and machines read. Every renderer is a pure function."""

from hwcheck.render import plot_setup

plot_setup.ensure()  # here: before any module of the package imports matplotlib
