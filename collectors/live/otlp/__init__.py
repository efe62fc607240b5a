"""A receiver of OTLP traces: an engine's own request spans, and the tool calls of whoever talks to it, as request rows.

It listens on loopback only, unless told otherwise, and keeps counts of what it could not take.
"""
