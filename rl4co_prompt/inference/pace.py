"""Pace: how much of a pass fits into the time that is left."""

_CAREFUL = 1.25  # predictions are exceeded now and then
_ENCODER = 50  # starts that cost as much as encoding an instance
_TRIAL = 16  # starts of a first try at an unknown size


class Pace:
    """Learns what passes take: a fixed part, and n^2 units per start and for the encoder."""

    def __init__(self) -> None:
        self._fixed = 0.0  # seconds of any pass
        self._units: dict[int, float] = {}  # seconds per unit of work, by size

    def set_fixed(self, seconds: float) -> None:
        """Take over what a pass over a tiny instance took."""
        self._fixed = seconds

    def learn(self, seconds: float, rows: int, size: int, starts: int) -> None:
        """Note what a pass took."""
        variable = max(seconds - self._fixed, seconds / 10)
        self._units[size] = variable / _work(rows, size, starts)

    def doubt(self, size: int) -> None:
        """Expect half of what was expected at a size that nothing was tried at."""
        nearest = min(self._units, key=lambda known: abs(known - size), default=None)
        if nearest is not None:
            self._units[nearest] /= 2
        self._fixed /= 2

    def starts_within(self, seconds: float, rows: int, size: int, wanted: int) -> int:
        """Starts of every row, at most ``wanted``, that fit into the time; 0 if none does."""
        if size not in self._units:
            wanted = min(wanted, _TRIAL)
        per_start = rows * (size + 1) ** 2 * self._unit(size)
        left = seconds / _CAREFUL - self._fixed - _ENCODER * per_start
        if left <= 0:
            return 0
        return wanted if wanted * per_start <= left else int(left / per_start)

    def _unit(self, size: int) -> float:
        """Of this size, or of the nearest that is known."""
        nearest = min(self._units, key=lambda known: abs(known - size), default=None)
        return 0.0 if nearest is None else self._units[nearest]


def _work(rows: int, size: int, starts: int) -> float:
    return rows * (starts + _ENCODER) * (size + 1) ** 2
