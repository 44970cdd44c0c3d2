"""Calibration: the setting of a mechanism that meets a privacy target."""
