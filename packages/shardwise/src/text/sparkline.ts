const BARS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/**
 * Draws values with one character per column, each of which is the mean of its share of `values`. Values that are not
 * finite are gaps.
 */
export function sparkline(values: readonly number[], columns: number): string {
  const count = Math.min(columns, values.length);
  const means: number[] = [];
  for (let column = 0; column < count; column += 1) {
    const start = Math.floor((column * values.length) / count);
    const share = values.slice(start, Math.floor(((column + 1) * values.length) / count));
    means.push(share.reduce((sum, value) => sum + value, 0) / share.length);
  }
  const finite = means.filter(Number.isFinite);
  const low = Math.min(...finite);
  const range = Math.max(...finite) - low;
  return means
    .map((mean) => {
      if (!Number.isFinite(mean)) return ' ';
      const level = range === 0 ? 0 : Math.round(((mean - low) / range) * (BARS.length - 1));
      return BARS[level];
    })
    .join('');
}
