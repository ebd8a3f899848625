/** Maps values of an axis to pixels. `ticks` are generation numbers within the range. */
export interface Scale {
  (value: number): number;
  readonly ticks: readonly number[];
}

/** Makes a linear scale. Its ticks are 1, 2 or 5 times a power of ten apart. There are about `count` of them. */
export function linearScale(
  [low, high]: readonly [number, number],
  [start, end]: readonly [number, number],
  count: number,
): Scale {
  const range = high - low || 1;
  const rough = range / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor((low + range) / step + 1e-9);
  const ticks = Array.from({ length: Math.max(0, last - first + 1) }, (_, index) =>
    Number(((first + index) * step).toPrecision(12)),
  );
  const scale = (value: number): number => start + ((value - low) / range) * (end - start);
  return Object.assign(scale, { ticks });
}

/**
 * Returns the smallest and largest finite value, extended by `air` times their distance. Returns `[0, 1]` if no value
 * is finite.
 */
export function extent(values: readonly number[], air: number): readonly [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * air;
  return [low - margin, high + margin];
}

/** Writes a generation number as short as possible, such as `0`, `2.5`, `15k`, `3e-4` or `200 MiB`. */
export function formatTick(value: number, unit: string): string {
  if (value === 0) return '0';
  return unit === '' ? compact(value) : `${compact(value)} ${unit}`;
}

function compact(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return value.toExponential();
  if (size >= 1e6) return `${value / 1e6}M`;
  if (size >= 1e3) return `${value / 1e3}k`;
  return size < 1e-2 ? value.toExponential() : String(value);
}
