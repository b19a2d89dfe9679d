"""Hypothesis without a clock: a slow machine is no failure. `--hypothesis-profile=thorough` looks longer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("ckpt_gui", deadline=None, suppress_health_check=SLOW, max_examples=60)
settings.register_profile("thorough", deadline=None, suppress_health_check=SLOW, max_examples=3000)
settings.load_profile("ckpt_gui")
