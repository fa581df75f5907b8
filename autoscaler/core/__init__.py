"""Pure decisions: which nodes to buy, which to give back."""
