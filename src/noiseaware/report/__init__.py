"""One self-contained HTML page from a posterior, for readers who do not know MCMC.

`page.py` gathers the content for the template `page.html`; `rows.py` compares posterior, naive
analysis and prior; `parts.py` splits the variance; `words.py` and `numbers.py` phrase guarantees
and numbers; `pictures.py` draws.
"""

from noiseaware.report.page import write_report

__all__ = ["write_report"]
