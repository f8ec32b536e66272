// Lines over time, distinguished by colour-blind-safe colours and by stroke; the values are shown as text beside them.
export default {
  props: { chart: Object, title: String },
  template: `
    <p v-if="!chart" class="o-empty">Collecting data…</p>
    <figure v-else class="o-chart">
      <svg role="img" :aria-label="chart.label" viewBox="0 0 1000 100" preserveAspectRatio="none">
        <path v-for="(line, index) in chart.lines" :key="line.name" :d="line.path" :class="'o-line-' + index"
              vector-effect="non-scaling-stroke"></path>
      </svg>
      <figcaption>
        <span v-for="(line, index) in chart.lines" :key="line.name" class="o-legend">
          <svg aria-hidden="true" viewBox="0 0 30 10"><path d="M0 5 L30 5" :class="'o-line-' + index"></path></svg>
          {{ line.name }} <b>{{ line.now }}</b>
        </span>
        <span class="o-faint">{{ chart.begin }} to {{ chart.end }}, max {{ chart.most }}</span>
      </figcaption>
    </figure>`,
};
