"""The parts of scripts/embed-redis-scripts."""
