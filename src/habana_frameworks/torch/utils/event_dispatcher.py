"""Gaudi's event dispatcher: a face over the events of this process."""

from openhpu.interface.dispatcher import EventDispatcher, EventId

__all__ = ["EventDispatcher", "EventId"]
