"""The library of skills: protocol, loader, evidence."""
