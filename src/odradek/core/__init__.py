"""State machines without I/O: nothing in here imports asyncio, os, random, socket, threading or time."""
