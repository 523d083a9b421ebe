"""Tuning: loop trees and their searches; plans measured against the construction; records."""
