/** Writes a round number as short as possible: `0`, `2.5`, `15k`, `3e-4`, `200 MiB`. */
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
