"""One self-contained HTML page from a posterior, for readers who do not know MCMC.

`page.py` gathers the content; `rows.py` compares the posterior with the naive analysis and the
prior; `parts.py` splits the variance into its sources; `words.py` and `numbers.py` phrase
guarantees and numbers; `pictures.py` draws; `page.html` and `page.css` are the template.
"""

from noiseaware.report.page import write_report

__all__ = ["write_report"]
