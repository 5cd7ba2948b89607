"""Callbacks for other libraries, under the names of ray.air.integrations."""
