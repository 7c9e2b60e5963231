"""Play chains: plan the steps, ask the editor, save every answer."""
