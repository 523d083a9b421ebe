"""Begin to note executed lines, in every Python process that has this folder on its path."""

import os

import line_events

EVENTS = None
if line_events.FILES in os.environ:
    EVENTS = line_events.LineEvents(os.environ[line_events.FILES])
    if line_events.HITS in os.environ:
        EVENTS.attach(os.environ[line_events.HITS])
    EVENTS.begin()
