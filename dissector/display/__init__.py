"""Frames, trees and tables as text for people."""
