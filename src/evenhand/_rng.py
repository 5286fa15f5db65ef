"""The random stream: draws that are a function of (seed, phase, walker, step) and of nothing else.

Draws do not depend on the sizes or the order of blocks, so a sequential reference, many workers and a resumed run all
get the same ones. All arithmetic is on arrays of 64-bit integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
_A = np.uint64(0xBF58476D1CE4E5B9)
_B = np.uint64(0x94D049BB133111EB)
_WALKER = np.uint64(0xD1342543DE82EF95)
_S30, _S27, _S31, _S11 = (np.uint64(s) for s in (30, 27, 31, 11))
_TO_UNIT = 1.0 / (1 << 53)


def mix(bits: Bits) -> Bits:
    """Scramble 64-bit integers; a bijection whose outputs look independent (the finaliser of SplitMix64).

    >>> int(mix(np.array([1], dtype=np.uint64))[0]) != int(mix(np.array([2], dtype=np.uint64))[0])
    True
    """
    bits = bits ^ (bits >> _S30)
    bits *= _A
    bits ^= bits >> _S27
    bits *= _B
    bits ^= bits >> _S31
    return bits


def _mixed(word: int) -> int:
    """Scramble one Python integer as ``mix`` does an array, which is much faster for a single number."""
    word &= _MASK
    word = ((word ^ (word >> 30)) * int(_A)) & _MASK
    word = ((word ^ (word >> 27)) * int(_B)) & _MASK
    return word ^ (word >> 31)


@dataclass(frozen=True)
class Stream:
    """Draws of one run.

    >>> s = Stream(0)
    >>> bool((s.unit("walk", np.arange(3), 5) == s.unit("walk", np.arange(3), 5)).all())
    True
    """

    seed: int

    def bits(self, phase: str, walker: npt.ArrayLike, step: int) -> Bits:
        """Return one 64-bit draw per walker."""
        name = int.from_bytes(phase.encode()[:8].ljust(8, b"\0"), "little")
        base = _mixed(_mixed(_mixed(self.seed + _GOLDEN) ^ name) + step * _GOLDEN)
        return mix(np.atleast_1d(np.asarray(walker)).astype(np.uint64) * _WALKER + np.uint64(base))

    def unit(self, phase: str, walker: npt.ArrayLike, step: int) -> npt.NDArray[np.float64]:
        """Return one number in [0, 1) per walker."""
        return (self.bits(phase, walker, step) >> _S11).astype(np.float64) * _TO_UNIT

    def below(self, bound: int, phase: str, walker: npt.ArrayLike, step: int) -> npt.NDArray[np.int64]:
        """Return one integer in [0, bound) per walker; bound is at most 2**32, so that the bias is below 2**-32."""
        bits, size = self.bits(phase, walker, step), np.uint64(bound)
        # Division is far faster than the remainder.
        return (bits - bits // size * size).view(np.int64)

    def shuffled(self, index: npt.NDArray[np.int64], size: int, phase: str) -> npt.NDArray[np.int64]:
        """Return where a shuffle of ``range(size)`` puts each index, without building the shuffle.

        A four-round Feistel network on the smallest even number of bits that holds ``size``, applied again until the
        result is below ``size``.

        >>> sorted(Stream(1).shuffled(np.arange(10), 10, "deck").tolist())
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        half = max(1, (max(size - 1, 1).bit_length() + 1) // 2)
        width, mask = np.uint64(half), np.uint64((1 << half) - 1)
        keys = [self.bits(phase, 0, r) for r in range(4)]
        out = index.astype(np.uint64)
        todo = np.arange(len(out))
        while len(todo):
            left, right = out[todo] >> width, out[todo] & mask
            for key in keys:
                left, right = right, left ^ (mix(right + key) & mask)
            out[todo] = (left << width) | right
            todo = todo[out[todo] >= size]
        return out.astype(np.int64)
