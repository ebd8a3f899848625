/** Writes bytes with three significant digits and a unit: `1.53 GiB`. */
export function formatBytes(bytes: number): string {
  return scaled(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
}

/** Writes a count with three significant digits: `12.4k`. */
export function formatCount(value: number): string {
  return scaled(value, 1000, ['', 'k', 'M', 'G', 'T'], '');
}

/** Writes a duration: `2h 05m`, `3m 12s`, `45s`. */
export function formatDuration(milliseconds: number): string {
  const seconds = Math.round(milliseconds / 1000);
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const two = (value: number): string => String(value).padStart(2, '0');
  if (hours > 0) return `${hours}h ${two(minutes % 60)}m`;
  if (minutes > 0) return `${minutes}m ${two(seconds % 60)}s`;
  return `${seconds}s`;
}

/** Writes a duration with three significant digits: `165 ms`, `2.31 s`. */
export function formatMilliseconds(milliseconds: number): string {
  return milliseconds < 1000 ? `${digits(milliseconds)} ms` : `${digits(milliseconds / 1000)} s`;
}

/** Writes a loss with four decimals, or with an exponent if it is tiny or has diverged. */
export function formatLoss(loss: number): string {
  if (!Number.isFinite(loss)) return String(loss);
  const size = Math.abs(loss);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return loss.toExponential(3);
  return loss.toFixed(4);
}

/** Writes whole numbers as they are, and other numbers like a loss. */
export function formatMetric(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : formatLoss(value);
}

function scaled(value: number, base: number, units: readonly string[], space = ' '): string {
  let unit = 0;
  let rest = value;
  while (rest >= base && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(rest) : digits(rest)}${space}${units[unit] ?? ''}`.trim();
}

function digits(value: number): string {
  if (value < 0.005) return '0';
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : 2);
}
