"""A reference autoscaler: reads demand from the GCS, buys and returns nodes through a provider."""
