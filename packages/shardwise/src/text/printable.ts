// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROLS = /(\u001B\[[\d;]*m)|[\u0000-\u0008\u000B-\u001F\u007F]/g;

/**
 * Makes a text safe to print. Colours stay, and other control characters, which could move the cursor, become U+FFFD.
 */
export function printable(line: string): string {
  return line.replaceAll(CONTROLS, (_, colour?: string) => colour ?? '\uFFFD');
}

/** Makes a text safe to print within a line. */
export function oneLine(text: string): string {
  return printable(text).replaceAll(/\s+/g, ' ');
}
