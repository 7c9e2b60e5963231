"""Play chains: plan the steps, call the editor, save every answer."""
