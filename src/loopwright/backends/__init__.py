"""Loop nests to text of a target's language. No tool is called here."""
