// A labelled control that keeps the typed value itself, so that redrawing the page does not remove it.
export default {
  props: { kind: String, label: String, value: [String, Boolean], options: Array, hint: String, lines: Number },
  emits: ["entered"],
  template: `
    <label v-if="kind === 'check'" class="o-check">
      <input type="checkbox" v-model="held" @change="$emit('entered', held)"><span>{{ label }}</span>
    </label>
    <label v-else class="o-field"><span>{{ label }}</span>
      <select v-if="kind === 'choice'" v-model="held" @change="$emit('entered', held)">
        <option v-for="option in options" :key="option[0]" :value="option[0]">{{ option[1] }}</option>
      </select>
      <textarea v-else-if="lines > 1" v-model="held" :rows="lines" :placeholder="hint" spellcheck="false"
                autocomplete="off" @input="$emit('entered', held)"></textarea>
      <input v-else type="text" v-model="held" :placeholder="hint" spellcheck="false" autocomplete="off"
             @input="$emit('entered', held)">
    </label>`,
  data() {
    return { held: this.value };
  },
};
