"""Pictures as encoders take them: the same numbers in either layout."""

import pytest
import torch

from reprl.encoders.base import as_images


@pytest.mark.parametrize("shape", [(5, 4, 12, 10), (1, 4, 8, 8), (3, 1, 8, 8), (2, 3, 1, 7)])
def test_both_layouts_hold_the_same_numbers(shape: tuple[int, ...]) -> None:
    drawn = torch.Generator().manual_seed(0)
    observations = torch.randint(256, shape, dtype=torch.uint8, generator=drawn)
    expected = observations.float() / 255.0
    for layout in (torch.contiguous_format, torch.channels_last):
        found = as_images(observations, layout)
        assert torch.equal(found, expected)
        # as torch itself lays such a tensor out: convolutions round by layout
        empty = torch.empty(shape, memory_format=layout)
        assert found.stride() == empty.stride()
        assert found.is_contiguous(memory_format=layout)
