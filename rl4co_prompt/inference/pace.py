"""Pace: how much of a pass fits into the time that is left."""

_CAREFUL = 1.25  # predictions are exceeded now and then
_TRIAL = 8  # starts of a first try at an unknown size


class Pace:
    """Learns seconds per unit of work, where a start costs n^2 and encoding an instance 4 n^2."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}  # per unit of work, by size

    def learn(self, seconds: float, rows: int, size: int, starts: int) -> None:
        """Note what a pass took."""
        self._seconds[size] = seconds / _work(rows, size, starts)

    def starts_within(self, seconds: float, rows: int, size: int, wanted: int) -> int:
        """Starts of every row, at most ``wanted``, that fit into the time; 0 if none does."""
        unit = self._seconds.get(size)
        if unit is None:  # small instances cost more per unit, so this errs on the safe side
            unit, wanted = max(self._seconds.values(), default=0.0), min(wanted, _TRIAL)
        for starts in (wanted, *(wanted * k // 8 for k in range(7, 0, -1)), 1):
            if starts and _CAREFUL * unit * _work(rows, size, starts) <= seconds:
                return starts
        return 0


def _work(rows: int, size: int, starts: int) -> float:
    return rows * (starts + 4) * (size + 1) ** 2
