"""Generated from protos/ (./run protos). Do not edit."""
