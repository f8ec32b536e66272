// A table of plain text, links and buttons. Values are interpolated and never treated as markup.
export default {
  props: { columns: Array, rows: Array, label: String, empty: String },
  template: `
    <p v-if="!rows.length" class="o-empty">{{ empty }}</p>
    <div v-else class="o-scroll" role="region" :aria-label="label" tabindex="0">
      <table class="o-table">
        <thead>
          <tr>
            <th v-for="column in columns" :key="column.name" scope="col" :class="{ 'o-number': column.is_number }">
              {{ column.label }}
            </th>
            <th v-if="hasActions" scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          <tr v-for="row in rows" :key="row.key" :data-key="row.key">
            <td v-for="column in columns" :key="column.name" :data-label="column.label" :data-column="column.name"
                :class="{ 'o-number': column.is_number }">
              <span :class="row.cells[column.name].tone ? 'o-tone o-' + row.cells[column.name].tone : ''">
                <a v-if="row.cells[column.name].link" :href="row.cells[column.name].link">{{ row.cells[column.name].text }}</a>
                <template v-else>{{ row.cells[column.name].text }}</template>
              </span>
            </td>
            <td v-if="hasActions" data-label="Actions" class="o-actions">
              <button v-for="action in row.actions" :key="action" type="button" class="o-button o-small"
                      :aria-label="action + ' ' + row.cells[columns[0].name].text"
                      @click="$emit('act', { key: row.key, action })">{{ action }}</button>
            </td>
          </tr>
        </tbody>
      </table>
    </div>`,
  computed: {
    hasActions() {
      return this.rows.some((row) => row.actions.length);
    },
  },
};
