"""Tests of oomctl; a package, so that tests can share `tests.scenarios` and other helpers."""
