"""The simulated world: virtual clock, devices and training dynamics. Everything it yields is SIMULATED."""
