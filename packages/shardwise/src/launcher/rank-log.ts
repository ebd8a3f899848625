import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { OutputStream } from '../terminal/run-output.ts';
import { LineSplitter } from './line-splitter.ts';
import { LogFile } from './log-file.ts';

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
