import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { createWriteStream, type WriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import type { OutputStream } from '../../terminal/run-output.ts';

/** Follows what one rank writes. It passes each line to the launcher, and writes everything to the rank's log. */
export class RankLog {
  readonly #file: LogFile;
  readonly #ended: Promise<unknown>;

  constructor(
    path: string,
    streams: Readonly<Record<OutputStream, Readable>>,
    onLine: (line: string, stream: OutputStream) => void,
  ) {
    this.#file = new LogFile(path);
    const follow = (stream: Readable, name: OutputStream): Promise<unknown> => {
      const lines = new LineSplitter((line) => {
        this.#file.write(line);
        onLine(line, name);
      });
      stream.setEncoding('utf8');
      stream.on('data', (text: string) => lines.write(text));
      return once(stream, 'end').then(() => lines.end());
    };
    this.#ended = Promise.all([follow(streams.stdout, 'stdout'), follow(streams.stderr, 'stderr')]);
  }

  /** Closes the log. Call this when both streams have ended. `lastLines` are the last lines of the file. */
  async close(): Promise<{ readonly logPath: string; readonly lastLines: readonly string[] }> {
    await this.#ended;
    await this.#file.close();
    return { logPath: this.#file.path, lastLines: this.#file.lastLines };
  }
}

const MAX_LINE_CHARACTERS = 64 * 1024;

/** Splits chunks of text into lines. A line without an end is cut at 64 Ki characters. */
class LineSplitter {
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

const KEPT_LINES = 20;

/**
 * A file with everything that one rank wrote, and its last lines in memory. A rank that starts again appends to the
 * file.
 */
class LogFile {
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
