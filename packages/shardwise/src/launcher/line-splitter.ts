const MAX_LINE_CHARACTERS = 64 * 1024;

/** Splits chunks of text into lines. A line without an end is cut at 64 Ki characters. */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  write(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#onLine(line.replace(/\r$/, ''));
    if (this.#rest.length > MAX_LINE_CHARACTERS) this.end();
  }

  /** Passes on the text after the last newline as a line. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}
