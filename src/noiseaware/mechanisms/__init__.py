"""Mechanisms: how the answer to a query was made private.

A mechanism gives the density of the released values s_dp given the total T of the records'
statistics: `log_density(values, total)` is log g(s_dp, T), the only place where the noise enters
the posterior. It also states its privacy promise (`guarantee`) and simulates releases
(`privatize`). The mechanisms, by file:

- `additive`: `Laplace` (pure differential privacy, by the l1 sensitivity), `Gaussian` ((epsilon,
  delta), rho-zCDP or mu-GDP, by the l2 sensitivity), `DiscreteLaplace` and `DiscreteGaussian` for
  integer totals; `Exact`, no noise, for totals held invariant;
- `after_noise`: `Clamped`, `Thresholded`, `Rounded`, post-processing of noisy numbers;
- `forced`: `Truncated`, `Folded`, noise forced into a range;
- `several`: `Several`, releases about the same records as one; `Attributes`, one for each column;
- `local`: `LocalLaplace`, `LocalGaussian`, `LocalGeometric`, `LocalDiscreteGaussian`, separate
  noise for every record; `local_tables`: `RandomizedResponse`, and `RandomRounding`, `CellKey` and
  `LocalExact`, which have no guarantee;
- `exponential`: `Exponential`, one of finitely many outputs, by its utility; `KNorm`, noise shaped
  by the l1, l2 or l-infinity ball;
- `minimisers`: `KNormGradient`, `ObjectivePerturbation`, a minimiser of a summed loss (`losses`);
- `functional`: `Functional`, the noisy coefficients of a polynomial objective.

Supporting modules: `terms` and `joint` (compiled log densities), `guarantee` (privacy promises),
`calibrate` (from promise to scale), `acceptance` (acceptance rates implied by a promise), `ready`
(the shared base class). To write your own mechanism, see `noiseaware.contract.Mechanism`.

References
----------
Awan and Slavkovic (2021). Structure and sensitivity in differential privacy: comparing K-norm
    mechanisms. Journal of the American Statistical Association.
Balle and Wang (2018). Improving the Gaussian mechanism for differential privacy: analytical
    calibration and optimal denoising. ICML.
Bun and Steinke (2016). Concentrated differential privacy: simplifications, extensions, and lower
    bounds. TCC.
Canonne, Kamath and Steinke (2020). The discrete Gaussian for differential privacy. NeurIPS.
Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical risk minimization. JMLR
    12.
Dong, Roth and Su (2022). Gaussian differential privacy. JRSS B 84(1).
Dwork, McSherry, Nissim and Smith (2006). Calibrating noise to sensitivity in private data analysis.
    TCC.
Dwork and Roth (2014). The algorithmic foundations of differential privacy. Foundations and Trends
    in Theoretical Computer Science 9(3-4).
Ghosh, Roughgarden and Sundararajan (2009). Universally utility-maximizing privacy mechanisms. STOC.
Hardt and Talwar (2010). On the geometry of differential privacy. STOC.
Holohan, Antonatos, Braghin and Mac Aonghusa (2020). The bounded Laplace mechanism in differential
    privacy. Journal of Privacy and Confidentiality 10(1).
Kairouz, Oh and Viswanath (2015). The composition theorem for differential privacy. ICML.
Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization and high-dimensional
    regression. COLT.
McSherry and Talwar (2007). Mechanism design via differential privacy. FOCS.
Reimherr and Awan (2019). KNG: the K-norm gradient mechanism. NeurIPS.
Zhang, Zhang, Xiao, Yang and Winslett (2012). Functional mechanism: regression analysis under
    differential privacy. VLDB.

Example
-------
>>> import noiseaware as na
>>> import numpy as np
>>> mechanism = na.mechanisms.DiscreteLaplace(na.queries.Count(), epsilon=1.0)
>>> mechanism.log_density(values=[7.0], total=[5.0])
-2.0
>>> release = mechanism.privatize(np.array([0, 1, 1, 0, 1]), np.random.default_rng(1))
"""

from __future__ import annotations

from noiseaware import contract
from noiseaware.basics.deprecated import renamed
from noiseaware.mechanisms.additive import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exact,
    Gaussian,
    Laplace,
)
from noiseaware.mechanisms.after_noise import Clamped, Rounded, Thresholded
from noiseaware.mechanisms.exponential import Exponential, KNorm
from noiseaware.mechanisms.forced import Folded, Truncated
from noiseaware.mechanisms.functional import Functional, ObjectiveCoefficients
from noiseaware.mechanisms.guarantee import Guarantee
from noiseaware.mechanisms.joint import JointDensity
from noiseaware.mechanisms.local import (
    LocalDiscreteGaussian,
    LocalGaussian,
    LocalGeometric,
    LocalLaplace,
)
from noiseaware.mechanisms.local_tables import (
    CellKey,
    LocalExact,
    RandomizedResponse,
    RandomRounding,
)
from noiseaware.mechanisms.losses import (
    LinearLoss,
    LogisticLoss,
    MeanLoss,
    QuantileLoss,
    RowNormLogisticLoss,
)
from noiseaware.mechanisms.minimisers import KNormGradient, ObjectivePerturbation
from noiseaware.mechanisms.several import Attributes, Several
from noiseaware.mechanisms.terms import ExtendedDensity, SeparableDensity
from noiseaware.registry import MECHANISMS

__all__ = [
    "Attributes",
    "CellKey",
    "Clamped",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Exact",
    "Exponential",
    "ExtendedDensity",
    "Folded",
    "Functional",
    "Gaussian",
    "Guarantee",
    "JointDensity",
    "KNorm",
    "KNormGradient",
    "Laplace",
    "LinearLoss",
    "LocalDiscreteGaussian",
    "LocalExact",
    "LocalGaussian",
    "LocalGeometric",
    "LocalLaplace",
    "LogisticLoss",
    "MeanLoss",
    "ObjectiveCoefficients",
    "ObjectivePerturbation",
    "QuantileLoss",
    "RandomRounding",
    "RandomizedResponse",
    "Rounded",
    "RowNormLogisticLoss",
    "SeparableDensity",
    "Several",
    "Thresholded",
    "Truncated",
    "from_dict",
]

from_dict = MECHANISMS.read

__getattr__ = renamed(
    "noiseaware.mechanisms",
    {
        "MechanismLike": ("noiseaware.contract.Mechanism", contract.Mechanism),
        "Terms": ("noiseaware.mechanisms.SeparableDensity", SeparableDensity),
    },
)
