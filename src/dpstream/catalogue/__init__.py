"""Everything dpstream offers, in one list: laws, audits, documentation and the command read it."""
