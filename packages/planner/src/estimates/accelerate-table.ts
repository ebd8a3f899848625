import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';

/** A model, in the terms of `accelerate estimate-memory`. */
export interface AccelerateTableOptions {
  readonly name: string;
  /** The bytes of all parameters and buffers in f32. */
  readonly totalBytes: number;
  /** The bytes of the largest layer in f32. */
  readonly largestLayerBytes: number;
}

const tableRules: OptionRules<AccelerateTableOptions> = {
  name: option.required(option.nonEmptyText),
  totalBytes: option.required(option.integer(1)),
  largestLayerBytes: option.required(option.integer(1)),
};

/** How many elements of a dtype take the bytes of one in f32, and the bytes of training, as multiples of those in f32. */
const dtypes = {
  float32: { share: 1, training: 4 },
  float16: { share: 2, training: 2 },
  int8: { share: 4, training: null },
  int4: { share: 8, training: null },
} as const;

const HEADERS = ['dtype', 'Largest Layer', 'Total Size', 'Training using Adam'];

/** The table that `accelerate estimate-memory` prints. */
export function accelerateTable(options: AccelerateTableOptions): string {
  checkOptions('accelerateTable', options, tableRules);
  const { name, totalBytes, largestLayerBytes } = options;
  const rows = Object.entries(dtypes).map(([dtype, { share, training }]) => [
    dtype,
    sizeText(largestLayerBytes / share, share === 1),
    sizeText(totalBytes / share, share === 1),
    training === null ? 'N/A' : sizeText(totalBytes * training, true),
  ]);
  return boxTable(`Memory Usage for loading \`${name}\``, rows);
}

const UNITS = ['bytes', 'KB', 'MB', 'GB', 'TB'];

/** Writes bytes in units of 1024, as accelerate does: fractions without zeros at the end, and whole numbers of bytes. */
function sizeText(bytes: number, isWhole: boolean): string {
  const found = UNITS.findIndex((_, index) => bytes < 1024 ** (index + 1));
  const unit = found < 0 ? UNITS.length - 1 : found;
  const value = Number((bytes / 1024 ** unit).toFixed(2));
  if (!Number.isInteger(value)) return `${value} ${UNITS[unit]}`;
  return `${value.toFixed(unit === 0 && isWhole ? 0 : 1)} ${UNITS[unit]}`;
}

function boxTable(title: string, rows: readonly (readonly string[])[]): string {
  const widths = HEADERS.map((header, column) =>
    Math.max(header.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const ruled = (left: string, middle: string, right: string): string =>
    `${left}${widths.map((width) => '─'.repeat(width)).join(middle)}${right}`;
  const sum = widths.reduce((total, width) => total + width, 0);
  // A long title widens the last column, by twice as much as it needs.
  if (title.length > sum) {
    const last = widths.length - 1;
    const missing = Math.abs(title.length - ruled('├', '┼', '┤').length);
    widths[last] = (widths[last] ?? 0) + 2 * missing;
  }
  const line = (cells: readonly string[]): string =>
    `│${cells.map((cell, column) => centered(cell, widths[column] ?? 0)).join('│')}│`;
  return [
    ruled('┌', '─', '┐'),
    `│${centered(title, ruled('├', '┼', '┤').length - 2)}│`,
    ruled('├', '┬', '┤'),
    line(HEADERS),
    ruled('├', '┼', '┤'),
    ...rows.map(line),
    ruled('└', '┴', '┘'),
  ].join('\n');
}

/** Python's str.center: of an odd number of spaces, the left has one more if the width is odd. */
function centered(text: string, width: number): string {
  const spaces = Math.max(0, width - text.length);
  const left = Math.floor(spaces / 2) + (spaces & width & 1);
  return ' '.repeat(left) + text + ' '.repeat(spaces - left);
}
