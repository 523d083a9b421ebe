"""Translation validation: does compiled code compute what the program says?

report = validate(program, nest, seed=0)
if not report.is_clean:
    print(report)
"""

from loopwright.validate.difference import Difference, Report
from loopwright.validate.translation import check_translation, validate

__all__ = ["Difference", "Report", "check_translation", "validate"]
