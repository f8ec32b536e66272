// "/" opens it unless an input has the focus: the text goes to the server, arrow keys select, Enter opens the hit.
export default {
  props: { hits: Array, searched: String },
  emits: ["search"],
  template: `
    <div class="o-searcher">
      <button type="button" aria-keyshortcuts="/" aria-haspopup="dialog" @click="open">Search <kbd aria-hidden="true">/</kbd></button>
      <dialog ref="dialog" class="o-search" aria-label="Search" @click.self="close" @close="words = ''">
        <label class="o-field"><span>Search pages, brokers, topics, groups and configs</span>
          <input ref="field" type="text" role="combobox" aria-controls="o-hits" aria-autocomplete="list"
                 :aria-expanded="shown.length > 0 ? 'true' : 'false'"
                 :aria-activedescendant="shown.length ? 'o-hit-' + chosen : null" v-model="words" spellcheck="false"
                 autocomplete="off" @input="search" @keydown.down.prevent="choose(1)" @keydown.up.prevent="choose(-1)"
                 @keydown.enter.prevent="go(chosen)">
        </label>
        <ul v-show="shown.length" id="o-hits" role="listbox" aria-label="Found">
          <li v-for="(hit, index) in shown" :key="hit.link" :id="'o-hit-' + index" role="option"
              :aria-selected="index === chosen ? 'true' : 'false'" @click="go(index)">
            <span class="o-faint">{{ hit.kind }}</span> {{ hit.text }}
          </li>
        </ul>
        <p v-if="words.trim() && searched === words && !shown.length" class="o-empty" role="status">No matches.</p>
      </dialog>
    </div>`,
  data() {
    return { words: "", chosen: 0 };
  },
  computed: {
    shown() {
      return this.words.trim() ? this.hits : [];
    },
  },
  mounted() {
    document.addEventListener("keydown", this.onKey);
  },
  unmounted() {
    document.removeEventListener("keydown", this.onKey);
  },
  methods: {
    onKey(event) {
      const isWriting = event.target.closest("input, textarea, select, [contenteditable]");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isWriting) return;
      if (document.querySelector(".q-dialog")) return;
      event.preventDefault();
      this.open();
    },
    open() {
      if (!this.$refs.dialog.open) this.$refs.dialog.showModal();
      this.$refs.field.focus();
    },
    close() {
      this.$refs.dialog.close();
    },
    search() {
      this.chosen = 0;
      this.$emit("search", this.words);
    },
    choose(step) {
      const count = this.shown.length;
      if (count) this.chosen = (this.chosen + step + count) % count;
    },
    go(index) {
      const hit = this.shown[index];
      if (hit) window.location.assign(hit.link);
    },
  },
};
