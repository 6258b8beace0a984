"""Diagnosis: one symptom a file, triage, and the kill rule."""
