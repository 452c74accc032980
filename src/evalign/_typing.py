"""The types that public signatures share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from evalign.metrics import Confusion, Constraint, Metric

#: Anything `evalign.metrics.as_metric` accepts.
MetricLike: TypeAlias = Union["Metric", Callable[["Confusion"], Tensor], str]
#: Anything `evalign.metrics.as_constraints` accepts: none, one or several.
ConstraintsLike: TypeAlias = Union["Constraint", str, Sequence[Union["Constraint", str]]]
#: An array of double precision.
Floats: TypeAlias = NDArray[np.float64]
#: An array of class or row indices.
Indices: TypeAlias = NDArray[np.int64]
