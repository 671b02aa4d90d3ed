"""How the site is built: `make docs`, without network, with warnings as errors.

The pages are Markdown (MyST) with relative links, so that they can be read in the repository too.
The API reference is made from the docstrings, see `docstrings.py` beside this file.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import noiseaware

project = "noiseaware"
author = "The noiseaware developers"
version = release = noiseaware.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "docstrings",
    "printed",
]
exclude_patterns = ["_build"]

# The notebooks are run in a folder of their own, when they or the package have changed; a cell that
# fails is a warning, and warnings are errors.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_show_tb = True
nb_render_text_lexer = "none"

# The pages whose code is run, with what it prints and draws below it; see `printed.py`.
printed_pages = ["index", "models/*"]

# Formulas are set by one file of MathJax, which holds its own glyphs and is copied into the site.
MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax/tex-svg.js"
myst_enable_extensions = ["amsmath", "dollarmath"]
mathjax_path = MATHJAX.name
mathjax3_config = {"svg": {"scale": 0.9}}

# Headings of up to three levels can be linked to, as in the repository: page.md#the-heading.
myst_heading_anchors = 3

# Types are in the docstrings, with shapes; once is enough.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

# Every reference must lead somewhere, but for names in docstrings: those that are not in the
# reference (`ndarray`, private helpers) are shown as code.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

pygments_style = "friendly"
html_theme = "furo"
html_title = "noiseaware"
html_static_path = ["_static", str(MATHJAX)]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5f8b", "color-brand-content": "#1f5f8b"},
    "dark_css_variables": {"color-brand-primary": "#7fb8dd", "color-brand-content": "#7fb8dd"},
}
