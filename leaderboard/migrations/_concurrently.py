"""Indexes on tables of millions of rows, made while the site goes on reading and writing."""

from typing import Any

from django.db import migrations


class AddIndexConcurrently(migrations.AddIndex):
    """As Django's own of that name on PostgreSQL, a plain index elsewhere; safe to repeat.

    Its migration must say `atomic = False`. One that was killed half-way leaves an index that
    nothing uses under the name: it is dropped before the index is made again.
    """

    atomic = False

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if schema_editor.connection.vendor != "postgresql":
            schema_editor.add_index(model, self.index)
            return
        _drop(schema_editor, self.index.name)
        schema_editor.add_index(model, self.index, concurrently=True)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        model = from_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        if schema_editor.connection.vendor != "postgresql":
            schema_editor.remove_index(model, self.index)
            return
        _drop(schema_editor, self.index.name)


def _drop(schema_editor: Any, name: str) -> None:
    schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(name)}")
