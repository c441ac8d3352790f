"""Speeds of this machine, beside peers."""
