"""Gaudi's event dispatcher: a face over the events of this process."""

from openhpu.interface.dispatcher import EventDispatcher as EventDispatcher, EventId as EventId
