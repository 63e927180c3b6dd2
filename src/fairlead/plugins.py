"""What a package needs that adds actuators to the daemon: functions of an `Action` and a `Context`, named by
entry points of `fairlead.actuators`. They raise `GiveUp` if trying again would not help."""

from .control.actuators import Actuator, Feedback, GiveUp
from .control.signals import Action, Context

__all__ = ["Action", "Actuator", "Context", "Feedback", "GiveUp"]
