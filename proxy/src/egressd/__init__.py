"""egressd, the node's egress proxy: a supervisor, workers that carry the traffic, and the command egressctl."""
