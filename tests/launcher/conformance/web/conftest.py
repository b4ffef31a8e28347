"""The test with a browser is there when a browser is."""

from support import browser

collect_ignore = [] if browser.installed() else ["test_browser.py"]
