"""What a person looks at: the HTML report."""

from evalign.reports._comparison import comparison_facts
from evalign.reports._evidence import evidence
from evalign.reports._page import facts_of, page, write

__all__ = ["comparison_facts", "evidence", "facts_of", "page", "write"]
