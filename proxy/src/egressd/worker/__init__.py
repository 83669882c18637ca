"""The worker process: it carries the traffic. Imports nothing of the supervisor."""
