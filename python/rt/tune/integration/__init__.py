"""Callbacks for other libraries' training loops, under the names of ray.tune.integration."""
