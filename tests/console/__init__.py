"""The console in a browser: Debian's Chromium, driven by Playwright, before a real cluster."""
