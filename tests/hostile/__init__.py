"""Files made to take a machine down."""
