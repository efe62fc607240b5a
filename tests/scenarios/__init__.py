"""Labelled incidents, deterministic: as event tables of any size and as engines' logs. See `catalogue`."""

from tests.scenarios import families
from tests.scenarios.catalogue import Scenario, catalogue
from tests.scenarios.labels import Label
from tests.scenarios.log import render_log
from tests.scenarios.table import build, build_arrow

__all__ = ["Label", "Scenario", "build", "build_arrow", "catalogue", "families", "render_log"]
