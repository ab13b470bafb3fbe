"""What holds for all tests."""

from hypothesis import settings

# A test that fails because the machine was busy says nothing about the code.
settings.register_profile("backstay", deadline=None)
settings.load_profile("backstay")
