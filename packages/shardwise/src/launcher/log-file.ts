import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';

const KEPT_LINES = 20;

/**
 * A file with everything that one rank wrote, and its last lines in memory. A rank that starts again appends to the
 * file.
 */
export class LogFile {
  readonly path: string;
  readonly #stream: WriteStream;
  readonly #written: Promise<void>;
  readonly #lastLines: string[] = [];

  constructor(path: string) {
    this.path = path;
    this.#stream = createWriteStream(path, { flags: 'a' });
    this.#written = finished(this.#stream);
    // close() reports the error.
    this.#written.catch(() => undefined);
  }

  get lastLines(): readonly string[] {
    return this.#lastLines;
  }

  write(line: string): void {
    this.#stream.write(`${line}\n`);
    this.#lastLines.push(line);
    if (this.#lastLines.length > KEPT_LINES) this.#lastLines.shift();
  }

  async close(): Promise<void> {
    this.#stream.end();
    await this.#written;
  }
}
