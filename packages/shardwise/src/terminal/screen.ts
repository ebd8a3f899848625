/** The part of a terminal stream that the live block needs. */
export interface TerminalStream {
  readonly columns?: number;
  write(text: string): unknown;
}

const DEFAULT_COLUMNS = 80;
const ERASE_BELOW = '\u001B[J';
// oxlint-disable-next-line no-control-regex -- the escape codes that Paint writes
const ESCAPES = /\u001B\[\d+m/g;

/** A block of lines kept at the bottom of the terminal while other lines scroll by above it. */
export class Screen {
  readonly #stream: TerminalStream;
  /** The columns that each line of the block took when it was drawn. */
  #drawn: readonly number[] = [];

  constructor(stream: TerminalStream) {
    this.#stream = stream;
  }

  get columns(): number {
    return this.#stream.columns ?? DEFAULT_COLUMNS;
  }

  /** Replaces the block. The lines of `above` scroll into the terminal's history. */
  draw(block: readonly string[], above: readonly string[] = []): void {
    const text = [...above, ...block].map((line) => `${line}\n`).join('');
    this.#stream.write(this.#erase() + text);
    this.#drawn = block.map((line) => line.replaceAll(ESCAPES, '').length);
  }

  /** Leaves the drawn block on the screen. The next block starts below it. */
  release(): void {
    this.#drawn = [];
  }

  /** Returns the text that erases the block. Its lines take more rows if the terminal has become narrower. */
  #erase(): string {
    const rows = this.#drawn.reduce(
      (sum, width) => sum + Math.max(1, Math.ceil(width / this.columns)),
      0,
    );
    return rows === 0 ? '' : `\u001B[${rows}A\r${ERASE_BELOW}`;
  }
}
