"""The bits of ``clock_events``: what holds the clocks down.

NVML API Reference Guide, NvmlClocksEventReasons.
"""

SW_POWER_CAP = 0x04
HW_SLOWDOWN = 0x08
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80
