"""Tables that scroll."""

from __future__ import annotations

from django.template import Context, Template

TABLE = """{% load tables %}{% scroll_table name "heat" axis=axis %}
  <table>
    <tbody>
      <tr>
        <th scope="row">
          {{ name }}
        </th>
        <td> <b>2.0</b> <small>1.7–2.4</small> </td>
      </tr>
    </tbody>
  </table>
{% endscroll_table %}"""


def test_a_table_is_a_region_with_a_name_and_words_in_its_cells_stay_apart():
    context = Context({"name": "<i> > </i>", "axis": [0, 5, 10]})
    assert Template(TABLE).render(context) == (
        '<div class="table heat steps-2" tabindex="0" role="region"'
        ' aria-label="&lt;i&gt; &gt; &lt;/i&gt;">'
        '<table><tbody><tr><th scope="row">&lt;i&gt; &gt; &lt;/i&gt;</th>'
        "<td><b>2.0</b> <small>1.7–2.4</small></td></tr></tbody></table></div>"
    )
