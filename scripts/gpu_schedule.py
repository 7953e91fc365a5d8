"""The time of scripts/gpu_check.py: its two parts, their groups of steps, and what still fits."""

import time

ROOM = 4  # seconds at the end of a part, kept for the summary
LEAST = 2  # seconds without which no step is begun, unless it says how many it needs

# The seconds of each part, and of its groups in their order. First comes what has changed since a
# GPU was last at hand, then figures that readers wait for, then everything else.
PARTS = {
    "first": (480, {"device": 25, "changed tests": 25, "changed kernels under sanitizers": 40,
                    "speed": 60, "time per kernel": 60, "beside PyTorch": 90,
                    "every test": 170}),
    "second": (250, {"device": 15, "tests left over": 30, "other speeds": 75, "kernels": 15,
                     "convolutions": 25, "memory": 16, "other kernels' time": 35,
                     "all kernels under sanitizers": 30}),
}


class Clock:
    """The machine's time; a rehearsal's clock only adds up what its steps would have taken."""

    def now(self):
        return time.monotonic()


class RehearsedClock(Clock):
    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return self.seconds


class Schedule:
    """Grants seconds to steps. A group has to end when its own and all earlier groups' seconds are
    over, so a group may also use what earlier ones have left; and everything ends in `seconds`."""

    def __init__(self, groups, seconds, clock, begun=None):
        self.clock = clock
        now = clock.now()
        self.deadline = (now if begun is None else begun) + seconds - ROOM
        self.ends, end = {}, now
        for group, of_group in groups.items():
            end += of_group
            self.ends[group] = end
        self.group_end = self.deadline

    def begin(self, group):
        """The steps from here on are this group's."""
        self.group_end = min(self.ends.get(group, self.deadline), self.deadline)

    def left(self):
        """Seconds until the group has to end."""
        return self.group_end - self.clock.now()

    def grant(self, limit, least=LEAST):
        """The seconds that a step may take, or 0 if fewer than `least` are left."""
        left = self.left()
        return min(limit, left) if left >= min(limit, least) else 0

    def refusal(self, limit, least=LEAST):
        """Why grant() gave nothing."""
        return f"no time was left: needs {min(limit, least):g} s, had {max(0, self.left()):.0f}"
