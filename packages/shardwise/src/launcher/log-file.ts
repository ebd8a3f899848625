import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';

const KEPT_LINES = 20;

/** All that one rank wrote, on disk, and its last lines at hand; a rank that starts again goes on in its file. */
export class LogFile {
  readonly path: string;
  readonly #stream: WriteStream;
  readonly #written: Promise<void>;
  readonly #lastLines: string[] = [];

  constructor(path: string) {
    this.path = path;
    this.#stream = createWriteStream(path, { flags: 'a' });
    this.#written = finished(this.#stream);
    // Reported by close.
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
