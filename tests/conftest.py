"""For all tests: an example of a property may take as long as the machine needs, for others may work on it too."""

from hypothesis import settings

settings.register_profile("oomctl", deadline=None)
settings.load_profile("oomctl")
