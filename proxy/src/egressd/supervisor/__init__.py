"""The supervisor: configuration, lists, listeners, workers and the admin API. Carries no traffic."""
