"""What an engine publishes of its prefix cache: blocks stored, removed, cleared. The cache's index, not what is in use.

Events are read where an engine publishes them already, and never switched on: a publisher whose queue is full holds up the
engine (vllm#53859). Token ids are prompt content; they are dropped where the message is decoded.
"""
