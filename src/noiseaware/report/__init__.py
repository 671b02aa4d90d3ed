"""One self-contained HTML page from a posterior, for people who do not know MCMC.

`page.py` gathers what the page says; `rows.py` compares the posterior with the naive analysis and
the prior, `parts.py` computes where the uncertainty comes from, `words.py` and `numbers.py` put
promises and numbers into words, `pictures.py` draws, and `page.html` with `page.css` is the page.
Nothing in it is loaded from anywhere: the style and the pictures are inside.
"""

from noiseaware.report.page import write_report

__all__ = ["write_report"]
